"""NT-Xent from half of the matrix of scores, and NT-Xent over the views of several processes.

Chen et al. 2020, section 2.2 (https://arxiv.org/abs/2002.05709), train with batches of thousands of pairs, more than fit on one
device. Process r keeps its n pairs; the projections of all P processes are gathered, N = P n:

    L_r = 1/2n · Σ over the views i of process r of  -log exp(s_ij) / Σ_{k ≠ i} exp(s_ik)        k over the 2N views of all
    L = 1/P · Σ_r L_r                                                     s_ik = sim(z_i, z_k) / τ, j the partner of i

L is the loss of one process with all N pairs; and as `DistributedDataParallel` averages gradients over the processes, so is its
gradient. Start the processes with `torchrun`: docs/several_devices.md shows how.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.losses.nt_xent import Views, nt_xent, require_pairs
from course_lib.primitives.normalisation import unit
from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import shape_checked, under_transform

__all__ = ["gathered_nt_xent", "lean_nt_xent"]


LEAST_TEMPERATURE = 0.025
"""From here on exp(-2 / τ), the smallest exponential that the lean form can meet, is a normal number in float32."""
FEWEST_PAIRS = 64
"""For fewer the equation is faster: its operations are few."""
BAND = 128
"""Rows of the matrix that are computed at once: a band of 2,048 columns fits a processor's cache."""


@shape_checked(of=nt_xent)
@float32_under_autocast
@rounded_from_float32
def lean_nt_xent(a: Views, b: Views, temperature: float) -> Float[Tensor, ""]:
    """Compute `nt_xent` from half of its matrix: the scores are symmetric, and at most 1 / τ.

    Below 64 pairs or τ = 0.025 it is `nt_xent` itself. If the gradient must be differentiable, P is recomputed by autograd,
    with further matrices.
    """
    if len(a) < FEWEST_PAIRS or not temperature >= LEAST_TEMPERATURE or under_transform(a, b):
        return nt_xent(a, b, temperature)
    first, second = z = unit(torch.stack([a, b])) * temperature**-0.5
    return _Crowd.apply(z.flatten(0, 1), 1 / temperature) - (first * second).sum(-1).mean()


class _Crowd(torch.autograd.Function):
    """The mean over i of log Σ_{k ≠ i} exp(z_iᵀ z_k), and its gradient (P + Pᵀ) z / n, P the softmax of each row.

    Plain autograd stores the scores and a copy without the diagonal, and makes two more in the backward pass. Here each
    exponential E_ik = E_ki is computed once, in bands of rows that begin at the diagonal, and s_i = Σ_k E_ik is summed from
    rows and columns. Then P_ik + P_ki = E_ik (1 / s_i + 1 / s_k), which is symmetric, too.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, highest: float) -> Tensor:
        """Take vectors (n, d), n ≥ 2, and the highest possible score, ‖z_i‖²."""
        sums, ones, bands = z.new_zeros(len(z)), z.new_ones(len(z)), []
        for i, rows in _bands(z):
            E = torch.addmm(z.new_tensor(-highest), rows, z[i:].mT).exp_()  # (r, n - i)
            E[:, : len(rows)].fill_diagonal_(0.0)
            sums[i : i + len(rows)].addmv_(E, ones[i:])
            sums[i + len(rows) :].addmv_(E[:, len(rows) :].mT, ones[: len(rows)])
            bands.append(E)
        ctx.save_for_backward(z, sums, *bands)
        return highest + sums.log().mean()

    @staticmethod
    @float32_under_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient (n, d), with a graph if requested."""
        z, sums, *bands = ctx.saved_tensors
        if torch.is_grad_enabled():
            itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
            P = (z @ z.mT).masked_fill(itself, -torch.inf).softmax(-1)
            return (P + P.mT) @ z * (gradient / len(z)), None
        product, inverse = torch.zeros_like(z), sums.reciprocal()
        for (i, rows), E in zip(_bands(z), bands, strict=True):
            both = (inverse[i : i + len(rows), None] + inverse[i:]).mul_(E)  # (r, n - i)
            product[i : i + len(rows)].addmm_(both, z[i:])
            product[i + len(rows) :].addmm_(both[:, len(rows) :].mT, rows)
        return product * (gradient / len(z)), None


def _bands(z: Tensor) -> Iterator[tuple[int, Tensor]]:
    for i in range(0, len(z), BAND):
        yield i, z[i : i + BAND]


class _Gather(torch.autograd.Function):
    """Stack the rows of all processes in the order of their ranks; each receives the summed gradients of its rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        """Gather (P · n, d)."""
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Sum over the processes, and keep this process's rows."""
        return _SumOfOwn.apply(gradient, ctx.group), None


class _SumOfOwn(torch.autograd.Function):
    """Sum rows (P · n, d) over all processes, and keep this process's n. `_Gather` and this are each other's gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        """Sum and keep (n, d)."""
        ctx.group = group
        sums = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(sums, group=group)
        return sums.chunk(dist.get_world_size(group))[dist.get_rank(group)]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Gather the tensors of all processes."""
        return _Gather.apply(gradient, ctx.group), None


@shape_checked(of=nt_xent)
@float32_under_autocast
@rounded_from_float32
def gathered_nt_xent(a: Views, b: Views, temperature: float, group: dist.ProcessGroup | None = None) -> Float[Tensor, ""]:
    """Average ℓ over the views of this process, among the views of all processes.

    Args:
        a: (n, d), one view of each image of this process; n must be the same in all.
        b: (n, d), the other view.
        temperature: τ > 0.
        group: the processes; all of them if None.

    Returns:
        L_r. Its mean over the processes is `nt_xent` of all pairs, and so is the mean of its gradients by shared weights.

    Raises:
        ValueError: there is no pair, `a` and `b` differ in shape, or τ is not positive; or torch.distributed was not started.

    Source: Chen et al. 2020, eq. 1 and section 2.2.
    """
    require_pairs(a, b, temperature)
    n, first = len(a), dist.get_rank(group) * len(a)
    z = unit(torch.stack([a, b], dim=1))
    everyone = _Gather.apply(z, group)
    similarity = z.flatten(0, 1) @ everyone.flatten(0, 1).mT / temperature
    itself = torch.arange(2 * n, device=z.device) + 2 * first
    partner = itself ^ 1
    return F.cross_entropy(similarity.scatter(1, itself[:, None], -torch.inf), partner)
