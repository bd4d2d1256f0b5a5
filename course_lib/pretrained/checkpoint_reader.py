"""Read a published checkpoint: `config.json` and safetensors in one folder, as Hugging Face's save_pretrained writes them.

A pickled checkpoint (`pytorch_model.bin`) can run code when it is opened, and is not read. safetensors files
(https://github.com/huggingface/safetensors) contain only numbers; the package is needed only here:
`pip install safetensors`.

A checkpoint is read completely or refused: a missing setting or tensor, and a tensor that the model does not have, are errors
that name the folder and the key.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks.block import Activation, Sizes

Number = TypeVar("Number", int, float)
Renaming = tuple[str, str | Callable[[re.Match[str]], str]]
"""A regular expression and its replacement, as `re.sub` takes them."""

_exact_gelu, _tanh_gelu = F.gelu, partial(F.gelu, approximate="tanh")

ACTIVATIONS: dict[str, Activation] = {
    "gelu": _exact_gelu,
    "gelu_python": _exact_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": F.relu,
}
"""The activations of published models, by the names in their configurations."""


class Checkpoint(NamedTuple):
    """A published model: its `folder`, its `config` as in config.json, and its `tensors` by their published names."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def setting(self, key: str, default: Any = None) -> Any:
        """Look up a setting of config.json.

        Args:
            key: its name.
            default: its value if config.json does not state it; None = it is required.

        Raises:
            ValueError: config.json does not have the key, and there is no default.
        """
        found = self.config.get(key)
        if found is None and default is None:
            raise ValueError(f"{self.folder}: config.json has no {key!r}.")
        return default if found is None else found

    def number(self, key: str, default: Number | None = None, kind: type[Number] = int) -> Number:
        """Look up a positive number of the given type: an int for a size, or a float for an ε.

        Raises:
            ValueError: it has another type, such as a string, or is missing without a default.
        """
        found = self.setting(key, default)
        if type(found) is not kind or found <= 0:
            raise ValueError(f"{self.folder}: {key!r} in config.json must be a positive {kind.__name__}, got {found!r}.")
        return found

    def sizes(self) -> Sizes:
        """Look up the sizes of a transformer, by the names that BERT, Llama and ViT share."""
        names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")
        return Sizes(*(self.number(name) for name in names))

    def activation(self, key: str, default: str = "gelu") -> Activation:
        """Look up an activation by its published name.

        Raises:
            ValueError: it is not one of `ACTIVATIONS`.
        """
        name = self.setting(key, default)
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise ValueError(f"{self.folder}: the activation {name!r} is none of {sorted(ACTIVATIONS)}.")
        return ACTIVATIONS[name]

    def require_tied(self, last: str, *first: str) -> None:
        """Raise a ValueError if an output matrix, or its bias, differs from another tensor: the models here use one for both.

        Args:
            last: its name; if the checkpoint does not contain it, it is tied.
            first: possible names of the other tensor, with or without a prefix.

        Raises:
            ValueError: the checkpoint contains both, and they differ.
        """
        for name in first:
            if last in self.tensors and name in self.tensors and not self.tensors[last].equal(self.tensors[name]):
                raise ValueError(f"{self.folder}: the tensor {last} differs from {name}; here they are one.")


def read_checkpoint(folder: str | Path, *kinds: str, others: Mapping[str, str] | None = None) -> Checkpoint:
    """Read the configuration and the tensors of one published model.

    Args:
        folder: contains config.json and model.safetensors, or the parts that model.safetensors.index.json names.
        kinds: the `model_type` that config.json must state, such as "gpt2"; one of several.
        others: what other types have that those do not, for the error.

    Returns:
        the configuration and the tensors, on the CPU.

    Raises:
        FileNotFoundError: there is no config.json, no safetensors, or a part is missing.
        ValueError: it is another kind of model, or a file is damaged.
        ImportError: the package safetensors is not installed.
    """
    folder = Path(folder)
    config = _read_json(folder / "config.json")
    if (kind := config.get("model_type")) not in kinds:
        expected = " or ".join(map(repr, kinds))
        why = f", which has {others[str(kind)]}" if others and str(kind) in others else ""
        raise ValueError(f"{folder} contains a model of type {kind!r}{why}; {expected} is expected.")
    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        tensors |= _load(file)
    return Checkpoint(folder, config, tensors)


def rename(tensors: dict[str, Tensor], renamings: Iterable[Renaming], unused: str = r"(?!)") -> dict[str, Tensor]:
    """Rename published tensors to the names of a model here.

    Args:
        tensors: by their published names.
        renamings: applied to each name, in order.
        unused: matches the published names to leave out, such as buffers and heads of other tasks; none by default.

    Returns:
        the other tensors. A name that matches no renaming is kept, so that `load` refuses it.
    """
    renamed = {}
    for published, tensor in tensors.items():
        if re.search(unused, published):
            continue
        name = published
        for pattern, replacement in renamings:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    return renamed


def load(folder: Path, model: nn.Module, weights: dict[str, Tensor], epsilon: float) -> None:
    """Load weights into a model, and set the ε of its norms.

    Args:
        folder: that of the checkpoint, which the errors name.
        model: changed in place.
        weights: exactly the tensors of `model.state_dict()`, with the same names.
        epsilon: added to the variance in each layer norm, or to the mean square in each RMSNorm.

    Raises:
        RuntimeError: a tensor is missing, unknown, or of another shape.
        ValueError: a tensor holds integers or numbers of 8 bits, which mean something else with their scales.
    """
    if packed := [name for name, tensor in weights.items() if tensor.dtype.itemsize < 2 or not tensor.is_floating_point()]:
        raise ValueError(f"{folder}: {packed[0]} has the type {weights[packed[0]].dtype}; quantized weights cannot be read.")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise RuntimeError(f"{folder}: {error}") from None
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.eps = epsilon


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} must contain a JSON object, not a {type(content).__name__}.")
    return content


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = _read_json(index).get("weight_map")
        if not parts or not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
            raise ValueError(f"{index} has no 'weight_map' from names of tensors to names of files.")
        files = [folder / Path(part).name for part in sorted(set(parts.values()))]
        if missing := [file.name for file in files if not file.is_file()]:
            raise FileNotFoundError(f"{folder} has no {missing}, which {index.name} names.")
        return files
    if not (folder / "model.safetensors").is_file():
        found = sorted(path.name for path in folder.iterdir())
        raise FileNotFoundError(
            f"{folder} has no model.safetensors, only {found}. Pickled weights (*.bin, *.pt) can run code and are not read."
        )
    return [folder / "model.safetensors"]


def _load(file: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise ImportError("to read published weights, install one more package: pip install safetensors") from None
    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {error}") from None
