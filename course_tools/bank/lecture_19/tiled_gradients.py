"""Exercise 19.6, tiled_gradients: what students answer, wrong and right."""

import math

import torch

from course_lib.attention import partial_attention, tiled_attention, tiled_gradients
from course_tools.checks.comparisons import AtMost, right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "In the example, the weights are 1/9, 2/9 and 6/9. What are they in the unit and by the sum that the forward pass has "
        "kept, ln 6 and 1.5? A tile needs nothing of the other tiles for that."
    ),
    (
        "Before the loop: G · C, one number for each query. For each tile: its scores, P = exp(E - m) / ℓ with the *kept* m "
        "and ℓ, and dE = P ⊙ (G Vᵀ - (G · C)). dV and dK of a tile are rows of their own; dQ is a sum over the tiles."
    ),
    (
        "In the unit that was kept, P needs no maximum and no sum of its own; the scale 1/√d_k is a factor of E, and "
        "so of dE once more. dQ grows by dE K in each tile; dK is dEᵀ Q and dV is Pᵀ G, written to the tile's rows. "
        "Where the mask is False, P is 0. A query that saw no key has m = -∞ and ℓ = 0: put 0 and 1 in their place "
        "before the loop."
    ),
)


def _kept(kept):
    """Context, and maximum and total with an axis for keys, finite where no key was seen."""
    context, maximum, total = kept
    unseen = (total == 0)[..., None]
    return context, maximum[..., None].masked_fill(unseen, 0.0), total[..., None].masked_fill(unseen, 1.0)


def _tiles(k, tile):
    return [slice(start, start + tile) for start in range(0, k.shape[-2], tile)]


def _scores(q, k, mask, at):
    scores = q @ k[..., at, :].mT / math.sqrt(k.shape[-1])
    return scores if mask is None else scores.masked_fill(~mask[..., at], -torch.inf)


def _of_tiles(q, k, v, kept, gradient, mask, tile, weights=None, centre=None, add=True, tiles=None, scales=(1, 1)):
    """The loop, with a part exchanged."""
    context, maximum, total = _kept(kept)
    dq, dk, dv, scale = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), 1 / math.sqrt(k.shape[-1])
    for at in _tiles(k, tile) if tiles is None else tiles:
        scores = _scores(q, k, mask, at)
        P = (scores - maximum).exp() / total if weights is None else weights(scores, maximum, total)
        slopes = gradient @ v[..., at, :].mT
        c = (gradient * context).sum(-1, keepdim=True) if centre is None else centre(P, slopes)
        dE = P * (slopes - c)
        share = scale * scales[0] * dE @ k[..., at, :]
        dq = dq + share if add else share
        dk[..., at, :], dv[..., at, :] = scale * scales[1] * dE.mT @ q, P.mT @ gradient
    return dq, dk, dv


@wrong.idea
def makes_all_weights_again(q, k, v, kept, gradient, mask=None, tile=64):
    """Your gradients are right, but all T · T weights are in memory at one time. In the backward pass, too, only one tile's
    columns may exist at a time."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, tiles=[slice(0, k.shape[-2])])


@wrong.idea
def forgets_the_common_sum(q, k, v, kept, gradient, mask=None, tile=64):
    """You treat the weights as if each depended on its own score alone. They share a sum: a score that grows takes weight
    from all others, which is what the term G · C subtracts."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, centre=lambda P, slopes: 0.0)


@wrong.idea
def ignores_the_gradient(q, k, v, kept, gradient, mask=None, tile=64):
    """You compute with ones in place of the gradient that comes from above. It says how much each feature of each context
    counts."""
    return _of_tiles(q, k, v, kept, torch.ones_like(gradient), mask, tile)


@wrong.part
def normalises_each_tile(q, k, v, kept, gradient, mask=None, tile=64):
    """You normalise the weights within each tile. A weight is a share of all keys: subtract the maximum and divide by the sum
    that the forward pass has kept."""

    def weights(scores, maximum, total):
        return scores.softmax(-1).nan_to_num()

    return _of_tiles(q, k, v, kept, gradient, mask, tile, weights)


@wrong.part
def centres_each_tile(q, k, v, kept, gradient, mask=None, tile=64):
    """You subtract what the keys of this tile alone add up to. The sum in the gradient of a softmax goes over all keys; it is
    G · C, which is known before the first tile."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, centre=lambda P, slopes: (P * slopes).sum(-1, keepdim=True))


@wrong.part
def keeps_the_last_tile(q, k, v, kept, gradient, mask=None, tile=64):
    """Your gradient of the queries is that of the last tile. A query has met the keys of all tiles: add up."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, add=False)


@wrong.part
def does_not_divide(q, k, v, kept, gradient, mask=None, tile=64):
    """You do not divide by the total. exp(score - maximum) is a weight only after it is divided by the sum of all."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, lambda scores, maximum, total: (scores - maximum).exp())


@wrong.part
def turns_the_gradient_around(q, k, v, kept, gradient, mask=None, tile=64):
    """Your gradients of queries and keys have the wrong sign: it is G Vᵀ - (G · C), not the other way round."""
    dq, dk, dv = _of_tiles(q, k, v, kept, gradient, mask, tile)
    return -dq, -dk, dv


@wrong.detail
def does_not_scale(q, k, v, kept, gradient, mask=None, tile=64):
    """The gradients of queries and keys are too large by the root of d_k. The scores were divided by it, and so are the
    gradients that pass through them."""
    root = math.sqrt(k.shape[-1])
    return _of_tiles(q, k, v, kept, gradient, mask, tile, scales=(root, root))


@wrong.detail
def scales_the_queries_alone(q, k, v, kept, gradient, mask=None, tile=64):
    """The gradient of the keys is too large by the root of d_k, which the other two gradients do not share: queries and keys
    pass through the same division."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, scales=(1, math.sqrt(k.shape[-1])))


@wrong.detail
def scales_the_keys_alone(q, k, v, kept, gradient, mask=None, tile=64):
    """The gradient of the queries is too large by the root of d_k, which the other two gradients do not share: queries and
    keys pass through the same division."""
    return _of_tiles(q, k, v, kept, gradient, mask, tile, scales=(math.sqrt(k.shape[-1]), 1))


@wrong.detail
def drops_the_last_tile(q, k, v, kept, gradient, mask=None, tile=64):
    """You leave out the last tile where it is smaller than the others: count the tiles by rounding up."""
    whole = [slice(start * tile, (start + 1) * tile) for start in range(k.shape[-2] // tile)]
    return _of_tiles(q, k, v, kept, gradient, mask, tile, tiles=whole)


@wrong.detail
def ignores_the_mask(q, k, v, kept, gradient, mask=None, tile=64):
    """You do not use the mask. A hidden key had no weight in the forward pass, so it has none here, and no gradient."""
    return _of_tiles(q, k, v, kept, gradient, None, tile)


@wrong.case
def subtracts_minus_infinity(q, k, v, kept, gradient, mask=None, tile=64):
    """Where a query saw no key, its maximum is -∞ and its total 0, and you compute NaN. It contributes nothing: put 0 and 1 in
    their place."""
    context, maximum, total = kept
    dq, dk, dv, scale = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), 1 / math.sqrt(k.shape[-1])
    for at in _tiles(k, tile):
        P = (_scores(q, k, mask, at) - maximum[..., None]).exp() / total[..., None]
        dE = scale * P * (gradient @ v[..., at, :].mT - (gradient * context).sum(-1, keepdim=True))
        dq = dq + dE @ k[..., at, :]
        dk[..., at, :], dv[..., at, :] = dE.mT @ q, P.mT @ gradient
    return dq, dk, dv


@wrong.case
def adds_into_the_queries(q, k, v, kept, gradient, mask=None, tile=64):
    """You write into the queries that you were given. Start from zeros of their shape."""
    dq, dk, dv = _of_tiles(q, k, v, kept, gradient, mask, tile)
    with torch.no_grad():
        q.copy_(dq)
    return q, dk, dv


@right
def by_the_logarithm_of_the_sum(q, k, v, kept, gradient, mask=None, tile=64):
    """Keeps one number for each query, m + ln ℓ, as the second FlashAttention does; lists of rows in place of assignments."""
    context, maximum, total = kept
    log_sum = torch.where(total > 0, maximum + total.log(), torch.inf)
    centre, scale, rows = torch.einsum("...td,...td->...t", gradient, context), k.shape[-1] ** -0.5, []
    for at in _tiles(k, tile):
        P = torch.exp(_scores(q, k, mask, at) - log_sum.unsqueeze(-1))
        dE = P * (torch.einsum("...td,...sd->...ts", gradient, v[..., at, :]) - centre.unsqueeze(-1)) * scale
        rows.append((dE @ k[..., at, :], dE.transpose(-1, -2) @ q, P.transpose(-1, -2) @ gradient))
    dq, dk, dv = zip(*rows, strict=True)
    return sum(dq), torch.cat(dk, dim=-2), torch.cat(dv, dim=-2)


@right
def from_the_last_tile_to_the_first(q, k, v, kept, gradient, mask=None, tile=64):
    """Takes the tiles in reverse, and returns a list: the order does not matter."""
    return list(_of_tiles(q, k, v, kept, gradient, mask, tile, tiles=reversed(_tiles(k, tile))))


@right
def by_autograd_of_each_tile(q, k, v, kept, gradient, mask=None, tile=64):
    """Lets autograd differentiate one tile at a time: its part of the context has the weights exp(E - m) / ℓ, and the sum
    enters by G · C as a weight of each key."""
    context, maximum, total = _kept(kept)
    centre, sums = (gradient * context).sum(-1, keepdim=True), [torch.zeros_like(q)]
    parts = []
    for at in _tiles(k, tile):
        with torch.enable_grad():
            Q, K, V = (x.detach().requires_grad_() for x in (q, k[..., at, :], v[..., at, :]))
            scores = Q @ K.mT / math.sqrt(K.shape[-1])
            P = (scores if mask is None else scores.masked_fill(~mask[..., at], -torch.inf)).sub(maximum).exp() / total
            loss = (P @ V * gradient).sum() - (P * centre).sum()
        dQ, dK, dV = torch.autograd.grad(loss, (Q, K, V))
        sums.append(dQ)
        parts.append((dK, dV))
    dk, dv = (torch.cat(rows, -2) for rows in zip(*parts, strict=True))
    return sum(sums), dk, dv


@stranger
def gradients_of_sharper_scores(q, k, v, kept, gradient, mask=None, tile=64):
    return tiled_gradients(1.1 * q, k, v, kept, gradient, mask, tile)


@stranger
def gradients_with_shifted_values(q, k, v, kept, gradient, mask=None, tile=64):
    return tiled_gradients(q, k, v.roll(1, -2), kept, gradient, mask, tile)


@stranger
def gradients_with_keys_for_queries(q, k, v, kept, gradient, mask=None, tile=64):
    dq, dk, dv = tiled_gradients(q, k, v, kept, gradient, mask, tile)
    return 0.9 * dq, dk, dv


@stranger(makes=[makes_all_weights_again])
def gradients_of_a_list_of_weights(q, k, v, kept, gradient, mask=None, tile=64):
    _, maximum, total = _kept(kept)
    made = iter([(_scores(q, k, mask, at) - maximum).exp() / total for at in _tiles(k, tile)])
    return _of_tiles(q, k, v, kept, gradient, mask, tile, weights=lambda *_: next(made))


@stranger(makes=[does_not_scale])
def gradients_of_plain_products(q, k, v, kept, gradient, mask=None, tile=64):
    dq, dk, dv = tiled_gradients(q, k, v, kept, gradient, mask, tile)
    return dq * k.shape[-1] ** 0.5, dk * k.shape[-1] ** 0.5, dv


@stranger(makes=[forgets_the_common_sum, does_not_scale])
def gradients_of_free_weights_of_plain_products(q, k, v, kept, gradient, mask=None, tile=64):
    dq, dk, dv = forgets_the_common_sum(q, k, v, kept, gradient, mask, tile)
    return dq * k.shape[-1] ** 0.5, dk * k.shape[-1] ** 0.5, dv


def _inputs(draw: Draw, *batch: int, tiles: float = 2.5, masked: bool = False, tile: int = 4, hidden: int = 0) -> Call:
    """Queries, keys of several tiles, what the forward pass kept, and a gradient; the first `hidden` queries see no key."""
    T_q, d_k, d_v = draw.sizes(3)
    T_q, T_k = T_q + hidden, math.ceil(tiles * tile)
    q, k, v = 2 * draw.normal(*batch, T_q, d_k), draw.normal(*batch, T_k, d_k), 1 + draw.normal(*batch, T_k, d_v)
    mask = draw.mask(*batch, T_q, T_k) if masked else None
    if hidden:
        mask[..., :hidden, :] = False
    kept = partial_attention(q, k, v, mask)
    return q, k, v, tuple(kept), draw.normal(*batch, T_q, d_v), mask, tile


def _long(draw: Draw) -> list[Call]:
    """Large tiles, of which all weights are many times one tile's."""
    q, k, v, gradient = draw.normal(1024, 3), draw.normal(1024, 3), draw.normal(1024, 5), draw.normal(1024, 5)
    return [(q, k, v, tuple(partial_attention(q, k, v)), gradient, None, 64)]


exercise = Exercise(
    id="19.6",
    title="The backward pass in tiles",
    extra=True,
    reference=tiled_gradients,
    results=("dq", "dk", "dv"),
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("Three gradients, in the shapes of q, k and v.", lambda draw: [_inputs(draw), _inputs(draw, 2)]),
        Property(
            "values",
            "The gradient of a value is the sum of G, weighted as the value was.",
            lambda draw: [_inputs(draw, tiles=1), _inputs(draw, tiles=3)],
            right_result(2),
            points=2,
        ),
        Property(
            "keys",
            "The gradient of the keys is right: G · C is subtracted, and all is divided by √d_k.",
            lambda draw: [_inputs(draw, tiles=1), _inputs(draw, 2, tiles=3)],
            right_result(1),
            points=2,
        ),
        Property(
            "queries",
            "The gradient of the queries is the sum over all tiles.",
            lambda draw: [_inputs(draw, tiles=1), _inputs(draw, 2, tiles=3)],
            right_result(0),
            points=2,
        ),
        Property("last", "The last tile may be smaller.", lambda draw: [_inputs(draw)], needs=("values", "keys", "queries")),
        Property(
            "mask",
            "A hidden key has no gradient.",
            lambda draw: [_inputs(draw, masked=True), _inputs(draw, 2, masked=True, tiles=3)],
            points=2,
            needs=("last",),
        ),
        Property(
            "alone",
            "A query without keys contributes nothing, and no NaN.",
            lambda draw: [_inputs(draw, masked=True, hidden=2)],
            needs=("mask",),
        ),
        Property(
            "memory",
            "At no time does it hold many times the weights of one tile.",
            _long,
            AtMost(2.5, "held"),
            points=2,
        ),
        leaves_inputs(lambda draw: [_inputs(draw, masked=True)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    forbids={tiled_attention: "compute its gradients yourself."},
    equivalent_mutants={
        "The same test.": (
            "swap sides: if None is not mask:",
            "swap sides: torch.where(0 == total, 0.0, maximum)",
            "swap sides: torch.where(0 == total, 1.0, total)",
        ),
        "Where a query has no key, its scores are -∞, and any finite maximum and any divisor but 0 give weights of 0.": (
            "constant: torch.where(total == 0, 1.0, maximum)",
            "constant: torch.where(total == 0, -1.0, maximum)",
            "constant: torch.where(total == 0, 2.0, total)",
        ),
        "Only shapes are read, which agree: one value for each key, and queries and keys of equal length.": (
            "other name: dk.shape",
            "other name: dv.shape",
            "other name: v.shape",
            "other name: q.shape (2)",
        ),
        "The scores are not read again.": ("in place: E.sub_(maximum).exp",),
    },
    missed_mutants={
        "What is hidden may be NaN for the library; the exercise does not promise it.": (
            "remove statement: K, V = (hide_keys(K, mask[..., at]), hide_keys(V, mask[..., at]))",
            "drop call: K, V = (K, hide_keys(V, mask[..., at]))",
            "drop call: K, V = (hide_keys(K, mask[..., at]), V)",
        ),
    },
    hints=HINTS,
)
