"""DeiT: a Vision Transformer with a distillation token, trained to match a teacher.

Touvron et al. 2021, *Training data-efficient image transformers & distillation through attention*, section 4
(https://arxiv.org/abs/2012.12877), with z_L^0 the class token after the last block and z_L^1 the distillation token:

    by_class = W LN(z_L^0) + b        by_teacher = W' LN(z_L^1) + b'        p = ½ softmax(by_class) + ½ softmax(by_teacher)

The first learns from the labels, the second from the teacher, ½ CE(by_class, y) + ½ CE(by_teacher, argmax of the teacher)
(eq. 3). There is no dropout, as in the
paper (table 9); the stochastic depth of its training is not implemented.
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import nn

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.blocks.block import Activation, Sizes, zero_head
from course_lib.models.vit import PatchEncoder
from course_lib.shapes import Image, Logits

__all__ = ["DeiT"]


class DeiTLogits(NamedTuple):
    """Logits (B, n_classes) of the class token, and of the distillation token."""

    by_class: Logits
    by_teacher: Logits

    def probabilities(self) -> Logits:
        """Average the probabilities of the two heads, (B, n_classes). Source: Touvron et al. 2021, section 4."""
        return (self.by_class.softmax(-1) + self.by_teacher.softmax(-1)) / 2


class DeiT(nn.Module):
    """Classifies images twice, by two tokens of one encoder: owns `encoder`, `head` and `teacher_head`."""

    def __init__(
        self,
        n_classes: int,
        image: tuple[int, int, int],
        P: int,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        activation: Activation = F.gelu,
    ) -> None:
        """Set up for n_classes; the rest as `PatchEncoder`."""
        super().__init__()
        self.encoder = PatchEncoder(image, P, sizes, mechanism, 2, activation)
        self.head = zero_head(sizes.d_model, n_classes)
        self.teacher_head = zero_head(sizes.d_model, n_classes)

    def forward(self, images: Image) -> DeiTLogits:
        """Logits (B, n_classes) of both heads for images (B, C, H, W), of any size that P divides."""
        states = self.encoder(images)
        return DeiTLogits(self.head(states[:, 0]), self.teacher_head(states[:, 1]))
