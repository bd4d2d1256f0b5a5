"""Exercise 19.2, tiled_attention: what students answer, wrong and right."""

import math
from functools import reduce

import torch

from course_lib.attention import Partial, merge, partial_attention, scaled_dot_product_attention, tiled_attention
from course_lib.attention.core import ContextOnly
from course_tools.checks.comparisons import AtMost
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Loop over the starts of the tiles: `range(0, T_k, tile)`. Which rows of k and v, and which columns of the mask, "
        "belong to the tile that begins at 64?"
    ),
    (
        "Call `partial_attention(q, K, V, M)` for each tile, with its part of the mask, or None. Merge what it returns into "
        "what you have kept so far by `merge`. After the last tile, the first of the three results is the context."
    ),
    (
        "A slice from `start` to `start + tile` cuts the second last axis of k and v, and the last of the mask; at "
        "the end it is shorter by itself. The first tile has nothing to merge with: begin with None, and keep its "
        "three results as they are. What to return is a `ContextOnly`."
    ),
)


def _slices(T_k, tile):
    return [slice(start, start + tile) for start in range(0, T_k, tile)]


def _part(q, k, v, mask, at):
    return partial_attention(q, k[..., at, :], v[..., at, :], None if mask is None else mask[..., at])


def _parts(q, k, v, mask, tile):
    mask = None if mask is None else mask.expand(*mask.shape[:-1], k.shape[-2])
    return [_part(q, k, v, mask, at) for at in _slices(k.shape[-2], tile)]


def _exponentials(q, k, mask, at):
    """Exponentials of a tile's scores, without a maximum."""
    scores = q @ k[..., at, :].mT / math.sqrt(k.shape[-1])
    return (
        scores if mask is None else scores.masked_fill(~mask.expand(*scores.shape[:-1], k.shape[-2])[..., at], -torch.inf)
    ).exp()


@wrong.idea
def computes_all_weights(q, k, v, mask=None, tile=64):
    """Your result is right, but T · T numbers are in memory at one time: all scores, as one tensor or as a list of tiles, or a
    mask that you make. Of each tile, keep what `partial_attention` returns, and let its scores go before the next one."""
    return ContextOnly(scaled_dot_product_attention(q, k, v, mask).context)


@wrong.idea
def cuts_the_weights(q, k, v, mask=None, tile=64):
    """Your result is right, but you compute the weights of all keys first, and cut them: the whole table is in memory. Take the
    keys of one tile before you compute any score."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1).nan_to_num()
    return ContextOnly(sum(weights[..., at] @ v[..., at, :] for at in _slices(k.shape[-2], tile)))


@wrong.detail
def ignores_the_tile(q, k, v, mask=None, tile=64):
    """Your result is right, but your tiles always have 64 keys, whatever `tile` is. It says how many keys a tile has, and so
    how much memory is taken: use it in the loop and in the slices."""
    return ContextOnly(reduce(merge, _parts(q, k, v, mask, 64)).context)


@wrong.detail
def gives_each_tile_the_whole_mask(q, k, v, mask=None, tile=64):
    """You give each tile the whole mask. It has a column for each key, and a tile needs the columns of its own: `mask[...,
    start : start + tile]`."""
    parts = [partial_attention(q, k[..., at, :], v[..., at, :], mask) for at in _slices(k.shape[-2], tile)]
    return ContextOnly(reduce(merge, parts).context)


@wrong.detail
def cuts_the_rows_of_the_mask(q, k, v, mask=None, tile=64):
    """You cut the rows of the mask. They belong to the queries, and a tile has all of them: its keys are the columns, the last
    axis."""
    parts = [
        partial_attention(q, k[..., at, :], v[..., at, :], None if mask is None else mask[..., at, :])
        for at in _slices(k.shape[-2], tile)
    ]
    return ContextOnly(reduce(merge, parts).context)


@wrong.detail
def cuts_the_first_axis(q, k, v, mask=None, tile=64):
    """You cut the first axis of k and v. With a batch in front it holds the sequences: the keys are the last axis but one,
    `k[..., start : start + tile, :]`."""
    parts = [partial_attention(q, k[at], v[at], None if mask is None else mask[..., at]) for at in _slices(k.shape[-2], tile)]
    return ContextOnly(reduce(merge, parts).context)


@wrong.part
def stacks_the_tiles(q, k, v, mask=None, tile=64):
    """Your result is right, but you keep the contexts of all tiles before you merge them: that is a row for each query and
    tile. Merge each tile into what you keep as soon as it is there."""
    context, maximum, total = (torch.stack(parts) for parts in zip(*_parts(q, k, v, mask, tile), strict=True))
    largest = maximum.amax(0)
    weights = total * (maximum - torch.where(largest == -torch.inf, 0.0, largest)).exp()
    total = weights.sum(0)
    return ContextOnly((weights[..., None] * context).sum(0) / torch.where(total == 0, 1.0, total)[..., None])


@wrong.idea
def averages_the_tiles(q, k, v, mask=None, tile=64):
    """You take the mean of the contexts of all tiles. Tiles whose scores are large have more of the weight: `merge` knows how
    much."""
    parts = _parts(q, k, v, mask, tile)
    return ContextOnly(sum(part.context for part in parts) / len(parts))


@wrong.idea
def adds_the_tiles(q, k, v, mask=None, tile=64):
    """You add the contexts of all tiles. Each is a mean of values by itself: `merge` weighs them, so that their weights add up
    to 1."""
    return ContextOnly(sum(part.context for part in _parts(q, k, v, mask, tile)))


@wrong.idea
def returns_the_last_tile(q, k, v, mask=None, tile=64):
    """You return the context of the last tile. Keep what was merged so far, and merge each tile into it."""
    return ContextOnly(_parts(q, k, v, mask, tile)[-1].context)


@wrong.part
def weighs_by_totals_alone(q, k, v, mask=None, tile=64):
    """You weigh the tiles by their totals, but each total is counted in units of its own maximum. Rescale as `merge` does."""
    parts = _parts(q, k, v, mask, tile)
    total = sum(part.total for part in parts)[..., None]
    return ContextOnly(sum(part.total[..., None] * part.context for part in parts) / torch.where(total == 0, 1.0, total))


@wrong.part
def never_uses_the_mask(q, k, v, mask=None, tile=64):
    """You never use the mask. Give each tile the columns of the mask that belong to its keys."""
    return ContextOnly(reduce(merge, _parts(q, k, v, None, tile)).context)


@wrong.part
def attends_within_blocks(q, k, v, mask=None, tile=64):
    """You cut the queries too, and each block of queries sees the keys of its own block alone. Every query meets every tile of
    keys."""
    found = []
    for at in _slices(max(q.shape[-2], k.shape[-2]), tile):
        rows = None if mask is None else mask.expand(*mask.shape[:-2], q.shape[-2], k.shape[-2])[..., at, :]
        found.append(_part(q[..., at, :], k, v, rows, at).context)
    return ContextOnly(torch.cat(found, dim=-2))


@wrong.detail
def drops_the_last_tile(q, k, v, mask=None, tile=64):
    """You loop over T_k // tile tiles, and so lose the keys of the last one where it is smaller. Loop over `range(0, T_k,
    tile)`; a slice ends at the last key by itself."""
    n = k.shape[-2] // tile * tile
    if not n:
        return ContextOnly(torch.zeros(*q.shape[:-1], v.shape[-1]))
    mask = None if mask is None else mask[..., :n]
    return ContextOnly(reduce(merge, _parts(q, k[..., :n, :], v[..., :n, :], mask, tile)).context)


@wrong.detail
def fills_up_the_last_tile(q, k, v, mask=None, tile=64):
    """You fill up the last tile with zeros, and your queries attend to them: a key of zeros has the score 0, not -∞. Let the
    last tile be smaller, or mask what was added."""
    added = -k.shape[-2] % tile
    if mask is not None:
        mask = torch.nn.functional.pad(mask.expand(*mask.shape[:-2], q.shape[-2], k.shape[-2]), (0, added), value=True)
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, added)) for x in (k, v))
    return ContextOnly(reduce(merge, _parts(q, k, v, mask, tile)).context)


@wrong.detail
def masks_by_the_first_columns(q, k, v, mask=None, tile=64):
    """You give each tile the first columns of the mask. The tile that begins at key 64 needs the columns from 64 on:
    `mask[..., start : start + tile]`."""
    parts = []
    for at in _slices(k.shape[-2], tile):
        n = k[..., at, :].shape[-2]
        parts.append(partial_attention(q, k[..., at, :], v[..., at, :], None if mask is None else mask[..., :n]))
    return ContextOnly(reduce(merge, parts).context)


@wrong.detail
def does_not_scale(q, k, v, mask=None, tile=64):
    """Your scores are not divided by √d_k."""
    return ContextOnly(reduce(merge, _parts(q * math.sqrt(k.shape[-1]), k, v, mask, tile)).context)


@wrong.detail
def skips_a_key_between_tiles(q, k, v, mask=None, tile=64):
    """You leave out the last key of each tile: the end of a slice does not belong to it, so it is `start + tile`, not `start +
    tile - 1`."""
    parts = [_part(q, k, v, mask, slice(at.start, max(at.stop - 1, at.start + 1))) for at in _slices(k.shape[-2], tile)]
    return ContextOnly(reduce(merge, parts).context)


@wrong.detail
def counts_a_key_twice(q, k, v, mask=None, tile=64):
    """Your tiles overlap by one key, which then counts twice in the softmax. The next tile begins where the last one ended."""
    parts = [_part(q, k, v, mask, slice(max(at.start - 1, 0), at.stop)) for at in _slices(k.shape[-2], tile)]
    return ContextOnly(reduce(merge, parts).context)


@wrong.case
def adds_exponentials_without_a_maximum(q, k, v, mask=None, tile=64):
    """You add up exp(score) without subtracting a maximum. It overflows beyond a score of 88, and where all scores lie below
    -104 it divides 0 by 0. That is what the running maximum is for."""
    sums = total = 0
    for at in _slices(k.shape[-2], tile):
        weights = _exponentials(q, k, mask, at)
        sums, total = sums + weights @ v[..., at, :], total + weights.sum(-1, keepdim=True)
    return ContextOnly(sums / torch.where((total == 0) & (torch.tensor(mask is not None)), 1.0, total))


@wrong.case
def starts_with_a_maximum_of_zero(q, k, v, mask=None, tile=64):
    """Your running maximum starts at 0. If all scores lie far below 0, all their exponentials are 0, and the context is lost:
    begin with -∞, or with the first tile."""
    none = torch.zeros(q.shape[:-1])
    kept = Partial(torch.zeros(*q.shape[:-1], v.shape[-1]), none, none)
    return ContextOnly(reduce(merge, _parts(q, k, v, mask, tile), kept).context)


@wrong.case
def gives_rows_without_keys_nan(q, k, v, mask=None, tile=64):
    """A query that may attend to no key gets NaN, by 0/0. Its context is to be 0, as everywhere in this course."""
    kept = reduce(merge, _parts(q, k, v, mask, tile))
    return ContextOnly(kept.context * (kept.total / kept.total)[..., None])


@wrong.case
def cuts_the_gradient(q, k, v, mask=None, tile=64):
    """Your values are right, but what was kept is detached between the tiles: only the last tile has a gradient."""
    kept = None
    for part in _parts(q, k, v, mask, tile):
        kept = part if kept is None else merge(tuple(x.detach() for x in kept), part)
    return ContextOnly(kept.context)


@wrong.case
def expands_the_mask(q, k, v, mask=None, tile=64):
    """Your result is right, but you copy a mask with one row for all queries, or for all sequences, to a row for each. Take
    its columns as it is: `mask[..., at]`."""
    full = None if mask is None else mask.broadcast_to(*mask.shape[:-2], q.shape[-2], k.shape[-2]).contiguous()
    return ContextOnly(reduce(merge, _parts(q, k, v, full, tile)).context)


@wrong.case
def slices_a_mask_of_one_column(q, k, v, mask=None, tile=64):
    """You slice the mask as it comes. It need only broadcast: one with a single column, (T_q, 1), has none for the second tile.
    Expand it to T_k columns first."""
    kept = None
    for at in _slices(k.shape[-2], tile):
        part = _part(q, k, v, mask, at)
        kept = part if kept is None else merge(kept, part)
    return ContextOnly(kept[0])


@wrong.case
def wants_a_whole_tile(q, k, v, mask=None, tile=64):
    """You begin with the whole tiles and merge the rest into them. There may be fewer keys than one tile has, and then there is
    nothing to merge with: the smaller tile is the only one."""
    mask = None if mask is None else mask.expand(*mask.shape[:-1], k.shape[-2])
    n, kept = k.shape[-2] // tile, None
    for i in range(n):
        part = _part(q, k, v, mask, slice(i * tile, (i + 1) * tile))
        kept = part if kept is None else merge(kept, part)
    if k.shape[-2] % tile:
        c_a, m_a, l_a = kept
        kept = merge((c_a, m_a, l_a), _part(q, k, v, mask, slice(n * tile, None)))
    return ContextOnly(kept[0])


@wrong.case
def returns_what_was_kept(q, k, v, mask=None, tile=64):
    """You return all that you kept: context, maximum and total. Asked for is the context alone: `ContextOnly(kept[0])`."""
    return reduce(merge, _parts(q, k, v, mask, tile))


@right
def in_a_plain_loop(q, k, v, mask=None, tile=64):
    """The loop with a running maximum, sum and unnormalised context, which divides at the end."""
    mask = None if mask is None else mask.expand(*mask.shape[:-1], k.shape[-2])
    top = torch.full(q.shape[:-1], -torch.inf)[..., None]
    total, summed = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], tile):
        K, V = k[..., start : start + tile, :], v[..., start : start + tile, :]
        scores = torch.einsum("...qd,...kd->...qk", q, K) / k.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[..., start : start + tile], -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        safe = higher.masked_fill(higher == -torch.inf, 0.0)
        weights, old = torch.exp(scores - safe), torch.exp(top - safe)
        total, summed, top = old * total + weights.sum(-1, keepdim=True), old * summed + weights @ V, higher
    return ContextOnly(summed / total.masked_fill(total == 0, 1.0))


@right
def merged_as_a_tree(q, k, v, mask=None, tile=64):
    """Merges equals, as a binary counter carries: after n tiles it keeps at most log₂ n parts. Merging is associative."""
    mask = None if mask is None else mask.broadcast_to(*q.shape[:-1], k.shape[-2])
    kept = {}
    for at in _slices(k.shape[-2], tile):
        level, part = 0, _part(q, k, v, mask, at)
        while level in kept:
            level, part = level + 1, merge(kept.pop(level), part)
        kept[level] = part
    return reduce(merge, kept.values()).context, None


@right
def from_the_last_tile_to_the_first(q, k, v, mask=None, tile=64):
    """Starts with nothing, and takes the tiles in reverse: the order does not matter."""
    if mask is not None and mask.shape[-1] == 1:
        mask = mask.repeat_interleave(k.shape[-2], dim=-1)
    kept = (torch.zeros(*q.shape[:-1], v.shape[-1]), torch.full(q.shape[:-1], -torch.inf), torch.zeros(q.shape[:-1]))
    for at in reversed(_slices(k.shape[-2], tile)):
        kept = merge(_part(q, k, v, mask, at), kept)
    return ContextOnly(kept[0])


@stranger
def tiles_of_sharper_scores(q, k, v, mask=None, tile=64):
    return tiled_attention(1.1 * q, k, v, mask, tile)


@stranger
def tiles_without_the_first_key(q, k, v, mask=None, tile=64):
    return tiled_attention(q, k[..., 1:, :], v[..., 1:, :], None if mask is None else mask[..., 1:], tile)


@stranger
def tiles_with_shifted_values(q, k, v, mask=None, tile=64):
    return tiled_attention(q, k, v.roll(1, -2), mask, tile)


@stranger(makes=[averages_the_tiles])
def mean_of_a_stack_of_tiles(q, k, v, mask=None, tile=64):
    return ContextOnly(torch.stack([part[0] for part in _parts(q, k, v, mask, tile)]).mean(0))


@stranger(makes=[computes_all_weights])
def tiles_in_a_list_of_scores(q, k, v, mask=None, tile=64):
    tiles = _slices(k.shape[-2], tile)
    scores = [q @ k[..., at, :].mT / math.sqrt(k.shape[-1]) for at in tiles]
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[-2])
        scores = [torch.where(mask[..., at], one, -torch.inf) for one, at in zip(scores, tiles, strict=True)]
    maximum = torch.stack([one.amax(-1, keepdim=True) for one in scores]).amax(0).clamp(min=-1e30)
    total = sum((one - maximum).exp().sum(-1, keepdim=True) for one in scores)
    mixed = sum((one - maximum).exp() @ v[..., at, :] for one, at in zip(scores, tiles, strict=True))
    return ContextOnly(mixed / torch.where(total == 0, 1.0, total))


@stranger(makes=[stacks_the_tiles])
def tiles_merged_at_the_end(q, k, v, mask=None, tile=64):
    return ContextOnly(reduce(merge, _parts(q, k, v, mask, tile)).context)


@stranger(makes=[averages_the_tiles, does_not_scale])
def mean_of_unscaled_tiles(q, k, v, mask=None, tile=64):
    return averages_the_tiles(q * math.sqrt(k.shape[-1]), k, v, mask, tile)


def _inputs(draw: Draw, *batch: int, tiles: float = 2.5, masked: bool = False, tile: int = 4) -> Call:
    """Queries, keys of several tiles, values whose mean is not 0, and a mask or none."""
    T_q, d_k, d_v = draw.sizes(3)
    T_k = math.ceil(tiles * tile)
    q, k, v = 2 * draw.normal(*batch, T_q, d_k), draw.normal(*batch, T_k, d_k), 1 + draw.normal(*batch, T_k, d_v)
    return q, k, v, draw.mask(*batch, T_q, T_k) if masked else None, tile


def _of_queries(draw: Draw, *batch: int) -> Call:
    """A mask of one column for all keys: some queries attend to none."""
    q, k, v, _, tile = _inputs(draw, *batch)
    return q, k, v, draw.mask(*batch, 1, q.shape[-2]).mT, tile


def _extreme(draw: Draw) -> list[Call]:
    """All scores of a query are near 150, or near -150."""
    q, k, v, _, tile = _inputs(draw)
    far = torch.ones(k.shape[-1]) * math.sqrt(150 / math.sqrt(k.shape[-1]))
    return [(sign * far + 0 * q, far + 0.01 * k, v, None, tile) for sign in (1.0, -1.0)]


def _alone(draw: Draw) -> list[Call]:
    """The first query may attend to no key at all, the second to none of the first tile."""
    q, k, v, mask, tile = _inputs(draw, masked=True)
    mask[0], mask[1, :tile] = False, False
    mask[1, -1] = True
    return [(q, k, v, mask, tile)]


def _long(draw: Draw) -> list[Call]:
    """Large tiles, of which all scores are many times one tile's, with a mask of one row for all queries or none; small tiles,
    of which all contexts are, too. In the first, only a tile of more keys than asked for takes much."""
    q, k, v = draw.normal(1024, 3), draw.normal(1024, 3), draw.normal(1024, 1)
    small = draw.normal(384, 3), draw.normal(384, 3), draw.normal(384, 7), None, 4
    few = draw.normal(384, 3), draw.normal(64, 3), draw.normal(64, 1), None, 8
    return [few, small, (q, k, v, None, 64), (q, k, v, draw.mask(1, 1024), 64)]


exercise = Exercise(
    id="19.2",
    title="Attention in tiles",
    reference=tiled_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("A context for each query, and no weights.", lambda draw: [_inputs(draw), _inputs(draw, 2)]),
        Property(
            "one tile",
            "With a single tile it is ordinary attention.",
            lambda draw: [_inputs(draw, tiles=1), _inputs(draw, tiles=0.75)],
        ),
        Property(
            "tiles",
            "Whole tiles give the same as all keys at once.",
            lambda draw: [_inputs(draw, tiles=3), _inputs(draw, 2, tiles=2)],
            points=3,
            needs=("one tile",),
        ),
        Property("last", "The last tile may be smaller.", lambda draw: [_inputs(draw)], needs=("tiles",)),
        Property(
            "mask",
            "Each tile is masked by its own columns.",
            lambda draw: [
                _inputs(draw, masked=True),
                _inputs(draw, 2, masked=True, tiles=3),
                _of_queries(draw),
                _of_queries(draw, 2),
            ],
            points=2,
            needs=("last",),
        ),
        Property("alone", "A query without keys has the context 0, and no NaN.", _alone, needs=("mask",)),
        Property("extreme", "Scores of 150, or of -150, change nothing.", _extreme, needs=("last",)),
        Property(
            "memory",
            "At no time does it hold many times the scores of one tile.",
            _long,
            AtMost(4.0, "held"),
            points=2,
            needs=("mask",),
        ),
        has_gradient(lambda draw: [_inputs(draw), _inputs(draw, masked=True)], needs=("mask",)),
        leaves_inputs(lambda draw: [_inputs(draw, masked=True)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The same test.": (
            "swap sides: None if None is mask else mask[..., at]",
            "swap sides: part if None is kept else merge(kept, part)",
            "swap sides: if None is not mask:",
        ),
        "Merging is commutative.": ("swap arguments: part if kept is None else merge(part, kept)",),
        "Each key has a value, and neither a shape nor a mask has a gradient.": (
            "detach: k.detach().shape",
            "other name: v.shape",
            "detach: mask.detach()[..., at]",
            "detach: k.detach().shape (2)",
            "other name: v.shape (2)",
            "detach: mask.detach().shape",
            "detach: mask.detach().expand",
            "negate: (~mask).shape",
        ),
        "A view of the mask for all queries takes no memory.": ("other name: q.shape (3)",),
    },
    hints=HINTS,
)
