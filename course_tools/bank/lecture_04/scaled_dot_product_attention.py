"""Exercise 04.1, scaled_dot_product_attention: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.attention import scaled_dot_product_attention
from course_lib.attention.core import Attended, attend
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
        "Three steps: score every key against every query, normalise, mix. Start from the shapes: which product of `q` "
        "(…, T_q, d_k) and `k` (…, T_k, d_k) gives scores (…, T_q, T_k)?"
    ),
    (
        "The scores are all dot products of a query with a key, divided by one number that depends only on how long these "
        "vectors are. The division comes before the softmax, and each *query's* row of weights sums to 1."
    ),
    (
        "Multiply `q` by `k` with its last two axes exchanged, divide by the square root of the last size of `k`, and give "
        "these scores to `attend` with the values and the mask: it does the softmax, the masking and the mixing."
    ),
)


@wrong.detail
def forgets_the_scale(q, k, v, mask=None):
    """Your scores are not divided by √d_k: dot products grow with the size of the vectors, so with long ones your
    softmax puts nearly all its weight on a single key before anything is learned, and each training step moves it too far."""
    return attend(q @ k.mT, v, mask)


@wrong.detail
def divides_by_d_k(q, k, v, mask=None):
    """You divide the scores by d_k itself, or by √d_k twice. The spread of a dot product grows only like √d_k, so your scores
    become too small and your weights too even."""
    return attend(q @ k.mT / k.shape[-1], v, mask)


@wrong.detail
def scales_by_the_size_of_the_values(q, k, v, mask=None):
    """You scale by √d_v. The values are not part of the dot products, so their size is unrelated to the spread of the
    scores; where d_v = d_k the mistake has no effect."""
    return attend(q @ k.mT / math.sqrt(v.shape[-1]), v, mask)


@wrong.detail
def scales_by_the_number_of_keys(q, k, v, mask=None):
    """You scale by √T_k, the number of keys. The scale belongs to the number of terms in each dot product, which is
    the size of a key and not how many keys there are."""
    return attend(q @ k.mT / math.sqrt(k.shape[-2]), v, mask)


@wrong.detail
def multiplies_by_the_scale(q, k, v, mask=None):
    """You multiply the scores by √d_k. The scale is there to bring large scores down; yours spreads them further and
    saturates the softmax sooner."""
    return attend(q @ k.mT * math.sqrt(k.shape[-1]), v, mask)


@wrong.part
def scales_after_the_softmax(q, k, v, mask=None):
    """You scale the weights and not the scores. The softmax has then already saturated, and each row of your weights
    sums to 1/√d_k instead of 1."""
    _, weights = attend(q @ k.mT, v, mask)
    weights = weights / math.sqrt(k.shape[-1])
    return Attended(weights @ v, weights)


@wrong.part
def takes_the_softmax_twice(q, k, v, mask=None):
    """You take the softmax of weights that are a softmax already. That makes them nearly equal: of two numbers between 0 and 1
    the larger gets at most e times the weight of the smaller, and forbidden keys get some, too."""
    weights = attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask).weights.softmax(-1)
    return Attended(weights @ v, weights)


@wrong.idea
def normalises_over_the_queries(q, k, v, mask=None):
    """Your softmax runs over the queries: for each key the weights sum to 1. The weights of each query must sum to 1 over
    the keys."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-2).nan_to_num(0.0)
    return weights @ v, weights


@wrong.part
def inverts_the_mask(q, k, v, mask=None):
    """You read True in the mask as "forbidden". In this course True = may attend, so your queries attend to exactly the
    forbidden keys."""
    return attend(q @ k.mT / math.sqrt(k.shape[-1]), v, None if mask is None else ~mask)


@wrong.part
def ignores_the_mask(q, k, v, mask=None):
    """You never use the mask: every query attends to every key, the forbidden ones included."""
    return attend(q @ k.mT / math.sqrt(k.shape[-1]), v)


@wrong.detail
def masks_after_the_softmax(q, k, v, mask=None):
    """You set the forbidden weights to 0 after the softmax. The forbidden keys are then part of the denominator, and the
    other weights of a row no longer sum to 1."""
    weights = (q @ k.mT / math.sqrt(k.shape[-1])).softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return Attended(weights @ v, weights)


@wrong.part
def masks_with_a_score_of_zero(q, k, v, mask=None):
    """You give the forbidden keys a score of 0. That is a score like any other, and the softmax gives it a positive weight
    because exp(0) = 1; the forbidden keys still get weight."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.case
def masks_with_a_large_negative_number(q, k, v, mask=None):
    """You give forbidden keys a score of -1e9. Where a row forbids every key, all its scores are equal and the softmax spreads
    the weight evenly over forbidden keys; such a row must have weights 0 and context 0."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.case
def gives_nan_for_a_row_masked_whole(q, k, v, mask=None):
    """Where the mask forbids every key of a query, your softmax divides 0 by 0 and gives NaN; such a row must have weights 0
    and context 0."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.case
def returns_the_weights_first(q, k, v, mask=None):
    """Both of your results are right, but you return the weights first. The order is (context, weights)."""
    context, weights = attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)
    return weights, context


@wrong.case
def counts_on_one_batch_axis(q, k, v, mask=None):
    """You count on exactly one batch axis, as torch.bmm does or an exchange of axes 1 and 2. There may be none or several, as
    with heads: count the axes from the back."""
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.shape[-1])
    return attend(scores, v, mask)


@wrong.idea
def takes_a_sigmoid(q, k, v, mask=None):
    """You apply a sigmoid to each score. Your weights of a query do not sum to 1; the softmax makes the keys compete."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    weights = scores.sigmoid()
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


@wrong.part
def adds_the_mask_to_the_scores(q, k, v, mask=None):
    """You add the mask to the scores. It is bool, so True adds 1 and False adds 0: the forbidden keys still get weight. A mask
    that is added holds 0 and -∞."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.detail
def multiplies_keys_that_are_not_transposed(q, k, v, mask=None):
    """You multiply q @ k. A query meets a key feature by feature: transpose the last two axes of the keys, k.mT."""
    scores = q @ k / math.sqrt(k.shape[-1])
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.detail
def multiplies_the_values_by_the_weights(q, k, v, mask=None):
    """You multiply v @ weights. The sum runs over the keys, so they must be the inner axis: weights @ v, (T_q, T_k) times
    (T_k, d_v)."""
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return v @ weights, weights


@wrong.detail
def transposes_the_batch(q, k, v, mask=None):
    """You exchange the first two axes of the keys, which are the batch and the positions. Transpose the last two, k.mT or
    k.transpose(-2, -1)."""
    scores = q @ k.transpose(0, 1) / math.sqrt(k.shape[-1])
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.detail
def transposes_with_t(q, k, v, mask=None):
    """You transpose the keys by t(), which is for a single matrix. With axes for a batch in front, k.mT transposes the last
    two."""
    scores = q @ k.t() / math.sqrt(k.shape[-1])
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


@wrong.case
def exponentiates_as_written(q, k, v, mask=None):
    """You take the exponential of the scores as they are: from 89 on it overflows float32, and ∞ / ∞ and ∞ · 0 are NaN.
    Subtract the largest score of each query first, as `softmax` does. And where every key is forbidden you divide 0 by 0."""
    exponentials = (q @ k.mT / math.sqrt(k.shape[-1])).exp()
    if mask is not None:
        exponentials = exponentials * mask
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ v, weights


@wrong.case
def exponentiates_without_the_largest_score(q, k, v, mask=None):
    """You take the exponential of the scores as they are: from 89 on it overflows float32, and ∞ / ∞ and ∞ · 0 are NaN.
    Subtract the largest score of each query first, as `softmax` does."""
    exponentials = (q @ k.mT / math.sqrt(k.shape[-1])).exp()
    if mask is not None:
        exponentials = exponentials * mask
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / torch.where(total == 0, 1.0, total)
    return weights @ v, weights


@wrong.case
def makes_a_batch_of_a_mask_of_two_axes(q, k, v, mask=None):
    """You insert a batch axis in a mask of two axes. Queries without a batch, (T_q, d_k), then get this axis too, and with them
    your result; a mask of two axes broadcasts as it is."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = mask[None] if mask.dim() == 2 else mask
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ v, weights


@wrong.detail
def reverses_all_axes_of_the_keys(q, k, v, mask=None):
    """`k.T` turns all axes of the keys round, the batch too, and fits only where there is no batch. Exchange the last two:
    k.mT."""
    scores = q @ k.T / math.sqrt(k.shape[-1])
    return attend(scores, v, mask)


@wrong.detail
def takes_the_root_of_a_number_by_torch(q, k, v, mask=None):
    """`torch.sqrt` takes a tensor, and the size of a key is a plain number: `math.sqrt(k.shape[-1])` or `k.shape[-1] **
    0.5`."""
    return attend(q @ k.mT / torch.sqrt(k.shape[-1]), v, mask)


@right
def in_einsum(q, k, v, mask=None):
    """Both products as einsum, the queries scaled before them, the masked softmax by hand."""
    scores = torch.einsum("...qd,...kd->...qk", q * k.shape[-1] ** -0.5, k)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("...qk,...kv->...qv", weights, v), weights


@right
def query_by_query(q, k, v, mask=None):
    """An explicit loop over the queries, with the exponentials and their sum written out."""
    allowed = torch.ones(*q.shape[:-1], k.shape[-2], dtype=torch.bool, device=q.device)
    allowed = allowed if mask is None else allowed & mask
    contexts, rows = [], []
    for i in range(q.shape[-2]):
        scores = (q[..., i, None, :] * k).sum(-1) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(~allowed[..., i, :], -torch.inf)
        highest = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).min)
        shares = (scores - highest).exp()
        row = shares / shares.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)
        rows.append(row)
        contexts.append((row[..., None] * v).sum(-2))
    return Attended(torch.stack(contexts, -2), torch.stack(rows, -2))


@right
def fused_with_weights_by_hand(q, k, v, mask=None):
    """The context by torch's fused kernel, and the weights beside it by hand."""
    if mask is not None:
        mask = mask.broadcast_to(*q.shape[:-1], k.shape[-2])
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf)
    return context, F.softmax(scores, dim=-1).nan_to_num(0.0)


@right
def in_double_precision(q, k, v, mask=None):
    """Computed in float64, and given back in the precision that came in."""
    Q, K, V = q.double(), k.double(), v.double()
    return tuple(t.to(q.dtype) for t in attend(torch.matmul(Q, K.transpose(-1, -2)) / K.size(-1) ** 0.5, V, mask))


@stranger
def sdpa_scales_by_the_number_of_queries(q, k, v, mask=None):
    return attend(q @ k.mT / math.sqrt(q.shape[-2]), v, mask)


@stranger
def sdpa_bounds_the_scores(q, k, v, mask=None):
    return attend((q @ k.mT / math.sqrt(k.shape[-1])).clamp(-20, 20), v, mask)


@stranger
def sdpa_cuts_the_weights_off(q, k, v, mask=None):
    _, weights = attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)
    return weights.detach() @ v, weights


@stranger
def sdpa_takes_the_mask_of_the_first_sentence(q, k, v, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask[:1].expand_as(mask)
    return scaled_dot_product_attention(q, k, v, mask)


@stranger
def sdpa_masks_by_an_index(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores[~mask] = -torch.inf
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


@stranger(makes=[forgets_the_scale])
def sdpa_by_einsum_without_the_scale(q, k, v, mask=None):
    scores = torch.einsum("...id,...jd->...ij", q, k)
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("...ij,...jd->...id", weights, v), weights


@stranger(makes=[forgets_the_scale, inverts_the_mask])
def scaled_dot_product_with_two_mistakes(q, k, v, mask=None):
    return attend(q @ k.mT, v, None if mask is None else ~mask)


def _inputs(draw: Draw, *batch: int, d_k: int | None = None, scale: float = 1.0) -> Call:
    T_q, T_k, size, d_v = draw.sizes(4)
    d_k = size if d_k is None else d_k
    return draw.normal(*batch, T_q, d_k, scale=scale), draw.normal(*batch, T_k, d_k, scale=scale), draw.normal(*batch, T_k, d_v)


def _masked(draw: Draw, *batch: int, d_k: int | None = None) -> Call:
    q, k, v = _inputs(draw, *batch, d_k=d_k)
    return q, k, v, draw.mask(*batch, q.shape[-2], k.shape[-2])


def _broadcast(draw: Draw) -> list[Call]:
    """A mask over the keys of each sentence, as padding is, and one mask for all sentences."""
    q, k, v = _inputs(draw, 2, d_k=1)
    T_q, T_k = q.shape[-2], k.shape[-2]
    return [(q, k, v, draw.mask(2, 1, T_k)), (q, k, v, draw.mask(T_q, T_k))]


def _outscored(draw: Draw) -> Call:
    """Scores so far apart that a forbidden key would win by hundreds: a large negative number in its place is not enough."""
    q, k, v, mask = _masked(draw, 1, d_k=1)
    return 50 * q, 50 * k, v, mask


def _blind(draw: Draw, d_k: int | None = None) -> Call:
    q, k, v, mask = _masked(draw, 2, d_k=d_k)
    mask[0, 0] = mask[1, -1] = False
    return q, k, v, mask


exercise = Exercise(
    id="04.1",
    title="Scaled dot-product attention",
    reference=scaled_dot_product_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A context for each query, and a weight for each pair.", lambda draw: [_inputs(draw, 2)]),
        Property("average", "Queries of 0 get the plain average of the values.", lambda draw: [_inputs(draw, 1, scale=0.0)]),
        Property(
            "softmax",
            "The weights of each query are a softmax over the keys.",
            lambda draw: [_inputs(draw, 1, d_k=1)],
            needs=("average",),
        ),
        Property(
            "scale",
            "The scores are divided by √d_k.",
            lambda draw: [_inputs(draw, 1), _inputs(draw, 1, d_k=17)],
            points=2,
            needs=("softmax",),
        ),
        Property(
            "mask",
            "A forbidden key gets weight 0, and the weights of the others sum to 1.",
            lambda draw: [_masked(draw, 1, d_k=1), *_broadcast(draw), _outscored(draw), _masked(draw, d_k=1)],
            points=4,
            needs=("average",),
        ),
        Property(
            "masked row",
            "A query that may attend to no key has weights 0 and context 0.",
            lambda draw: [_blind(draw, d_k=1)],
            needs=("mask",),
        ),
        Property(
            "large scores",
            "Large scores do not overflow.",
            lambda draw: [_inputs(draw, 1, scale=7.0), _inputs(draw, 1, scale=20.0)],
            needs=("scale",),
        ),
        Property(
            "batch",
            "Each sequence and each head is computed independently.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3)],
            needs=("scale",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _masked(draw, 2, 3), _blind(draw)], needs=("scale", "mask")),
        leaves_inputs(lambda draw: [_inputs(draw, 2), _masked(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the last size is read, and queries and keys agree on it.": (
            "detach: k.detach().shape",
            "other name: q.shape",
        ),
    },
    hints=HINTS,
)
