"""SimCLR: contrastive learning of image representations with one encoder and a projection head.

Chen, Kornblith, Norouzi, Hinton 2020, section 2.1 (https://arxiv.org/abs/2002.05709):

    h = f(x̃)        z = g(h) = W⁽²⁾ ReLU(W⁽¹⁾ h)        the loss compares z; after training, only f is kept, that is h
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image

__all__ = ["SimCLR"]


class Projected(NamedTuple):
    """Projections of the first and the second views, (B, d_projection) each: row i of both is of image i."""

    first: Float[Tensor, "B d"]
    second: Float[Tensor, "B d"]


class SimCLR(nn.Module):
    """An encoder and a projection head that is used only in training; `model.encoder(images)` gives the representation h."""

    def __init__(self, encoder: nn.Module, d_encoder: int, d_hidden: int = 128, d_projection: int = 64) -> None:
        """Add a head with one hidden layer and no biases, as in the paper, to an encoder of d_encoder features."""
        super().__init__()
        self.encoder = encoder
        self.project = nn.Sequential(
            nn.Linear(d_encoder, d_hidden, bias=False), nn.ReLU(), nn.Linear(d_hidden, d_projection, bias=False)
        )

    def forward(self, first: Image, second: Image) -> Projected:
        """Project both views of each image, in one batch, so that batch normalisation averages over both."""
        return Projected(*self.project(self.encoder(torch.cat([first, second]))).chunk(2))
