"""Weights that others have trained, read from a folder: `config.json` and safetensors, which hold numbers and no code.

A pickled checkpoint (`pytorch_model.bin`) runs whatever its author wrote as soon as it is opened, and is not read.
safetensors (https://github.com/huggingface/safetensors) is a package that the course needs for nothing else:
`pip install safetensors`.
"""

import json
from pathlib import Path
from typing import NamedTuple

from torch import Tensor


class Checkpoint(NamedTuple):
    """A published model: its `config`, as `config.json` has it, and its `tensors` by their published names."""

    config: dict[str, object]
    tensors: dict[str, Tensor]


def read_checkpoint(folder: str | Path, kind: str) -> Checkpoint:
    """Read the weights of one published model.

    Args:
        folder: holds config.json and model.safetensors, or the parts that model.safetensors.index.json names.
        kind: the `model_type` that config.json must state, such as "gpt2".

    Returns:
        the configuration and the tensors, on the CPU.

    Raises:
        FileNotFoundError: there is no config.json, or no safetensors.
        ValueError: it is another kind of model.
        ImportError: the package safetensors is not installed.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json: name the folder of one model, as save_pretrained writes it.")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") != kind:
        raise ValueError(f"{folder} holds a model of type {config.get('model_type')!r}; {kind!r} is needed.")
    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        tensors |= _load(file)
    return Checkpoint(config, tensors)


def require_tied(tensors: dict[str, Tensor], last: str, embedding: str) -> None:
    """Refuse a published model whose `last` matrix is there and is not its `embedding`: ours are one, the other would be lost.

    Raises:
        ValueError: the two tensors of these names differ.
    """
    if last in tensors and not tensors[last].equal(tensors[embedding]):
        raise ValueError(f"this model has a last matrix of its own, {last}, which differs from its embedding; ours are one.")


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / Path(part).name for part in sorted(set(parts))]
    if not (folder / "model.safetensors").is_file():
        found = sorted(path.name for path in folder.iterdir())
        raise FileNotFoundError(
            f"{folder} has no model.safetensors, only {found}. Pickled weights (*.bin, *.pt) can run code when they are opened "
            "and are not read; download the safetensors, or convert the file where you trust it."
        )
    return [folder / "model.safetensors"]


def _load(file: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise ImportError("to read published weights, install one more package: pip install safetensors") from None
    return load_file(file)
