"""Position-wise feed-forward network: the same two-layer network at every position, the half of a block that mixes channels.

Vaswani et al. 2017, section 3.3, eq. 2 (https://arxiv.org/abs/1706.03762):

    FFN(x) = φ(x W₁ + b₁) W₂ + b₂        φ = ReLU there, GELU in GPT and BERT

Two convolutions with kernels of size 1 are the same thing.
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def feed_forward(
    x: Float[Tensor, "*batch T d_model"],
    W_1: Float[Tensor, "d_ff d_model"],
    b_1: Float[Tensor, "d_ff"],
    W_2: Float[Tensor, "d_model d_ff"],
    b_2: Float[Tensor, "d_model"],
) -> Float[Tensor, "*batch T d_model"]:
    """Widen each position to d_ff features, cut off what is negative, and narrow it again.

    Args:
        x: (*batch, T, d_model).
        W_1: (d_ff, d_model), stored as torch.nn.Linear stores it: the paper's x W₁ is `x @ W_1.mT`.
        b_1: (d_ff,).
        W_2: (d_model, d_ff).
        b_2: (d_model,).

    Returns:
        (*batch, T, d_model); no position sees another.

    Source: Vaswani et al. 2017, eq. 2.
    """
    return (x @ W_1.mT + b_1).relu() @ W_2.mT + b_2


class FeedForward(nn.Module):
    """The position-wise network with its weights: two linear layers `W_1`, `W_2` and an activation between them."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        """Set up both layers; the activation is any function of a tensor, such as `F.gelu`."""
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Float[Tensor, "*batch T d_model"]) -> Float[Tensor, "*batch T d_model"]:
        """Transform each position of x (*batch, T, d_model) by itself."""
        return self.W_2(self.activation(self.W_1(x)))
