"""NT-Xent, the loss of SimCLR: find the other view of the same image among the views of all other images.

Chen, Kornblith, Norouzi, Hinton 2020, *A Simple Framework for Contrastive Learning of Visual Representations*, eq. 1 and
algorithm 1 (https://arxiv.org/abs/2002.05709):

    ℓ(i, j) = -log  exp(sim(z_i, z_j) / τ) / Σ_{k ≠ i} exp(sim(z_i, z_k) / τ)        sim(u, v) = uᵀv / (‖u‖ ‖v‖)
    L = 1/2N · Σ over the N pairs of ℓ(i, j) + ℓ(j, i)

That is a cross-entropy: each of the 2N views classifies the 2N - 1 others, and the right class is its partner. Both forms
compute it in float32 at least: in float16, 1 / τ alone may be infinite. `fast.lean_nt_xent` is for 64 pairs or more,
`fast.gathered_nt_xent` for several processes that share one batch.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.normalisation import unit
from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["nt_xent"]

Views = Float[Tensor, "N d"]


def require_pairs(a: Views, b: Views, temperature: float) -> None:
    """Raise a ValueError if there is no pair, and for a temperature that is not positive."""
    if len(a) == 0:
        raise ValueError("need one or more pairs of views, row i of both from one image, got none.")
    if not temperature > 0:
        raise ValueError(f"the temperature must be positive (0.1 to 1 is usual), got {temperature}.")


@shape_checked("Row i of both is of one image.")
@float32_under_autocast
@rounded_from_float32
@requires(require_pairs)
def nt_xent(a: Float[Tensor, "N d"], b: Float[Tensor, "N d"], temperature: float) -> Float[Tensor, ""]:
    """Average -log of the probability that each view assigns to its partner among all views except itself.

    Args:
        a: (N, d), one view of each image, N ≥ 1; only directions count; a zero vector has cosine 0 with all.
        b: (N, d), the other view; row i of `a` and row i of `b` belong together.
        temperature: τ > 0, even so small that exp(1 / τ) overflows. With small values the nearest negatives dominate.

    Returns:
        the mean of ℓ over all 2N views, in nats; 0 for N = 1, log(2N - 1) if all views are equal.

    Raises:
        ValueError: there is no pair, `a` and `b` differ in shape, or τ is not positive.

    Source: Chen et al. 2020, eq. 1 and algorithm 1.
    """
    N = len(a)
    z = unit(torch.cat([a, b]))
    similarity = z @ z.mT / temperature
    itself = torch.eye(2 * N, dtype=torch.bool, device=z.device)
    partner = torch.arange(2 * N, device=z.device).roll(N)
    return F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner)
