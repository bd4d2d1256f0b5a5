"""NT-Xent, the loss of SimCLR: find the other view of the same image among the views of all other images.

Chen, Kornblith, Norouzi, Hinton 2020, *A Simple Framework for Contrastive Learning of Visual Representations*, eq. 1 and
algorithm 1 (https://arxiv.org/abs/2002.05709):

    ℓ(i, j) = -log  exp(sim(z_i, z_j) / τ) / Σ_{k ≠ i} exp(sim(z_i, z_k) / τ)        sim(u, v) = uᵀv / (‖u‖ ‖v‖)
    L = 1/2N · Σ over the N pairs of ℓ(i, j) + ℓ(j, i)

That is a cross-entropy: each of the 2N views classifies the 2N - 1 others, and the right class is its partner. Both forms
compute it in float32 at least: in float16, 1 / τ alone may be infinite.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.normalisation import unit
from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32

Views = Float[Tensor, "N d"]


@float32_under_autocast
@rounded_from_float32
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
    require_pairs(a, b, temperature)
    N = len(a)
    z = unit(torch.cat([a, b]))
    similarity = z @ z.mT / temperature
    itself = torch.eye(2 * N, dtype=torch.bool, device=z.device)
    partner = torch.arange(2 * N, device=z.device).roll(N)
    return F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner)


@float32_under_autocast
@rounded_from_float32
def lean_nt_xent(a: Views, b: Views, temperature: float) -> Float[Tensor, ""]:
    """Compute `nt_xent` with a single 2N × 2N matrix: τ^-½ scales the vectors, and the backward pass is explicit.

    If the gradient must be differentiable itself, P is recomputed by autograd, with further matrices.
    """
    require_pairs(a, b, temperature)
    first, second = z = unit(torch.stack([a, b])) * temperature**-0.5
    return _Crowd.apply(z.flatten(0, 1)) - (first * second).sum(-1).mean()


class _Crowd(torch.autograd.Function):
    """The mean over i of log Σ_{k ≠ i} exp(z_iᵀ z_k), and its gradient (P + Pᵀ) z / n, P the softmax of each row.

    Plain autograd stores the scores and a copy without the diagonal, and makes two more in the backward pass. Here each
    exponential is computed once, in place: P = E / s, with s the row sums of E; only (n, d) tensors are divided by s.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Take vectors (n, d), n ≥ 2; the scores (n, n) are overwritten by E."""
        scores = (z @ z.mT).fill_diagonal_(-torch.inf)
        highest = scores.amax(-1, keepdim=True)
        E = scores.sub_(highest).exp_()
        sums = E.sum(-1, keepdim=True)
        ctx.save_for_backward(z, E, sums)
        return (highest + sums.log()).mean()

    @staticmethod
    @float32_under_autocast
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient (n, d), with a graph if requested."""
        z, E, sums = ctx.saved_tensors
        if torch.is_grad_enabled():
            itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
            E, sums = (z @ z.mT).masked_fill(itself, -torch.inf).softmax(-1), torch.ones_like(sums)
        return (E @ z / sums + E.mT @ (z / sums)) * (gradient / len(z))


def require_pairs(a: Views, b: Views, temperature: float) -> None:
    """Raise an error for unpaired views, and for a temperature that is not positive."""
    if a.shape != b.shape or len(a) == 0:
        raise ValueError(
            f"need one or more pairs: views (N, d) and (N, d) with row i of both from one image, got {tuple(a.shape)} and "
            f"{tuple(b.shape)}."
        )
    if not temperature > 0:
        raise ValueError(f"the temperature must be positive (0.1 to 1 is usual), got {temperature}.")
