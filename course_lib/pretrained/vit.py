"""Load ViT and DeiT weights from a Hugging Face checkpoint.

Dosovitskiy et al. 2021 (https://arxiv.org/abs/2010.11929) and Touvron et al. 2021 (https://arxiv.org/abs/2012.12877); names of
the tensors as in `transformers` (https://huggingface.co/docs/transformers/model_doc/vit).
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.models import DeiT, ViT
from course_lib.pretrained.checkpoint_reader import Checkpoint, Renaming, load, read_checkpoint, rename

__all__ = ["load_deit", "load_vit"]

_RENAMINGS: tuple[Renaming, ...] = (
    (r"^(?:vit|deit)\.", ""),
    (r"^embeddings\.patch_embeddings\.projection\.", "encoder.project."),
    (r"^embeddings\.position_embeddings$", "encoder.positions"),
    (r"^(?:encoder\.)?layers?\.(?=\d)", "encoder.stack.blocks."),
    (r"^layernorm\.", "encoder.stack.closing."),
    (r"attention\.attention\.([qkv])(?:uery|ey|alue)\.", r"mixer.attention.W_\1."),
    (r"attention\.output\.dense\.", "mixer.attention.W_o."),
    (r"attention\.([qkvo])_proj\.", r"mixer.attention.W_\1."),
    (r"layernorm_before\.", "norm_1."),
    (r"layernorm_after\.", "norm_2."),
    (r"(?:intermediate\.dense|mlp\.fc1)\.", "feed_forward.W_1."),
    (r"(?<=\d\.)(?:output\.dense|mlp\.fc2)\.", "feed_forward.W_2."),
    (r"^(?:cls_)?classifier\.", "head."),
    (r"^distillation_classifier\.", "teacher_head."),
)
"""Published names → ours, applied in order: those of the files, and those of transformers 5."""

_UNUSED = r"^(?:(?:vit|deit)\.)?(?:pooler\.|embeddings\.mask_token$)"
"""Tensors that classification does not use."""


def load_vit(folder: str | Path, mechanism: AnyMechanism = scaled_dot_product_attention) -> ViT:
    """Load ViT with its head from a folder with config.json and safetensors.

    Args:
        folder: as `transformers` writes it by save_pretrained.
        mechanism: as for `ViT`.

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: the checkpoint is damaged, is not a ViT, has no head, or its equations differ from those of `ViT`.
    """
    checkpoint = read_checkpoint(folder, "vit")
    model = ViT(*_arguments(checkpoint, mechanism, ("classifier",)))
    load(checkpoint.folder, model, from_vit(checkpoint.tensors), checkpoint.number("layer_norm_eps", 1e-12, float))
    return model


def load_deit(folder: str | Path, mechanism: AnyMechanism = scaled_dot_product_attention) -> DeiT:
    """Load DeiT with both heads, as `load_vit`."""
    checkpoint = read_checkpoint(folder, "deit")
    model = DeiT(*_arguments(checkpoint, mechanism, ("cls_classifier", "distillation_classifier")))
    load(checkpoint.folder, model, from_vit(checkpoint.tensors), checkpoint.number("layer_norm_eps", 1e-12, float))
    return model


def from_vit(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename and reshape the weights of Hugging Face's ViT or DeiT.

    Args:
        tensors: the state dict of ViTForImageClassification or DeiTForImageClassificationWithTeacher.

    Returns:
        a state dict for `ViT` or `DeiT`.
    """
    weights = rename(tensors, _RENAMINGS, _UNUSED)
    learned = [weights.pop(f"embeddings.{kind}_token", None) for kind in ("cls", "distillation")]
    if found := [token[0] for token in learned if token is not None]:
        weights["encoder.learned"] = torch.cat(found)
    if "encoder.positions" in weights:
        weights["encoder.positions"] = weights["encoder.positions"][0]
    if "encoder.project.weight" in weights:
        weights["encoder.project.weight"] = weights["encoder.project.weight"].flatten(1)
    return weights


def _arguments(checkpoint: Checkpoint, mechanism: AnyMechanism, heads: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the constructor's arguments; ValueError if a head is missing or the equations are not those of the paper."""
    folder = checkpoint.folder
    if not checkpoint.setting("qkv_bias", True):
        raise ValueError(f"{folder}: only a ViT with biases in its attention can be read.")
    wanted = [f"{head}.{kind}" for head in heads for kind in ("weight", "bias")]
    if missing := [name for name in wanted if name not in checkpoint.tensors]:
        raise ValueError(f"{folder} has no weights for {missing}: it was saved without its heads.")
    P_h, P_w = _sides(checkpoint, "patch_size", 16)
    if P_h != P_w:
        raise ValueError(f"{folder}: only square patches can be read, got {P_h} × {P_w}.")
    image = (checkpoint.number("num_channels", 3), *_sides(checkpoint, "image_size", 224))
    n_classes = len(checkpoint.tensors[wanted[1]])
    return n_classes, image, P_h, checkpoint.sizes(), mechanism, checkpoint.activation("hidden_act")


def _sides(checkpoint: Checkpoint, key: str, default: int) -> tuple[int, int]:
    """Look up height and width: config.json has one number for both, or a list of two."""
    found = checkpoint.setting(key, default)
    if not isinstance(found, list):
        return (checkpoint.number(key, default),) * 2
    if len(found) != 2 or any(type(side) is not int or side <= 0 for side in found):
        raise ValueError(f"{checkpoint.folder}: {key!r} in config.json must be a positive int or two of them, got {found}.")
    return found[0], found[1]
