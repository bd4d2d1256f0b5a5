"""Bipartite matching of queries to objects (Hungarian method), and two other assignments as baselines.

Kuhn 1955, *The Hungarian Method for the Assignment Problem* (https://doi.org/10.1002/nav.3800020109); as used in DETR, Carion
et al. 2020, eq. 1 (https://arxiv.org/abs/2005.12872). SciPy solves it; each image has its own matrix, N queries × M objects.

    σ̂ = argmin over one-to-one σ of  Σ_i C[σ(i), i]
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from course_lib.optional_import import optional_import
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["match", "match_greedily", "match_in_order"]

Matching = Callable[[Float[Tensor, "B N M"], Int[Tensor, "B M"]], Int[Tensor, "B M"]]
"""Chooses a query for each object, from the costs and the classes; class -1 is padding."""


def _require_queries(cost: Float[Tensor, "B N M"], classes: Int[Tensor, "B M"]) -> None:
    """Raise a ValueError for images with more objects than queries, or costs that are not finite; say how to fix it."""
    most = int((classes >= 0).sum(-1).max()) if classes.numel() else 0
    if most > cost.shape[1]:
        raise ValueError(f"an image has {most} objects, but the model only {cost.shape[1]} queries: each object needs one.")
    if not cost.isfinite().all():
        raise ValueError("a cost of matching is not finite: look for NaN or inf in the logits or boxes of the model.")


def linear_sum_assignment(cost: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Match rows with columns of a matrix by SciPy, which is imported when it is first needed."""
    return optional_import("scipy.optimize", "scipy", "The Hungarian method").linear_sum_assignment(cost)


@shape_checked()
@requires(_require_queries)
def match(cost: Float[Tensor, "B N M"], classes: Int[Tensor, "B M"]) -> Int[Tensor, "B M"]:
    """Optimal one-to-one assignment of queries to objects (Hungarian method): the sum of the costs is minimal.

    Args:
        cost: (B, N, M), the cost of each query for each object, finite.
        classes: (B, M), -1 = no object here.

    Returns:
        the query of each object, (B, M); -1 where there is no object.

    Raises:
        ValueError: an image has more objects than queries, or a cost is not finite.

    Source: Carion et al. 2020, eq. 1.
    """
    real, queries = classes >= 0, torch.full(classes.shape, -1)
    of_objects = cost.detach().cpu().double().mT.numpy()  # (B, M, N)
    for row, costs, here in zip(queries.numpy(), of_objects, real.cpu().numpy(), strict=True):
        row[here] = linear_sum_assignment(costs[here])[1]
    return queries.to(cost.device)


@shape_checked()
@requires(_require_queries)
def match_greedily(cost: Float[Tensor, "B N M"], classes: Int[Tensor, "B M"]) -> Int[Tensor, "B M"]:
    """Greedy assignment (baseline): each object in turn takes the cheapest query that is still free.

    Args:
        cost: (B, N, M).
        classes: (B, M), -1 = no object here.

    Returns:
        the query of each object, (B, M); -1 where there is no object. The result depends on the order of the objects.

    Raises:
        ValueError: as `match`.
    """
    cost = cost.detach().clone()
    queries = torch.full(classes.shape, -1, device=cost.device)
    for m in range(classes.shape[-1] if cost.shape[1] else 0):
        n = cost[:, :, m].argmin(-1)
        here = classes[:, m] >= 0
        queries[here, m] = n[here]
        cost[here, n[here]] = torch.inf
    return queries


@shape_checked()
@requires(_require_queries)
def match_in_order(cost: Float[Tensor, "B N M"], classes: Int[Tensor, "B M"]) -> Int[Tensor, "B M"]:
    """Match objects to queries in index order, regardless of the costs (baseline). Shapes and errors as `match`, (B, M)."""
    real = classes >= 0
    return torch.where(real, real.cumsum(-1) - 1, -1)
