"""Exercise 17.4, grouped_query_attention: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, grouped_query_attention, scaled_dot_product_attention
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
        "Draw six heads of queries and two heads of keys. Which three heads of queries look at the first head of keys? "
        "Neighbours form a group: write down for each head i of the queries the number of its head of keys."
    ),
    (
        "If every head of keys and of values is copied as often as there are heads of queries in its group, there are h of "
        "each, and what is left is attention as you know it. Where must the copies of one head stand, side by side or in "
        "turn?"
    ),
    (
        "A group has `q.shape[-3] // k.shape[-3]` heads of queries. `repeat_interleave` with that number along the axis of the "
        "heads, -3, copies each head and leaves the copies side by side; `repeat` would put them in turn. Do so with keys and "
        "values, and give both to `scaled_dot_product_attention` with the queries and the mask."
    ),
)


def _copied(x, q):
    """One head of x for each head of queries."""
    return x.repeat_interleave(q.shape[-3] // x.shape[-3], dim=-3)


@wrong.detail
def deals_the_heads_out_in_turn(q, k, v, mask=None):
    """Your copies stand in turn: k_0, k_1, k_0, k_1, …, as `repeat` and `tile` put them. The heads of a group are neighbours:
    the first h / g heads of queries share the first head of keys, k_0, k_0, …, k_1, k_1."""
    times = [1] * (k.dim() - 3) + [q.shape[-3] // k.shape[-3], 1, 1]
    return scaled_dot_product_attention(q, k.repeat(times), v.repeat(times), mask)


@wrong.detail
def copies_the_keys_alone(q, k, v, mask=None):
    """You copy the heads of keys and leave those of values as they are. There are as many weights as heads of queries, so each
    needs a head of values, too."""
    return scaled_dot_product_attention(q, _copied(k, q), v, mask)


@wrong.idea
def gives_all_the_first_head(q, k, v, mask=None):
    """All your queries look at the first head of keys and values, as if g were 1. Each group has a head of its own: head i of
    the queries uses head i g / h, rounded down."""
    return scaled_dot_product_attention(q, k[..., :1, :, :], v[..., :1, :, :], mask)


@wrong.idea
def averages_the_heads_of_keys(q, k, v, mask=None):
    """You average the heads of keys and values into one. Each group looks at its own head of keys; nothing is averaged when the
    model is used."""
    return scaled_dot_product_attention(q, k.mean(-3, keepdim=True), v.mean(-3, keepdim=True), mask)


@wrong.idea
def averages_the_queries_of_a_group(q, k, v, mask=None):
    """You average the queries of a group into one, and get g heads. The h heads of queries stay what they are, each with its
    own weights; they share only keys and values."""
    q = q.unflatten(-3, (k.shape[-3], -1)).mean(-3)
    return scaled_dot_product_attention(q, k, v, None if mask is None or mask.dim() > 2 else mask)


@wrong.idea
def keeps_one_query_of_each_group(q, k, v, mask=None):
    """You keep as many heads of queries as there are heads of keys, and leave out the others. All h heads attend: the context
    has h heads."""
    g = k.shape[-3]
    mask = mask[..., :g, :, :] if mask is not None and mask.dim() > 2 else mask
    return scaled_dot_product_attention(q[..., :g, :, :], k, v, mask)


@wrong.part
def passes_the_heads_as_they_are(q, k, v, mask=None):
    """You multiply h heads by g heads as they are: queries by keys, or weights by values. That works for g = 1, which
    broadcasts, and for g = h; for all others each head of keys and of values must first be there for every head of its
    group."""
    return scaled_dot_product_attention(q, k, v, mask)


@wrong.detail
def copies_as_often_as_there_are_groups(q, k, v, mask=None):
    """You copy each head g times. There are g heads already, and h are needed: each is copied h / g times."""
    g = k.shape[-3]
    return scaled_dot_product_attention(q, k.repeat_interleave(g, dim=-3), v.repeat_interleave(g, dim=-3), mask)


@wrong.detail
def copies_the_positions(q, k, v, mask=None):
    """You copy along axis -2, the positions: each key is there several times, and there are as few heads as before. The heads
    are axis -3, in front of the positions."""
    times = q.shape[-3] // k.shape[-3]
    return scaled_dot_product_attention(q, k.repeat_interleave(times, dim=-2), v.repeat_interleave(times, dim=-2), mask)


@wrong.detail
def copies_the_sequences(q, k, v, mask=None):
    """You copy along the first axis, which holds the sequences. The heads are axis -3, in front of the positions and the
    features."""
    times = q.shape[-3] // k.shape[-3]
    return scaled_dot_product_attention(q, k.repeat_interleave(times, dim=0), v.repeat_interleave(times, dim=0), mask)


@wrong.detail
def pairs_the_values_in_turn(q, k, v, mask=None):
    """Your keys are copied side by side, and your values in turn, by `repeat`. A head of queries must find the values that
    belong to its keys."""
    times = [1] * (v.dim() - 3) + [q.shape[-3] // v.shape[-3], 1, 1]
    return scaled_dot_product_attention(q, _copied(k, q), v.repeat(times), mask)


@wrong.detail
def averages_the_weights_of_a_group(q, k, v, mask=None):
    """You average the weights of a group, so that its heads look at the same tokens. They share the keys, not the weights: each
    head has its own queries."""
    _, weights = scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), mask)
    grouped = weights.unflatten(-3, (k.shape[-3], -1))
    weights = grouped.mean(-3, keepdim=True).expand_as(grouped).flatten(-4, -3)
    return Attended(weights @ _copied(v, q), weights)


@wrong.detail
def forgets_the_scale(q, k, v, mask=None):
    """Your scores are not divided by √d_k. Grouped queries attend by the same scaled dot products as before."""
    return scaled_dot_product_attention(q * math.sqrt(q.shape[-1]), _copied(k, q), _copied(v, q), mask)


@wrong.part
def ignores_the_mask(q, k, v, mask=None):
    """You never use the mask: every query attends to every key, the forbidden ones included."""
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q))


@wrong.part
def inverts_the_mask(q, k, v, mask=None):
    """You read True in the mask as "forbidden". In this course True = may attend."""
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), None if mask is None else ~mask)


@wrong.case
def adds_an_axis_of_heads_to_the_mask(q, k, v, mask=None):
    """You give the mask an axis of heads. It has one already where it needs one: any mask fits that broadcasts to
    (*batch, h, T_q, T_k), and the first axis of yours is then taken for a batch."""
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), None if mask is None else mask.unsqueeze(-3))


@wrong.case
def takes_the_mask_of_the_first_head(q, k, v, mask=None):
    """You take one mask for all heads of queries. A mask may differ from head to head, (h, T_q, T_k): each head, of a group
    too, has its own."""
    if mask is not None and mask.dim() > 2:
        mask = mask[..., :1, :, :]
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), mask)


@wrong.case
def gives_a_group_the_mask_of_its_first_head(q, k, v, mask=None):
    """You take one mask for each group. A mask may have an axis of all h heads of queries, (h, T_q, T_k): those of one group
    share keys, not masks."""
    if mask is not None and mask.dim() > 2 and mask.shape[-3] > 1:
        mask = _copied(mask[..., :: q.shape[-3] // k.shape[-3], :, :], q)
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), mask)


@wrong.case
def counts_on_one_batch_axis(q, k, v, mask=None):
    """You take the second axis for the heads. There may be no batch in front of them: count from the back, the heads are
    axis -3."""
    r = q.shape[1] // k.shape[1]
    return scaled_dot_product_attention(q, k.repeat_interleave(r, dim=1), v.repeat_interleave(r, dim=1), mask)


@wrong.case
def returns_the_weights_first(q, k, v, mask=None):
    """Both of your results are right, but you return the weights first. The order is (context, weights)."""
    context, weights = grouped_query_attention(q, k, v, mask)
    return weights, context


@wrong.case
def asks_for_a_row_for_each_query(q, k, v, mask=None):
    """You give the mask a row for each query by `reshape` or `view`. A mask of padding has a single row for all queries,
    (B, 1, 1, T_k): let it broadcast, or use `expand`."""
    if mask is not None:
        mask = mask.reshape(*mask.shape[:-2], q.shape[-2], k.shape[-2])
    return scaled_dot_product_attention(q, _copied(k, q), _copied(v, q), mask)


@wrong.detail
def parts_the_heads_but_not_those_of_the_mask(q, k, v, mask=None):
    """You part the heads of the queries into groups, and give the mask as it is. Its axis of heads must be parted too, or get
    one more axis if it has size 1."""
    grouped = q.unflatten(-3, (k.shape[-3], -1))
    context, weights = scaled_dot_product_attention(grouped, k.unsqueeze(-3), v.unsqueeze(-3), mask)
    return context.flatten(-4, -3), weights.flatten(-4, -3)


@right
def by_an_index(q, k, v, mask=None):
    """The number of its head of keys for each head of queries, and the softmax by hand."""
    head = torch.arange(q.shape[-3]) * k.shape[-3] // q.shape[-3]
    scores = q @ k[..., head, :, :].mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v[..., head, :, :], weights


@right
def without_copies(q, k, v, mask=None):
    """The queries of a group on an axis of their own, which broadcasts against the keys: nothing is copied."""
    g = k.shape[-3]
    if mask is not None:
        mask = mask.broadcast_to(*q.shape[:-1], k.shape[-2]).unflatten(-3, (g, -1))
    found = scaled_dot_product_attention(q.unflatten(-3, (g, -1)), k.unsqueeze(-3), v.unsqueeze(-3), mask)
    return Attended(*(part.flatten(-4, -3) for part in found))


@right
def head_by_head(q, k, v, mask=None):
    """A loop over the heads of queries, in float64."""
    h, r = q.shape[-3], q.shape[-3] // k.shape[-3]
    allowed = None if mask is None else mask.broadcast_to(*q.shape[:-1], k.shape[-2])
    contexts, rows = [], []
    for i in range(h):
        keys, values = k.double().select(-3, i // r), v.double().select(-3, i // r)
        scores = torch.einsum("...qd,...kd->...qk", q.double().select(-3, i), keys) * q.shape[-1] ** -0.5
        if allowed is not None:
            scores = torch.where(allowed.select(-3, i), scores, -torch.inf)
        rows.append(scores.softmax(-1))
        contexts.append(rows[-1] @ values)
    return torch.stack(contexts, -3).float(), torch.stack(rows, -3).float()


@right
def by_torchs_own(q, k, v, mask=None):
    """torch's fused form with its switch for grouped queries, and the weights beside it from keys expanded without a copy."""
    if mask is not None:
        mask = mask.broadcast_to(*q.shape[:-1], k.shape[-2])
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    r = q.shape[-3] // k.shape[-3]
    keys = k.unsqueeze(-3).expand(*k.shape[:-2], r, *k.shape[-2:]).flatten(-4, -3)
    scores = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
    return context, (scores if mask is None else scores.masked_fill(mask.logical_not(), -torch.inf)).softmax(-1)


@stranger
def groups_from_the_back(q, k, v, mask=None):
    return grouped_query_attention(q, k.flip(-3), v.flip(-3), mask)


@stranger
def groups_that_see_no_gradient_of_the_keys(q, k, v, mask=None):
    return grouped_query_attention(q, k.detach(), v, mask)


@stranger
def groups_by_a_sum(q, k, v, mask=None):
    context, weights = grouped_query_attention(q, k, v, mask)
    return context * (q.shape[-3] // k.shape[-3]), weights


@stranger
def groups_that_look_at_two_heads(q, k, v, mask=None):
    return grouped_query_attention(q, (k + k.roll(1, -3)) / 2, v, mask)


@stranger(makes=[deals_the_heads_out_in_turn])
def groups_by_a_remainder(q, k, v, mask=None):
    head = torch.arange(q.shape[-3]) % k.shape[-3]
    return scaled_dot_product_attention(q, k[..., head, :, :], v[..., head, :, :], mask)


@stranger(makes=[deals_the_heads_out_in_turn, ignores_the_mask])
def groups_in_turn_without_a_mask(q, k, v, mask=None):
    head = torch.arange(q.shape[-3]) % k.shape[-3]
    return scaled_dot_product_attention(q, k[..., head, :, :], v[..., head, :, :])


def _inputs(draw: Draw, *batch: int, g: int | None = None, r: int | None = None) -> Call:
    """Two groups of three or three of two, and four other primes for everything else."""
    two_or_three = draw.integers(2, 4, 1).item()
    g, r = two_or_three if g is None else g, 5 - two_or_three if r is None else r
    T_q, T_k, d_k, d_v = [(5, 7, 11, 13)[i] for i in draw.uniform(4).argsort()]
    return (
        draw.normal(*batch, g * r, T_q, d_k),
        draw.normal(*batch, g, T_k, d_k),
        draw.normal(*batch, g, T_k, d_v),
    )


def _masked(draw: Draw) -> list[Call]:
    """One mask for all, one for each sequence, and one of padding: a row for all queries of a sequence."""
    q, k, v = _inputs(draw, 2)
    T_q, T_k = q.shape[-2], k.shape[-2]
    return [(q, k, v, draw.mask(*shape, T_k)) for shape in ((T_q,), (2, 1, T_q), (2, 1, 1))]


def _masked_by_head(draw: Draw) -> list[Call]:
    """One mask for each head, and one for each head of each sequence."""
    q, k, v = _inputs(draw, 2)
    h = q.shape[1]
    return [(q, k, v, draw.mask(*shape, q.shape[-2], k.shape[-2])) for shape in ((h,), (2, h))]


exercise = Exercise(
    id="17.4",
    title="Grouped queries",
    reference=grouped_query_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A context and weights for each head of queries.", lambda draw: [_inputs(draw, 2)]),
        Property(
            "one group", "With one head of keys and values, all queries share it.", lambda draw: [_inputs(draw, 1, g=1, r=2)]
        ),
        Property(
            "a group each",
            "With as many heads of keys as of queries, it is multi-head attention.",
            lambda draw: [_inputs(draw, 1, g=3, r=1)],
        ),
        Property(
            "groups",
            "Neighbouring heads of queries share a head of keys and values.",
            lambda draw: [_inputs(draw, 1, g=2, r=2), _inputs(draw, 1)],
            points=4,
            needs=("one group",),
        ),
        Property("mask", "A forbidden key gets weight 0.", _masked, points=2, needs=("groups",)),
        Property("mask of a head", "A mask may differ from head to head.", _masked_by_head, needs=("mask",)),
        Property(
            "batch",
            "Without a batch, or with two axes of it, the heads are axis -3.",
            lambda draw: [_inputs(draw), _inputs(draw, 2, 3)],
            needs=("groups",),
        ),
        has_gradient(lambda draw: [_inputs(draw), *_masked(draw)], needs=("groups", "mask")),
        leaves_inputs(lambda draw: [_inputs(draw, 2), *_masked(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the number of heads is read, of which there are as many in keys and values.": (
            "detach: q.detach().shape",
            "detach: k.detach().shape",
            "other name: v.shape (2)",
        ),
    },
    hints=HINTS,
)
