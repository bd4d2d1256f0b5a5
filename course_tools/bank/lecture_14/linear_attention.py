"""Exercise 14.2, linear_attention: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.attention import attend, linear_attention
from course_lib.attention.linear import divide, mask_features
from course_lib.primitives import elu_feature_map
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
        "Write c_i as a fraction of two sums over j and underline everything that does not depend on i. What can be summed "
        "once, before any query comes, and which shapes do these two sums have?"
    ),
    (
        "S (f, d_v) sums the outer products φ(k_j) v_jᵀ over the keys, z (f,) sums the φ(k_j). A masked key must be left "
        "out of both. Each query is then multiplied by S for the numerator, and by z for the denominator."
    ),
    (
        "Pass `phi_k` and the mask to `mask_features` first. S is the transposed features times `v`, z the features summed "
        "over axis -2. Give `divide` the queries' features times S, and times z as a column, so that the last axis is 1."
    ),
)


@wrong.idea
def forgets_the_normaliser(phi_q, phi_k, v, mask=None):
    """You return the numerator alone. Your context grows with the number of keys and with the size of the features; the
    weights of a query must sum to 1."""
    return phi_q @ (mask_features(phi_k, mask).mT @ v)


@wrong.part
def divides_by_the_number_of_keys(phi_q, phi_k, v, mask=None):
    """You divide by T_k, so you take a plain mean over the keys. The similarities themselves do not sum to T_k: each query
    has its own normaliser, the sum of its similarities."""
    return phi_q @ (mask_features(phi_k, mask).mT @ v) / phi_k.shape[-2]


@wrong.part
def ignores_the_mask(phi_q, phi_k, v, mask=None):
    """You never use the mask: the padding among the keys is in both sums."""
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.idea
def inverts_the_mask(phi_q, phi_k, v, mask=None):
    """You read True in the mask as "forbidden", and so sum over exactly the masked keys. In this course True = may attend."""
    phi_k = mask_features(phi_k, None if mask is None else ~mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.detail
def masks_the_numerator_only(phi_q, phi_k, v, mask=None):
    """You leave the masked keys out of S but keep them in z. The other weights of a query then sum to less than 1."""
    return divide(phi_q @ (mask_features(phi_k, mask).mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.detail
def masks_the_normaliser_only(phi_q, phi_k, v, mask=None):
    """You leave the masked keys out of z but keep them in S. Their values are still in your context, and the weights sum to
    more than 1."""
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ mask_features(phi_k, mask).sum(-2)[..., None])


@wrong.part
def normalises_the_state(phi_q, phi_k, v, mask=None):
    """You divide S by z, feature by feature, before the query comes. A sum of fractions is not the fraction of the sums:
    multiply both by the query first, then divide the two results."""
    phi_k = mask_features(phi_k, mask)
    return phi_q @ divide(phi_k.mT @ v, phi_k.sum(-2)[..., None])


@wrong.part
def multiplies_the_sums(phi_q, phi_k, v, mask=None):
    """Your normaliser is the sum of the query's features times the sum of all the keys' features. It must be their dot
    product."""
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q.sum(-1, keepdim=True) * phi_k.sum((-2, -1))[..., None, None])


@wrong.idea
def normalises_over_the_queries(phi_q, phi_k, v, mask=None):
    """Your weights of each key sum to 1 over the queries. The weights of each query must sum to 1 over the keys."""
    similarity = phi_q @ mask_features(phi_k, mask).mT
    return divide(similarity, similarity.sum(-2, keepdim=True)) @ v


@wrong.idea
def takes_a_softmax(phi_q, phi_k, v, mask=None):
    """You apply a softmax to φ(q)ᵀφ(k). The features replace the exponential; the weights are φ(q)ᵀφ(k) divided by their
    sum."""
    return attend(phi_q @ phi_k.mT, v, mask).context


@wrong.detail
def applies_the_feature_map_again(phi_q, phi_k, v, mask=None):
    """You apply elu + 1 to the inputs. These are features already: you map them twice."""
    phi_q, phi_k = elu_feature_map(phi_q), mask_features(elu_feature_map(phi_k), mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.case
def divides_nothing_by_nothing(phi_q, phi_k, v, mask=None):
    """You divide 0 by 0 where every key of a sequence is masked, and your context is NaN; it must be 0 there."""
    phi_k = mask_features(phi_k, mask)
    return phi_q @ (phi_k.mT @ v) / (phi_q @ phi_k.sum(-2)[..., None])


@wrong.part
def writes_the_weights_out(phi_q, phi_k, v, mask=None):
    """Your contexts are right, but their cost is that of softmax attention: you compute something for each pair of query and
    key, such as their similarities, or the sums over the keys anew for each query. The product of the keys' features and the
    values comes first, once for all queries; it has no axis for positions."""
    similarity = torch.einsum("...if,...jf->...ij", phi_q, mask_features(phi_k, mask))
    return divide(similarity, similarity.sum(-1, keepdim=True)) @ v


@wrong.detail
def multiplies_without_a_transpose(phi_q, phi_k, v, mask=None):
    """You multiply φ(K) @ V. The sum runs over the keys, so they must be the inner axis: φ(K).mT @ V, (f, T_k) times (T_k,
    d_v)."""
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k @ v), phi_q @ phi_k.sum(-2)[..., None])


@wrong.detail
def divides_by_a_row(phi_q, phi_k, v, mask=None):
    """Your normaliser has lost its last axis: one number for each query, (T_q,), meets the d_v features. Keep an axis of size
    1, [..., None]."""
    phi_k = mask_features(phi_k, mask)
    return phi_q @ (phi_k.mT @ v) / (phi_q * phi_k.sum(-2, keepdim=True)).sum(-1)


@wrong.detail
def sums_the_features_of_each_key(phi_q, phi_k, v, mask=None):
    """You sum over the last axis of φ(K), the features: z has then a number for each key. z is the sum of all keys, and has a
    number for each feature, which the query multiplies: sum over the last axis but one."""
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-1)[..., None])


@wrong.case
def counts_on_one_batch_axis(phi_q, phi_k, v, mask=None):
    """You sum over axis 1, which holds the keys only after exactly one batch axis. There may be none or several, as with
    heads: count from the back, the keys are axis -2."""
    phi_k = mask_features(phi_k, mask)
    z = phi_k.sum(1)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ z[..., None])


@wrong.case
def keeps_one_batch_axis(phi_q, phi_k, v, mask=None):
    """You sum over axis 1 and put it back there. It holds the keys only after exactly one batch axis, and there may be none or
    several, as with heads: count from the back, the keys are axis -2."""
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), (phi_q * phi_k.sum(1).unsqueeze(1)).sum(-1, keepdim=True))


@wrong.idea
def takes_a_softmax_of_the_keys(phi_q, phi_k, v, mask=None):
    """You take a softmax of the keys' features, and no normaliser. Features take the place of the exponential; the weights
    are φ(q)ᵀφ(k) divided by their sum over the keys, which is φ(q)ᵀz."""
    return phi_q @ (mask_features(phi_k, mask).softmax(-2).mT @ v)


@wrong.case
def masks_the_features_without_turning_the_mask(phi_q, phi_k, v, mask=None):
    """You fill φ(K), (T_k, f), by a mask (1, T_k), and the keys meet the features. Turn the mask: mask.mT, (T_k, 1)."""
    phi_k = phi_k if mask is None else phi_k.masked_fill(~mask, 0.0)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@right
def with_a_column_of_ones(phi_q, phi_k, v, mask=None):
    """S and z as one sum: the values get a last column of ones, in which the normaliser comes out."""
    state = mask_features(phi_k, mask).mT @ torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    read = phi_q @ state
    return divide(read[..., :-1], read[..., -1:])


@right
def key_by_key(phi_q, phi_k, v, mask=None):
    """A loop that takes in one key after the other and never looks back."""
    phi_k = mask_features(phi_k, mask)
    S, z = (phi_k[..., :0, :].mT @ v[..., :0, :]), phi_k[..., :0, :].sum(-2)
    for k_j, v_j in zip(phi_k.unbind(-2), v.unbind(-2), strict=True):
        S, z = S + k_j.unsqueeze(-1) * v_j.unsqueeze(-2), z + k_j
    return divide((phi_q.unsqueeze(-1) * S.unsqueeze(-3)).sum(-2), (phi_q * z.unsqueeze(-2)).sum(-1, keepdim=True))


@right
def in_double_precision(phi_q, phi_k, v, mask=None):
    """Three einsum in float64, the result cast back to what came in."""
    q, k, values = phi_q.double(), mask_features(phi_k, mask).double(), v.double()
    numerator = torch.einsum("...qf,...fd->...qd", q, torch.einsum("...kf,...kd->...fd", k, values))
    return divide(numerator, torch.einsum("...qf,...kf->...q", q, k).unsqueeze(-1)).to(v.dtype)


@stranger
def full_with_an_epsilon(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return phi_q @ (phi_k.mT @ v) / (phi_q @ phi_k.sum(-2)[..., None] + 0.1)


@stranger
def full_mixing_the_keys(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ phi_k) @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@stranger
def full_with_a_frozen_normaliser(phi_q, phi_k, v, mask=None):
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), (phi_q @ phi_k.sum(-2)[..., None]).detach())


@stranger
def full_with_the_mask_of_the_first_sentence(phi_q, phi_k, v, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask[:1].expand_as(mask)
    phi_k = mask_features(phi_k, mask)
    return divide(phi_q @ (phi_k.mT @ v), phi_q @ phi_k.sum(-2)[..., None])


@stranger(makes=[writes_the_weights_out])
def full_query_by_query(phi_q, phi_k, v, mask=None):
    contexts = [v[..., :0, :]]
    for q in phi_q.split(1, dim=-2):
        similarity = q @ mask_features(phi_k, mask).mT
        contexts.append(divide(similarity @ v, similarity.sum(-1, keepdim=True)))
    return torch.cat(contexts, dim=-2)


@stranger(makes=[forgets_the_normaliser])
def full_by_einsum_without_the_normaliser(phi_q, phi_k, v, mask=None):
    return torch.einsum("...if,...jf,...jd->...id", phi_q, mask_features(phi_k, mask), v)


@stranger(makes=[forgets_the_normaliser, ignores_the_mask])
def full(phi_q, phi_k, v, mask=None):
    return phi_q @ (phi_k.mT @ v)


def _features(draw: Draw, *shape: int) -> Tensor:
    """Positive numbers, as a feature map makes them."""
    return draw.uniform(*shape) + 0.05


def _inputs(draw: Draw, *batch: int, T_k: int | None = None) -> Call:
    T_q, T, f, d_v = draw.sizes(4)
    T_k = T if T_k is None else T_k
    return _features(draw, *batch, T_q, f), _features(draw, *batch, T_k, f), draw.normal(*batch, T_k, d_v)


def _masked(draw: Draw, *batch: int) -> Call:
    phi_q, phi_k, v = _inputs(draw, *batch)
    return phi_q, phi_k, v, draw.mask(*batch, 1, v.shape[-2])


def _blind(draw: Draw) -> Call:
    phi_q, phi_k, v, mask = _masked(draw, 3)
    mask[1] = False
    return phi_q, phi_k, v, mask


def _short(draw: Draw) -> Call:
    """Features as far from 1 as trained ones may be: only their quotient counts."""
    phi_q, phi_k, v = _inputs(draw, 1)
    return 1e-3 * phi_q, 1e3 * phi_k, v


def _faint(draw: Draw) -> Call:
    """Features as small as those of very negative entries: a constant beside them would be seen."""
    phi_q, phi_k, v = _inputs(draw, 1)
    return 1e-4 * phi_q, 1e-4 * phi_k, v


def _long(draw: Draw) -> Call:
    """So many positions that a matrix of weights costs a hundred times as much as S."""
    return _features(draw, 1, 512, 3), _features(draw, 1, 512, 3), draw.normal(1, 512, 2)


exercise = Exercise(
    id="14.2",
    title="Linear attention",
    reference=linear_attention,
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("A context for each query.", lambda draw: [_inputs(draw, 2)]),
        Property("one key", "With one key, every query gets its value.", lambda draw: [_inputs(draw, 2, T_k=1)], points=2),
        Property(
            "weights",
            "The weights are φ(q)ᵀφ(k), divided by the sum over the keys.",
            lambda draw: [_inputs(draw, 1), _short(draw), _faint(draw)],
            points=3,
            needs=("one key",),
        ),
        costs_at_most(
            24,
            "The cost grows with the number of queries plus the number of keys, not with their product.",
            lambda draw: [_long(draw)],
            points=2,
            needs=("weights",),
        ),
        Property(
            "mask",
            "A masked key is in neither sum.",
            lambda draw: [_masked(draw, 1), _masked(draw, 2)],
            points=3,
            needs=("weights",),
        ),
        Property("all masked", "Where every key is masked, the context is 0.", lambda draw: [_blind(draw)], needs=("mask",)),
        Property(
            "batch",
            "Each sequence and each head is computed independently.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3), _inputs(draw)],
            needs=("weights",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _masked(draw, 2, 3), _blind(draw)], needs=("weights", "mask")),
        leaves_inputs(lambda draw: [_inputs(draw, 2), _masked(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
