"""Exercise 10.4, local_attention: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, attend, local_attention, relative_logits
from course_lib.fast import sliced_local_attention
from course_lib.primitives import local_windows, window_mask
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    costs_at_most,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "For one pixel this is attention with a single query and size² keys. Which tensor holds these keys, which the values, "
        "and what must happen at a corner, where five of nine keys do not exist?"
    ),
    (
        "The windows of k are (*batch, H_q, W_q, size², d_k) and q lacks the axis of the window: give it one of size 1, "
        "multiply, and squeeze it. Add the relative logits, mask, and only then normalise over the window."
    ),
    (
        "The scores of a position are its window of keys times its one query, plus the relative logits. `attend` expects "
        "an axis of queries: give scores and mask one of size 1, and take it away from both results."
    ),
)


def _content(q, k, size, stride):
    return (local_windows(k, size, stride) * q.unsqueeze(-2)).sum(-1)


def _scores(q, k, rows, columns, stride):
    return _content(q, k, rows.shape[-2], stride) + relative_logits(q, rows, columns)


def _mask(k, rows, stride):
    return window_mask(*k.shape[-3:-1], rows.shape[-2], stride)


def _mixed(weights, v, rows, stride):
    windows = local_windows(v, rows.shape[-2], stride)
    return Attended((weights.unsqueeze(-2) @ windows).squeeze(-2), weights)


def _inside(scores, k, v, rows, stride):
    """Normalise over the positions inside, and mix."""
    return _mixed(scores.masked_fill(~_mask(k, rows, stride), -torch.inf).softmax(-1), v, rows, stride)


@wrong.part
def looks_outside(q, k, v, rows, columns, stride=1):
    """You do not mask. The zeros outside the image have scores like any others and get weight, so that the context is too
    small near the border."""
    size = rows.shape[-2]
    scores = (local_windows(k, size, stride) * q.unsqueeze(-2)).sum(-1) + relative_logits(q, rows, columns)
    weights = scores.softmax(-1)
    return Attended((weights.unsqueeze(-2) @ local_windows(v, size, stride)).squeeze(-2), weights)


@wrong.part
def cuts_off_after_the_softmax(q, k, v, rows, columns, stride=1):
    """You normalise first and set the weights outside to 0. Then those of a border pixel no longer sum to 1: forbidden scores
    must be -∞ before the softmax."""
    return _mixed(_scores(q, k, rows, columns, stride).softmax(-1) * _mask(k, rows, stride), v, rows, stride)


@wrong.part
def sets_forbidden_scores_to_zero(q, k, v, rows, columns, stride=1):
    """You set the scores outside to 0. A score of 0 is like any other, with e⁰ = 1 in the softmax; only -∞ gives a weight of
    0."""
    scores = _scores(q, k, rows, columns, stride) * _mask(k, rows, stride)
    return _mixed(scores.softmax(-1), v, rows, stride)


@wrong.idea
def looks_only_outside(q, k, v, rows, columns, stride=1):
    """You forbid what lies inside. True in the mask = inside, may be attended to; your pixels attend to the padding only."""
    scores, mask = _scores(q, k, rows, columns, stride), ~_mask(k, rows, stride)
    context, weights = attend(scores.unsqueeze(-2), local_windows(v, rows.shape[-2], stride), mask.unsqueeze(-2))
    return Attended(context.squeeze(-2), weights.squeeze(-2))


@wrong.idea
def sets_the_inside_to_minus_infinity(q, k, v, rows, columns, stride=1):
    """You set the scores *inside* the image to -∞. True in the mask = inside, may be attended to: fill where it is False,
    `~mask`."""
    scores = _scores(q, k, rows, columns, stride).masked_fill(_mask(k, rows, stride), -torch.inf)
    return _mixed(scores.softmax(-1), v, rows, stride)


@wrong.idea
def forgets_the_places(q, k, v, rows, columns, stride=1):
    """You score by content alone. Without the relative logits the result is independent of the order of the neighbours in
    the window."""
    return _inside(_content(q, k, rows.shape[-2], stride), k, v, rows, stride)


@wrong.part
def adds_the_places_to_the_weights(q, k, v, rows, columns, stride=1):
    """You add the relative logits after the softmax. They are added to the content logits before it, or the weights no
    longer sum to 1."""
    weights = _inside(_content(q, k, rows.shape[-2], stride), k, v, rows, stride).weights
    return _mixed(weights + relative_logits(q, rows, columns) * _mask(k, rows, stride), v, rows, stride)


@wrong.detail
def divides_by_the_root(q, k, v, rows, columns, stride=1):
    """You divide by √d_k. Scaled dot-product attention does that; this paper uses the scores as they are."""
    return _inside(_scores(q, k, rows, columns, stride) / k.shape[-1] ** 0.5, k, v, rows, stride)


@wrong.detail
def scales_the_content_alone(q, k, v, rows, columns, stride=1):
    """You divide the content scores by √d_k, and add the relative logits as they are. This paper does not scale: both parts
    count as they come."""
    scores = _content(q, k, rows.shape[-2], stride) / k.shape[-1] ** 0.5 + relative_logits(q, rows, columns)
    return _inside(scores, k, v, rows, stride)


@wrong.detail
def masks_with_a_small_number(q, k, v, rows, columns, stride=1):
    """You give positions outside of the image a score of -9. That is no −∞: they keep a weight of about e⁻⁹, and more where
    the other scores are small, too."""
    scores = _scores(q, k, rows, columns, stride) - 9.0 * ~_mask(k, rows, stride)
    return _mixed(scores.softmax(-1), v, rows, stride)


@wrong.part
def mirrors_the_values(q, k, v, rows, columns, stride=1):
    """You number the values of a window column by column and the keys row by row. The weight of one position then goes to
    the value of another."""
    weights, size = _inside(_scores(q, k, rows, columns, stride), k, v, rows, stride).weights, rows.shape[-2]
    windows = local_windows(v, size, stride).unflatten(-2, (size, size)).transpose(-3, -2).flatten(-3, -2)
    return Attended((weights.unsqueeze(-1) * windows).sum(-2), weights)


@wrong.detail
def thins_out_the_keys(q, k, v, rows, columns, stride=1):
    """You keep only every stride-th key and value. The stride is between queries; each of them attends to all its
    neighbours, and yours to a window with gaps."""
    k, v = k[..., ::stride, ::stride, :], v[..., ::stride, ::stride, :]
    return _inside(_scores(q, k, rows, columns, 1), k, v, rows, 1)


@wrong.case
def keeps_the_axis_of_the_query(q, k, v, rows, columns, stride=1):
    """You leave the query axis of size 1 in both results. Each pixel has one context and one row of weights: squeeze it
    out."""
    scores, mask = _scores(q, k, rows, columns, stride), _mask(k, rows, stride)
    return attend(scores.unsqueeze(-2), local_windows(v, rows.shape[-2], stride), mask.unsqueeze(-2))


@wrong.case
def returns_the_scores(q, k, v, rows, columns, stride=1):
    """You return the scores instead of the weights. The context is right, but the second result must be the softmax."""
    scores = _scores(q, k, rows, columns, stride)
    return Attended(_inside(scores, k, v, rows, stride).context, scores)


@wrong.detail
def scales_by_the_window(q, k, v, rows, columns, stride=1):
    """You divide the scores by the size of the window, √size². This layer does not scale its scores at all."""
    size = rows.shape[-2]
    return local_attention(q / size, k, v, rows, columns, stride)


@wrong.case
def scores_all_pixels(q, k, v, rows, columns, stride=1):
    """Your numbers are right, but the cost is that of attention over the whole image: for each query you score, or copy, all H
    · W pixels, and take those of its window. Collect the windows first; a query then has size² keys."""
    size, (H, W) = rows.shape[-2], k.shape[-3:-1]
    places = local_windows(torch.arange(H * W, dtype=q.dtype, device=q.device).view(H, W, 1), size, stride)[..., 0].long()
    every = (q.flatten(-3, -2) @ k.flatten(-3, -2).mT).unflatten(-2, q.shape[-3:-1])
    scores = every.gather(-1, places.expand(*every.shape[:-1], -1)) + relative_logits(q, rows, columns)
    return _inside(scores, k, v, rows, stride)


@wrong.detail
def multiplies_a_window_by_a_row(q, k, v, rows, columns, stride=1):
    """You multiply the windows (…, size², d_k) by a query (…, d_k). Give the query an axis for the window: a column,
    unsqueeze(-1), for a product, or unsqueeze(-2) for a sum."""
    scores = (local_windows(k, rows.shape[-2], stride) * q).sum(-1) + relative_logits(q, rows, columns)
    return _inside(scores, k, v, rows, stride)


@wrong.case
def forbids_with_minus_a_hundred(q, k, v, rows, columns, stride=1):
    """You give positions outside of the image a score of -100. The check has an image whose scores inside are all around -300:
    there the positions outside get the weight. A lower number passes the check, but only -∞ is below every score."""
    scores = _scores(q, k, rows, columns, stride).masked_fill(~_mask(k, rows, stride), -100.0)
    return _mixed(scores.softmax(-1), v, rows, stride)


@wrong.detail
def masks_without_the_stride(q, k, v, rows, columns, stride=1):
    """You do not pass the stride on to `window_mask`. With a stride there are fewer windows than pixels, and the mask has one
    for every pixel."""
    scores = _scores(q, k, rows, columns, stride)
    return _mixed(scores.masked_fill(~_mask(k, rows, 1), -torch.inf).softmax(-1), v, rows, stride)


@wrong.detail
def masks_the_grid_of_the_queries(q, k, v, rows, columns, stride=1):
    """You take the mask of an image as large as the grid of the queries, with windows at every pixel. With a stride these leave
    the image elsewhere: give `window_mask` the height and width of the keys, and the stride."""
    mask = window_mask(*q.shape[-3:-1], rows.shape[-2])
    scores = _scores(q, k, rows, columns, stride).masked_fill(~mask, -torch.inf)
    return _mixed(scores.softmax(-1), v, rows, stride)


@wrong.detail
def thins_out_the_queries_again(q, k, v, rows, columns, stride=1):
    """You take every stride-th query. They are already only those of every stride-th pixel, (…, H_q, W_q, d_k): use them
    as they come."""
    q, size = q[..., ::stride, ::stride, :], rows.shape[-2]
    scores = (local_windows(k, size, stride) @ q.unsqueeze(-1)).squeeze(-1) + relative_logits(q, rows, columns)
    return _inside(scores, k, v, rows, stride)


@wrong.detail
def sums_over_queries_thinned_out_again(q, k, v, rows, columns, stride=1):
    """You take every stride-th query, and they no longer fit the windows. They are already only those of every stride-th pixel,
    (…, H_q, W_q, d_k): use them as they come."""
    q = q[..., ::stride, ::stride, :]
    return _inside(_scores(q, k, rows, columns, stride), k, v, rows, stride)


@wrong.idea
def normalises_over_the_columns_of_the_image(q, k, v, rows, columns, stride=1):
    """You take the softmax over axis -2. In scores (…, H_q, W_q, size²) that is the column of the image, so the queries of a
    row share their weight. Each query has its own softmax, over its window: axis -1."""
    scores = _scores(q, k, rows, columns, stride).masked_fill(~_mask(k, rows, stride), -torch.inf)
    return _mixed(scores.softmax(-2), v, rows, stride)


@wrong.idea
def normalises_over_one_query(q, k, v, rows, columns, stride=1):
    """You take the softmax over the axis of the query, which has size 1: each weight is then 1 by itself, or NaN outside the
    image. In scores (…, 1, size²) the window is axis -1."""
    scores = _scores(q, k, rows, columns, stride).masked_fill(~_mask(k, rows, stride), -torch.inf)
    return _mixed(scores.unsqueeze(-2).softmax(-2).squeeze(-2), v, rows, stride)


@wrong.part
def asks_the_keys_for_the_places(q, k, v, rows, columns, stride=1):
    """You take the relative logits of the keys. The vector of an offset meets the query, qᵀ r: each query chooses where to
    look."""
    return _inside(_content(q, k, rows.shape[-2], stride) + relative_logits(k, rows, columns), k, v, rows, stride)


@wrong.part
def asks_every_other_key_for_the_places(q, k, v, rows, columns, stride=1):
    """You take the relative logits of the keys at the pixels of the queries. The vector of an offset meets the query itself,
    qᵀ r."""
    relative = relative_logits(k[..., ::stride, ::stride, :], rows, columns)
    return _inside(_content(q, k, rows.shape[-2], stride) + relative, k, v, rows, stride)


@right
def shift_by_shift(q, k, v, rows, columns, stride=1):
    """The padded image cut out for each offset: its scores, and its part of the context. No windows are built."""
    size, (H, W) = rows.shape[-2], k.shape[-3:-1]
    around = (0, 0, *[size // 2] * 4)
    k, v, real = F.pad(k, around), F.pad(v, around), F.pad(torch.ones(H, W, 1), around)
    cuts = [(..., slice(a, a + H, stride), slice(b, b + W, stride), slice(None)) for a in range(size) for b in range(size)]
    scores = torch.stack([(q * k[cut]).sum(-1) for cut in cuts], dim=-1) + relative_logits(q, rows, columns)
    weights = scores.where(torch.cat([real[cut] for cut in cuts], dim=-1) > 0, -torch.inf).softmax(-1)
    return Attended(sum(w[..., None] * v[cut] for w, cut in zip(weights.unbind(-1), cuts, strict=True)), weights)


@right
def in_einsum(q, k, v, rows, columns, stride=1):
    """Windows of keys with the vector of each position added, so that one product gives both terms."""
    size = rows.shape[-2]
    r = torch.cat([rows.repeat_interleave(size, -2), torch.cat([columns] * size, -2)], dim=-1)[..., None, None, :, :]
    scores = torch.einsum("...d,...nd->...n", q, local_windows(k, size, stride) + r)
    scores = torch.where(_mask(k, rows, stride), scores, -torch.inf)
    f = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = f / f.sum(-1, keepdim=True)
    return torch.einsum("...n,...nd->...d", weights, local_windows(v, size, stride)), weights


@right
def pixel_by_pixel(q, k, v, rows, columns, stride=1):
    """A loop over the queries; each looks at a slice of the image, cut off at its borders."""
    size, (H, W), relative, pixels = rows.shape[-2], k.shape[-3:-1], relative_logits(q, rows, columns), []
    for i, j in ((i, j) for i in range(q.shape[-3]) for j in range(q.shape[-2])):
        y, x, query = i * stride - size // 2, j * stride - size // 2, q[..., i, j, :]
        places = [(a, b) for a in range(size) for b in range(size) if 0 <= y + a < H and 0 <= x + b < W]
        keys, values = (torch.stack([t[..., y + a, x + b, :] for a, b in places], dim=-2) for t in (k, v))
        number = torch.tensor([a * size + b for a, b in places])
        seen = ((keys @ query.unsqueeze(-1)).squeeze(-1) + relative[..., i, j, number]).softmax(-1)
        weights = seen.new_zeros(*seen.shape[:-1], size**2).index_copy(-1, number, seen)
        pixels.append(((seen.unsqueeze(-2) @ values).squeeze(-2), weights))
    return Attended(*(torch.stack(both, dim=-2).unflatten(-2, q.shape[-3:-1]) for both in zip(*pixels, strict=True)))


@stranger
def attention_at_half_the_temperature(q, k, v, rows, columns, stride=1):
    return local_attention(2 * q, k, v, rows, columns, stride)


@stranger
def attention_without_the_pixel_itself(q, k, v, rows, columns, stride=1):
    size = rows.shape[-2]
    scores = (local_windows(k, size, stride) @ q.unsqueeze(-1)).squeeze(-1) + relative_logits(q, rows, columns)
    mask = window_mask(*k.shape[-3:-1], size, stride) & (torch.arange(size**2) != size**2 // 2)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return Attended((weights.unsqueeze(-2) @ local_windows(v, size, stride)).squeeze(-2), weights)


@stranger
def attention_to_the_best_place(q, k, v, rows, columns, stride=1):
    weights = local_attention(q, k, v, rows, columns, stride).weights
    best = (weights == weights.amax(-1, keepdim=True)).to(weights)
    windows = local_windows(v, rows.shape[-2], stride)
    return Attended((best.unsqueeze(-2) @ windows).squeeze(-2), best)


@stranger
def attention_that_adds_the_pixel(q, k, v, rows, columns, stride=1):
    context, weights = local_attention(q, k, v, rows, columns, stride)
    return Attended(context + v[..., ::stride, ::stride, :], weights)


@stranger(makes=[forgets_the_places, divides_by_the_root])
def attention_scaled_without_places(q, k, v, rows, columns, stride=1):
    nothing = torch.zeros_like(rows), torch.zeros_like(columns)
    return local_attention(q / q.shape[-1] ** 0.5, k, v, *nothing, stride)


def _looked_at(
    draw: Draw, *batch: int, size: int = 3, stride: int = 1, heads: tuple[int, ...] = (), H: int = 5, W: int = 7
) -> Call:
    """A query at every stride-th pixel; keys of five features, values of three; the offsets are of two and three."""
    q = draw.normal(*batch, -(-H // stride), -(-W // stride), 5)
    k, v = draw.normal(*batch, H, W, 5), draw.normal(*batch, H, W, 3)
    return q, k, v, draw.normal(*heads, size, 2), draw.normal(*heads, size, 3), stride


def _with(call: Call, **replaced: float) -> Call:
    """Make all of some inputs the same number: `rows=0.0`."""
    names = ("q", "k", "v", "rows", "columns")
    return (*(torch.full_like(x, replaced[n]) if n in replaced else x for n, x in zip(names, call, strict=False)), call[-1])


def _opposed(draw: Draw) -> Call:
    """Keys that point far away from all queries: the scores are all around -300."""
    q, k, *others = _looked_at(draw, 2)
    return q.abs(), -100 * k.abs(), *others


def _pixels(draw: Draw) -> list[Call]:
    return [_looked_at(draw, 2), _looked_at(draw, 2, size=5, H=3), _looked_at(draw, 1, stride=2)]


exercise = Exercise(
    id="10.4",
    title="Local attention",
    reference=local_attention,
    properties=(
        runs_on(lambda draw: [_looked_at(draw, 2)]),
        has_shape("A context and size² weights for each query.", _pixels),
        Property(
            "border",
            "Where all scores are equal, the weights are uniform over the positions inside the image.",
            lambda draw: [_with(_looked_at(draw, 2), q=0.0), _with(_looked_at(draw, 2, size=5, H=3), q=0.0)],
            points=2,
        ),
        Property(
            "content",
            "Without offsets, weights are the softmax of q·k over the window, without a scale.",
            lambda draw: [_with(_looked_at(draw, 2, size=size), rows=0.0, columns=0.0) for size in (3, 5)],
            points=2,
            needs=("border",),
        ),
        Property(
            "offsets",
            "The relative logits are added before the softmax.",
            lambda draw: [_with(_looked_at(draw, 2), k=0.0), _looked_at(draw, 2), _looked_at(draw, 2, size=5)],
            needs=("content",),
        ),
        costs_at_most(
            8,
            "Each query is compared with its window alone: the cost does not grow with the pairs of pixels.",
            lambda draw: [_looked_at(draw, stride=4, H=48, W=48)],
            needs=("offsets",),
        ),
        Property(
            "stride",
            "With a stride there are fewer queries; each still attends to all its neighbours.",
            lambda draw: [_looked_at(draw, 2, stride=2), _looked_at(draw, 2, size=5, stride=3)],
            points=2,
            needs=("content",),
        ),
        Property(
            "heads",
            "Heads with their own offsets or all with the same; a single image, an image of one row; scores far below 0.",
            lambda draw: [
                _looked_at(draw, 2, 3, heads=(3,)),
                _looked_at(draw, 2, 3),
                _looked_at(draw),
                _looked_at(draw, 2, H=1)[:-1],
                _opposed(draw),
            ],
            needs=("offsets",),
        ),
        has_gradient(
            lambda draw: [_looked_at(draw, 2, H=3), _looked_at(draw, 2, 3, heads=(3,), stride=2, H=3)], needs=("offsets",)
        ),
        leaves_inputs(_pixels),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "The guard only reads sizes, and refuses such as do not fit, of which none are drawn; rows and columns "
            "are of one window."
        ): (
            "other name: window_side(q, k, columns, stride)",
            "detach: window_side(q.detach(), k, rows, stride)",
            "detach: window_side(q, k.detach(), rows, stride)",
            "other name: window_side(q, v, rows, stride)",
            "detach: window_side(q, k, rows.detach(), stride)",
        ),
        ("Only a size or a device is read, all tensors live on one device, and values lie on the pixels of the keys."): (
            "drop keyword: mask = window_mask(k.shape[-3], k.shape[-2], size, stride)",
            "detach: k.detach().shape",
            "other name: v.shape",
            "detach: k.detach().shape (2)",
            "other name: v.shape (2)",
            "detach: k.detach().device",
            "other name: scores.device",
            "other name: q.device",
            "other name: v.device",
            "other name: rows.device",
            "other name: columns.device",
        ),
        "The mask carries no gradient, and it has three axes: before the last one is axis 2.": (
            "drop sign: mask.unsqueeze(2)",
            "detach: mask.detach().unsqueeze",
        ),
    },
    hints=HINTS,
    forbids={
        sliced_local_attention: "compute the scores of each window yourself.",
    },
)
