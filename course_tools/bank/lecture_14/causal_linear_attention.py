"""Exercise 14.3, causal_linear_attention: what students answer, wrong and right."""

import torch
from einops import einsum
from torch import Tensor

from course_lib.attention import causal_linear_attention
from course_lib.attention.linear import divide, linear_attention_step, mask_features
from course_lib.fast import chunked_linear_attention
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
        "In plain linear attention one S and one z serve all queries. Now position i may use only the keys j ≤ i: how many "
        "different S and z are there, and how do you get the next of them from the one before?"
    ),
    (
        "Keep the outer products φ(k_j) v_jᵀ separate, as (…, T, f, d_v), instead of summing them at once. A cumulative "
        "sum over the positions turns them into all S_i. Count from the end which axis T is: it is not the same one for "
        "z."
    ),
    (
        "Set the features of masked keys to 0 by `mask_features`. S is the `einsum` to `... T f d_v` with `cumsum(-3)`, z is "
        "the features with `cumsum(-2)`. Contract `phi_q` with S over f and with z over f, position by position, and give "
        "both to `divide`."
    ),
)


@wrong.idea
def looks_at_the_future(phi_q, phi_k, v, mask=None):
    """You sum over all positions at once, so each one also attends to later ones. Position i may only use the keys j ≤ i:
    it needs its own S and z."""
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.part
def normalises_over_all_positions(phi_q, phi_k, v, mask=None):
    """Your numerator is causal, but your normaliser sums over all positions. The later keys are then part of the
    denominator, so the weights of the early positions sum to less than 1."""
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), phi_q @ phi_k.sum(-2)[..., None])


@wrong.detail
def leaves_out_the_position_itself(phi_q, phi_k, v, mask=None):
    """Your sums end before position i: it does not attend to itself, and the first position attends to nothing. The sums
    run over j ≤ i, with i included."""
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril(-1)
    return divide(similarity, similarity.sum(-1, keepdim=True)) @ v


@wrong.detail
def leaves_the_position_out_of_S(phi_q, phi_k, v, mask=None):
    """Your S ends before position i, and your z includes it: the weights sum to less than 1, and the first context is 0. Both
    sums run over j ≤ i, with i included."""
    phi_k = mask_features(phi_k, mask)
    written = phi_k[..., :, None] * v[..., None, :]
    S, z = written.cumsum(-3) - written, phi_k.cumsum(-2)
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True))


@wrong.idea
def sums_from_the_end(phi_q, phi_k, v, mask=None):
    """You sum from position i to the end, so each position attends to itself and to later positions but not to earlier
    ones."""
    similarity = (phi_q @ mask_features(phi_k, mask).mT).triu()
    return divide(similarity, similarity.sum(-1, keepdim=True)) @ v


@wrong.idea
def sums_over_the_features_in_S(phi_q, phi_k, v, mask=None):
    """You take the cumulative sum of both over axis -2. For z that is the positions; the outer products have one axis more,
    so in S you sum over the features and no position attends to another."""
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-2)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(-2)).sum(-1, keepdim=True))


@wrong.idea
def sums_over_the_values_of_the_whole_S(phi_q, phi_k, v, mask=None):
    """φ(K)ᵀV has summed over all positions already: your cumulative sum runs over the entries of the values. Keep an outer
    product for each position, (…, T, f, d_v), and sum these cumulatively over the positions, axis -3."""
    S = torch.cumsum(phi_k.mT @ v, -1)
    return divide(phi_q @ S, (phi_q * torch.cumsum(phi_k, 0)).sum(-1, keepdim=True))


@wrong.idea
def sums_over_the_features_of_the_whole_S(phi_q, phi_k, v, mask=None):
    """φ(K)ᵀV has summed over all positions already: your cumulative sum runs over the features. Keep an outer product for each
    position, (…, T, f, d_v), and sum these cumulatively over the positions, axis -3."""
    phi_k = mask_features(phi_k, mask)
    S = torch.cumsum(phi_k.mT @ v, -2)
    return divide(phi_q @ S, (phi_q * phi_k.cumsum(-2)).sum(-1, keepdim=True))


@wrong.part
def sums_over_the_features_in_z(phi_q, phi_k, v, mask=None):
    """Your z is a cumulative sum over the last axis, the features. Position is the last axis but one of the keys; yours
    sums over the features of a single key."""
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(-1)).sum(-1, keepdim=True))


@wrong.case
def sums_over_the_first_axis(phi_q, phi_k, v, mask=None):
    """You take the cumulative sums over axis 0. That is the positions for one single sequence; with a batch you sum over
    sequences."""
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(0)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(0)).sum(-1, keepdim=True))


@wrong.case
def counts_on_one_batch_axis(phi_q, phi_k, v, mask=None):
    """You take the cumulative sums over axis 1. That is the positions only where there is exactly one axis before them:
    with heads you sum over the heads, with a single sequence over the features. Count the axes from the end."""
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(1)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(1)).sum(-1, keepdim=True))


@wrong.part
def forgets_the_normaliser(phi_q, phi_k, v, mask=None):
    """You return the numerators alone, so your context grows from position to position. Each one must be divided by the
    sum of the similarities that went into it."""
    S = einsum(mask_features(phi_k, mask), v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    return einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v")


@wrong.part
def divides_by_the_position(phi_q, phi_k, v, mask=None):
    """You divide by the number of positions so far, a plain mean. The normaliser is the sum of the similarities,
    φ(q_i)ᵀz_i."""
    S = einsum(mask_features(phi_k, mask), v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    seen = torch.arange(1, v.shape[-2] + 1, dtype=v.dtype, device=v.device)
    return einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v") / seen[:, None]


@wrong.part
def ignores_the_mask(phi_q, phi_k, v, mask=None):
    """You never use the mask. Masked keys must be left out of all sums."""
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(-2)).sum(-1, keepdim=True))


@wrong.detail
def silences_the_queries_too(phi_q, phi_k, v, mask=None):
    """You set the features of the queries at masked positions to 0 as well, and their contexts become 0. The mask is over
    keys only."""
    phi_q, phi_k = mask_features(phi_q, mask), mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * phi_k.cumsum(-2)).sum(-1, keepdim=True))


@wrong.detail
def inverts_the_mask(phi_q, phi_k, v, mask=None):
    """You read True in the mask as "forbidden", and so sum over exactly the masked keys. In this course True = may attend."""
    return causal_linear_attention(phi_q, phi_k, v, None if mask is None else ~mask)


@wrong.part
def goes_through_the_past_again(phi_q, phi_k, v, mask=None):
    """Your contexts are right, but their cost is that of softmax attention: each position goes through the T keys, or those
    before it, again. S_i and z_i are those of the position before plus one term: use cumulative sums over the positions."""
    past = torch.ones(v.shape[-2], v.shape[-2], dtype=v.dtype, device=v.device).tril()
    similarity = phi_q @ mask_features(phi_k, mask).mT * past
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


@wrong.detail
def multiplies_features_by_values(phi_q, phi_k, v, mask=None):
    """You multiply φ(K) and V entry by entry, f features against d_v. S_i sums outer products φ(k_j) v_jᵀ: give φ(K) an axis
    of size 1 at the end, and V one before its last."""
    phi_k = mask_features(phi_k, mask)
    S, z = (phi_k * v).cumsum(-2), phi_k.cumsum(-2)
    return divide(phi_q * S, (phi_q * z).sum(-1, keepdim=True))


@wrong.detail
def divides_by_a_row(phi_q, phi_k, v, mask=None):
    """Your normaliser has lost its last axis: one number for each position, (T,), meets the d_v features. Keep an axis of size
    1, keepdim=True."""
    phi_k = mask_features(phi_k, mask)
    S, z = (phi_k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(-3), phi_k.cumsum(-2)
    return (phi_q.unsqueeze(-2) @ S).squeeze(-2) / (phi_q * z).sum(-1)


@wrong.case
def looks_for_keys_alone(phi_q, phi_k, v, mask=None):
    """You set the context to 0 where no key is visible so far, and divide elsewhere. φ(q)ᵀz is also 0 where the features of the
    query are all 0, and 0 / 0 is NaN: look at φ(q)ᵀz itself."""
    phi_k = mask_features(phi_k, mask)
    z = phi_k.cumsum(-2)
    read = (phi_q[..., None] * (phi_k[..., :, None] * v[..., None, :]).cumsum(-3)).sum(-2)
    nothing = (z == 0).all(-1, keepdim=True)
    return torch.where(nothing, 0.0, read / torch.where(nothing, 1.0, (phi_q * z).sum(-1, keepdim=True)))


@wrong.detail
def multiplies_the_query_without_an_axis(phi_q, phi_k, v, mask=None):
    """You write φ(q) @ S. Each position has its own S here, and `@` takes the positions for the rows of one matrix. Give
    φ(q) an axis of size 1 and take it away again, (φ(q)[..., None, :] @ S)[..., 0, :]."""
    phi_k = mask_features(phi_k, mask)
    S, z = (phi_k[..., :, None] * v[..., None, :]).cumsum(-3), phi_k.cumsum(-2)
    return divide(phi_q @ S, (phi_q * z).sum(-1, keepdim=True))


@wrong.detail
def starts_from_a_state_without_a_batch(phi_q, phi_k, v, mask=None):
    """You step from an S of (f, d_v) and a z of (f,). Each sequence of the batch has its own state: begin with zeros of
    (*batch, f, d_v) and (*batch, f)."""
    phi_k, contexts = mask_features(phi_k, mask), []
    S, z = torch.zeros(phi_k.shape[-1], v.shape[-1]), torch.zeros(phi_k.shape[-1])
    for i in range(v.shape[-2]):
        context, S, z = linear_attention_step(S, z, phi_q[..., i, :], phi_k[..., i, :], v[..., i, :])
        contexts.append(context)
    return torch.stack(contexts, -2)


@right
def position_by_position(phi_q, phi_k, v, mask=None):
    """A loop that carries S and z along and reads them at each position."""
    phi_k = mask_features(phi_k, mask)
    S, z, contexts = 0.0, 0.0, [v[..., :0, :]]
    for q_i, k_i, v_i in zip(phi_q.unbind(-2), phi_k.unbind(-2), v.unbind(-2), strict=True):
        S, z = S + torch.einsum("...f,...d->...fd", k_i, v_i), z + k_i
        context = divide(torch.einsum("...f,...fd->...d", q_i, S), (q_i * z).sum(-1, keepdim=True))
        contexts.append(context.unsqueeze(-2))
    return torch.cat(contexts, dim=-2)


@right
def in_chunks(phi_q, phi_k, v, mask=None):
    """Weights within a chunk of 64 positions, one state from chunk to chunk."""
    phi_k, contexts = mask_features(phi_k, mask), [v[..., :0, :]]
    S, z = (phi_k[..., :0, :].mT @ v[..., :0, :]), phi_k[..., :0, :].sum(-2)
    for q, k, values in zip(*(x.split(64, dim=-2) for x in (phi_q, phi_k, v)), strict=True):
        similarity = (q @ k.mT).tril()
        contexts.append(divide(similarity @ values + q @ S, similarity.sum(-1, keepdim=True) + q @ z[..., None]))
        S, z = S + k.mT @ values, z + k.sum(-2)
    return torch.cat(contexts, dim=-2)


@right
def both_sums_as_one_in_double_precision(phi_q, phi_k, v, mask=None):
    """One cumulative sum in float64: a column of ones beside the values carries z along in S."""
    values = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1).double()
    states = torch.cumsum(mask_features(phi_k, mask).double()[..., :, None] * values[..., None, :], dim=-3)
    read = (phi_q.double().unsqueeze(-2) @ states).squeeze(-2)
    return divide(read[..., :-1], read[..., -1:]).to(v.dtype)


@stranger
def causal_of_two_positions(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril().triu(-1)
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


@stranger
def causal_with_a_decay(phi_q, phi_k, v, mask=None):
    apart = torch.arange(v.shape[-2])[:, None] - torch.arange(v.shape[-2])
    similarity = phi_q @ mask_features(phi_k, mask).mT * (0.99 ** apart.clamp(min=0) * (apart >= 0)).to(v.dtype)
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


@stranger
def causal_with_a_frozen_past(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril()
    past = similarity.tril(-1).detach() + similarity - similarity.tril(-1)
    return divide(past @ v, similarity.sum(-1, keepdim=True))


@stranger
def causal_that_gives_silent_positions_their_value(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).tril()
    n = similarity.sum(-1, keepdim=True)
    return torch.where(n == 0, v, divide(similarity @ v, n))


@stranger(makes=[goes_through_the_past_again])
def causal_prefix_by_prefix(phi_q, phi_k, v, mask=None):
    phi_k, contexts = mask_features(phi_k, mask), [v[..., :0, :]]
    for n in range(1, v.shape[-2] + 1):
        query, keys = phi_q[..., n - 1 : n, :], phi_k[..., :n, :]
        contexts.append(divide(query @ (keys.mT @ v[..., :n, :]), query @ keys.sum(-2).unsqueeze(-1)))
    return torch.cat(contexts, dim=-2)


@stranger(makes=[goes_through_the_past_again])
def causal_query_by_query(phi_q, phi_k, v, mask=None):
    phi_k, rows = mask_features(phi_k, mask), [v[..., :0, :]]
    for i, q in enumerate(phi_q.split(1, dim=-2)):
        similarity = q @ phi_k.mT * (torch.arange(v.shape[-2]) <= i)
        rows.append(divide(similarity @ v, similarity.sum(-1, keepdim=True)))
    return torch.cat(rows, dim=-2)


@stranger(makes=[sums_from_the_end])
def causal_by_the_other_triangle(phi_q, phi_k, v, mask=None):
    similarity = (phi_q @ mask_features(phi_k, mask).mT).triu()
    return divide(similarity @ v, similarity.sum(-1, keepdim=True))


@stranger(makes=[looks_at_the_future, forgets_the_normaliser])
def causal(phi_q, phi_k, v, mask=None):
    return phi_q @ (phi_k.mT @ v)


def _features(draw: Draw, *shape: int) -> Tensor:
    """Positive numbers, as a feature map makes them."""
    return draw.uniform(*shape) + 0.05


def _inputs(draw: Draw, *batch: int, T: int | None = None) -> Call:
    n, f, d_v = draw.sizes(3)
    T = n if T is None else T
    return _features(draw, *batch, T, f), _features(draw, *batch, T, f), draw.normal(*batch, T, d_v)


def _masked(draw: Draw, *batch: int) -> Call:
    phi_q, phi_k, v = _inputs(draw, *batch)
    return phi_q, phi_k, v, draw.mask(*batch, 1, v.shape[-2])


def _late(draw: Draw) -> Call:
    """The first positions are hidden: their queries see nothing."""
    phi_q, phi_k, v = _inputs(draw, 3, T=5)
    mask = draw.mask(3, 1, 5)
    mask[..., :2] = False
    return phi_q, phi_k, v, mask


def _silent(draw: Draw) -> Call:
    """The features of one query are all 0, and those of the keys are not."""
    phi_q, phi_k, v = _inputs(draw, 2, T=5)
    phi_q[1, 3] = 0.0
    return phi_q, phi_k, v


def _faint(draw: Draw) -> Call:
    """Features as small as those of very negative entries: a constant beside them would be seen."""
    phi_q, phi_k, v = _inputs(draw, 1, T=7)
    return 1e-4 * phi_q, 1e-4 * phi_k, v


def _long(draw: Draw) -> Call:
    """So many positions that a matrix of weights costs 100 times as much as all S_i."""
    return _features(draw, 1, 512, 3), _features(draw, 1, 512, 3), draw.normal(1, 512, 2)


exercise = Exercise(
    id="14.3",
    title="Causal linear attention by prefix sums",
    reference=causal_linear_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw, 1)]),
        has_shape("A context for each position.", lambda draw: [_inputs(draw, 2)]),
        Property("one position", "A single position gets its value.", lambda draw: [_inputs(draw, 2, T=1)]),
        Property(
            "past",
            "The context of a position mixes its own value and earlier ones, with weights φ(q)ᵀφ(k) divided by their sum.",
            lambda draw: [_inputs(draw, 1, T=2), _inputs(draw, 1, T=7), _faint(draw)],
            points=3,
            needs=("one position",),
        ),
        costs_at_most(
            32,
            "The cost grows with the length, not with its square.",
            lambda draw: [_long(draw)],
            points=2,
            needs=("past",),
        ),
        Property(
            "batch",
            "Each sequence and each head is computed independently.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3), _inputs(draw)],
            points=2,
            needs=("past",),
        ),
        Property(
            "mask",
            "A masked key is in no sum; the query at its position has a context like any other.",
            lambda draw: [_masked(draw, 1), _masked(draw, 2, 3)],
            points=2,
            needs=("past",),
        ),
        Property(
            "all masked",
            "Where all keys so far are masked, or a query has no features, the context is 0.",
            lambda draw: [_late(draw), _silent(draw)],
            needs=("mask",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _masked(draw, 2, 3), _late(draw)], needs=("batch", "mask")),
        leaves_inputs(lambda draw: [_inputs(draw, 2), _masked(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    forbids={
        chunked_linear_attention: "write the sums over the past yourself.",
    },
)
