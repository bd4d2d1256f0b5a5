"""Local self-attention on an image in less time or memory: offset by offset, or tile by tile.

`local_attention` copies the keys and values of every window. `sliced_local_attention` reads shifted views of the image, one for
each offset; `tiled_local_attention` copies the surroundings of a tile once for all its queries (as the halo of Vaswani
et al. 2021, *Scaling Local Self-Attention*, https://arxiv.org/abs/2103.12731).
"""

from functools import reduce

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.attention.core import Attended, ContextOnly, attend, broadcast_shapes, without_overflow
from course_lib.attention.local import (
    ColumnEmbeddings,
    LocalKeys,
    LocalQueries,
    LocalValues,
    RowEmbeddings,
    relative_logits,
    window_side,
)
from course_lib.primitives.preconditions import shape_checked
from course_lib.primitives.windows import window_mask

__all__ = ["sliced_local_attention", "tiled_local_attention"]


TILE = 4
"""Side of a tile of queries: larger tiles copy less halo, but compute more products that the window discards."""


@shape_checked()
@without_overflow
def sliced_local_attention(
    q: LocalQueries, k: LocalKeys, v: LocalValues, rows: RowEmbeddings, columns: ColumnEmbeddings, stride: int = 1
) -> Attended:
    """Compute `local_attention` offset by offset, on shifted views of the image: for small windows, using little memory.

    The softmax is here and not in `attend`, which would need the values of all windows in one tensor. No row of the mask
    is empty: each window contains its centre.
    """
    size = window_side(q, k, rows, stride)
    reach, (H_q, W_q) = size // 2, q.shape[-3:-1]
    k_padded, v_padded = (F.pad(x, (0, 0, reach, reach, reach, reach)) for x in (k, v))
    down = [slice(a, a + stride * H_q, stride) for a in range(size)]
    across = [slice(b, b + stride * W_q, stride) for b in range(size)]
    shifted = [(..., rows_, columns_, slice(None)) for rows_ in down for columns_ in across]
    by_content = torch.stack([(q * k_padded[view]).sum(-1) for view in shifted], dim=-1)
    mask = window_mask(k.shape[-3], k.shape[-2], size, stride, device=k.device)
    scores = by_content + relative_logits(q, rows, columns)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    mixed = (weight.unsqueeze(-1) * v_padded[view] for weight, view in zip(weights.unbind(-1), shifted, strict=True))
    return Attended(reduce(torch.add, mixed), weights)


@shape_checked()
@without_overflow
def tiled_local_attention(
    q: LocalQueries, k: LocalKeys, v: LocalValues, rows: RowEmbeddings, columns: ColumnEmbeddings, stride: int = 1
) -> ContextOnly:
    """Compute the context of `local_attention` tile by tile: TILE × TILE queries against the keys of all their windows.

    The keys around a tile, its halo, are copied once for all its queries, and the scores are one matrix product. Keys
    outside a query's own window, or outside the image, have the score -∞. The weights are None.
    """
    window_side(q, k, rows, stride)
    batch = broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)), rows.shape[:-2], columns.shape[:-2])
    q, k, v = (x.expand(*batch, *x.shape[-3:]) for x in (q, k, v))
    (H_q, W_q), (H, W) = q.shape[-3:-1], k.shape[-3:-1]
    padded = F.pad(q, (0, 0, 0, -W_q % TILE, 0, -H_q % TILE))
    tiles = rearrange(padded, "... (Y i) (X j) d -> ... Y X i j d", i=TILE, j=TILE)
    r_down, inside_down = _offsets(rows, H_q, H, stride)
    r_across, inside_across = _offsets(columns, W_q, W, stride)
    by_row = einsum(tiles[..., : rows.shape[-1]], r_down, "... Y X i j d, ... i a d -> ... Y X i j a")
    by_column = einsum(tiles[..., rows.shape[-1] :], r_across, "... Y X i j d, ... j b d -> ... Y X i j b")
    by_row = by_row.masked_fill(~rearrange(inside_down, "Y i a -> Y 1 i 1 a"), -torch.inf)
    by_column = by_column.masked_fill(~rearrange(inside_across, "X j b -> X 1 j b"), -torch.inf)
    by_position = rearrange(by_row.unsqueeze(-1) + by_column.unsqueeze(-2), "... i j a b -> ... (i j) (a b)")
    queries = rearrange(tiles, "... i j d -> ... (i j) d")
    keys, values = (_halos(x, len(inside_down), len(inside_across), rows.shape[-2], stride) for x in (k, v))
    scores = torch.baddbmm(by_position.flatten(0, -3), queries.flatten(0, -3), keys.flatten(0, -3).mT)
    context = attend(scores, values.flatten(0, -3)).context.unflatten(0, tiles.shape[:-3])
    context = rearrange(context, "... Y X (i j) d -> ... (Y i) (X j) d", i=TILE)
    return ContextOnly(context[..., :H_q, :W_q, :])


def _offsets(
    table: Float[Tensor, "*batch size d"], n_queries: int, n_keys: int, stride: int
) -> tuple[Float[Tensor, "*batch tile halo d"], Bool[Tensor, "n_tiles tile halo"]]:
    """Return, along one axis, the vector of each offset from a query of a tile to its halo, and whether it may attend.

    Queries that only fill the last tile may attend to all keys, so that their softmax, which is discarded, has no NaN.
    """
    size = table.shape[-2]
    queries = stride * torch.arange(TILE, device=table.device)
    halo = torch.arange(stride * (TILE - 1) + size, device=table.device)
    starts = stride * torch.arange(0, n_queries, TILE, device=table.device)
    offset = halo - queries[:, None]
    position = starts[:, None] + halo - size // 2
    in_window = (offset >= 0) & (offset < size)
    in_image = (position >= 0) & (position < n_keys)
    filling = starts[:, None] + queries >= stride * n_queries
    return table[..., offset.clamp(0, size - 1), :], (in_window & in_image[:, None]) | filling[..., None]


def _halos(
    x: Float[Tensor, "*batch H W d"], n_down: int, n_across: int, size: int, stride: int
) -> Float[Tensor, "*batch n_down n_across halo d"]:
    """Extract the halo of each tile, with zeros outside the image."""
    H, W = x.shape[-3:-1]
    reach, side, step = size // 2, stride * (TILE - 1) + size, stride * TILE
    below, right = (step * (n - 1) + side - length - reach for n, length in ((n_down, H), (n_across, W)))
    covered = F.pad(x, (0, 0, reach, right, reach, below)).unfold(-3, side, step).unfold(-3, side, step)
    return rearrange(covered, "... d a b -> ... (a b) d")
