"""The weights of ViT and DeiT as Hugging Face names them, under our names."""

import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.blocks.stack import Sizes
from course_lib.pretrained.checkpoint_reader import read_checkpoint


class PublishedViT(NamedTuple):
    """What config.json says of a ViT or DeiT: channels, height and width of images, patches, sizes, ε; and the tensors."""

    image: tuple[int, int, int]
    P: int
    sizes: Sizes
    epsilon: float
    tensors: dict[str, Tensor]

    def set_epsilon(self, model: nn.Module) -> None:
        """Give the norms of a model the ε of this one."""
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = self.epsilon


def read_vit(folder: str | Path, kind: str) -> PublishedViT:
    """Read a ViT with its head.

    Args:
        folder: holds config.json and safetensors.
        kind: "vit" or "deit".

    Raises:
        FileNotFoundError, ImportError: as `read_checkpoint`.
        ValueError: it is another kind of model, has no head, or its equations are not those of the paper.
    """
    config, tensors = read_checkpoint(folder, kind)
    if config.get("hidden_act", "gelu") != "gelu" or not config.get("qkv_bias", True):
        raise ValueError(f"{folder}: only a ViT with GELU, and with biases in its attention, can be read.")
    P, side = (config.get(name, usual) for name, usual in (("patch_size", 16), ("image_size", 224)))
    if not isinstance(P, int):
        raise ValueError(f"{folder}: only square patches can be read, got {P}.")
    heads = {"vit": ("classifier",), "deit": ("cls_classifier", "distillation_classifier")}[kind]
    if missing := [head for head in heads if f"{head}.weight" not in tensors]:
        raise ValueError(f"{folder} has no weights for {missing}: it was saved without its heads.")
    H, W = (side, side) if isinstance(side, int) else side
    sizes = (config[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"))
    image = (config.get("num_channels", 3), H, W)
    return PublishedViT(image, P, Sizes(*sizes), config.get("layer_norm_eps", 1e-12), tensors)


_RENAMED = (
    (r"^(?:vit|deit)\.", ""),
    (r"^embeddings\.patch_embeddings\.projection\.", "encoder.project."),
    (r"^embeddings\.position_embeddings$", "encoder.positions"),
    (r"^(?:encoder\.)?layers?\.(?=\d)", "encoder.stack.blocks."),
    (r"^layernorm\.", "encoder.stack.closing."),
    (r"attention\.attention\.(?:query|key|value)\.", lambda found: f"mixer.attention.W_{found[0].split('.')[-2][0]}."),
    (r"attention\.output\.dense\.", "mixer.attention.W_o."),
    (r"attention\.([qkvo])_proj\.", r"mixer.attention.W_\1."),
    (r"layernorm_before\.", "norm_1."),
    (r"layernorm_after\.", "norm_2."),
    (r"(?:intermediate\.dense|mlp\.fc1)\.", "feed_forward.W_1."),
    (r"(?<=\d\.)(?:output\.dense|mlp\.fc2)\.", "feed_forward.W_2."),
    (r"^(?:cls_)?classifier\.", "head."),
    (r"^distillation_classifier\.", "teacher_head."),
)
"""Their names → ours, one after the other: those of the files, and those of transformers 5."""


def from_vit(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights of Hugging Face's ViT or DeiT our names and shapes.

    Args:
        tensors: the state dict of ViTForImageClassification or DeiTForImageClassificationWithTeacher.

    Returns:
        a state dict for `ViT` or `DeiT`; what else is there, such as a pooler, is left out.
    """
    named = {}
    for name, tensor in tensors.items():
        for pattern, new in _RENAMED:
            name = re.sub(pattern, new, name)
        named[name] = tensor
    learned = [named.pop(f"embeddings.{kind}_token", None) for kind in ("cls", "distillation")]
    named["encoder.learned"] = torch.cat([token[0] for token in learned if token is not None])
    named["encoder.positions"] = named["encoder.positions"][0]
    named["encoder.project.weight"] = named["encoder.project.weight"].flatten(1)
    return {name: tensor for name, tensor in named.items() if re.match(r"(?:encoder|head|teacher_head)\.", name)}
