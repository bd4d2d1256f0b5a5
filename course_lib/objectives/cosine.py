"""Vectors of length 1, whose dot products are cosines: what contrastive and bootstrap losses compare.

    sim(u, v) = uᵀv / (‖u‖ ‖v‖)

Chen et al. 2020, section 2.1 (https://arxiv.org/abs/2002.05709).
"""

from jaxtyping import Float
from torch import Tensor


def unit(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Divide each vector by its Euclidean length; the zero vector, which has no direction, stays 0.

    Args:
        x: vectors (*batch, d) of any length: squares that would overflow or vanish are avoided by scaling first.

    Returns:
        vectors (*batch, d) of length 1, or 0; gradients are finite, also at 0.

    Source: Chen et al. 2020, section 2.1, sim(u, v) (https://arxiv.org/abs/2002.05709).
    """
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1.0)
    length = x.norm(dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1.0)
