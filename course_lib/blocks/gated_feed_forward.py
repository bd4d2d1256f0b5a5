"""Gated feed-forward network, SwiGLU: one matrix proposes features, another opens or closes them.

Shazeer 2020, *GLU Variants Improve Transformer*, eq. 6 (https://arxiv.org/abs/2002.05202), without biases:

    FFN_SwiGLU(x) = (Swish(x W) ⊙ x V) W₂        Swish(a) = a σ(a)

W is `W_gate`, V is `W_up` and W₂ is `W_down`, as in the code of Llama. There are three matrices instead of two: as many
parameters as a feed-forward network of d_ff hidden units has one of 2/3 d_ff. Swish is `F.silu` in torch.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives.preconditions import shape_checked

__all__ = ["GatedFeedForward", "gated_feed_forward"]


@shape_checked("Matrices are stored as torch.nn.Linear stores them, (out, in); of others pass the transpose, `W.mT`.")
def gated_feed_forward(
    x: Float[Tensor, "*batch T d_model"],
    W_gate: Float[Tensor, "d_ff d_model"],
    W_up: Float[Tensor, "d_ff d_model"],
    W_down: Float[Tensor, "d_model d_ff"],
) -> Float[Tensor, "*batch T d_model"]:
    """Multiply d_ff features by as many gates, which go through Swish, and narrow the products to d_model.

    Args:
        x: (*batch, T, d_model).
        W_gate: W, (d_ff, d_model), stored as torch.nn.Linear stores it: the paper's x W is `x @ W_gate.mT`.
        W_up: V, (d_ff, d_model).
        W_down: W₂, (d_model, d_ff).

    Returns:
        (*batch, T, d_model); no position depends on another.

    Raises:
        ValueError: the matrices do not fit x or one another.

    Source: Shazeer 2020, eq. 6.
    """
    return (F.silu(x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


class GatedFeedForward(nn.Module):
    """The gated network with its weights, `W_gate`, `W_up` and `W_down`: `Block(mixer, GatedFeedForward(64, 172), 64)`."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Set up the three layers, without biases."""
        super().__init__()
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*batch T d_model"]) -> Float[Tensor, "*batch T d_model"]:
        """Transform each position of x (*batch, T, d_model) by itself."""
        return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))
