"""Exercise 14.4, linear_attention_step: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.attention import linear_attention_step
from course_lib.attention.linear import divide
from course_tools.checks.comparisons import right_result
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
        "Position i attends to all positions up to and including itself. When this step begins, which positions are in S "
        "and z? So what comes first, writing to the state or reading from it?"
    ),
    (
        "What is added to S must have the shape of S, (f, d_v): the features of the key down the rows, the value along "
        "the columns. Make new tensors by adding; the caller may still need S and z as they are."
    ),
    (
        "Add the key's features, with a new last axis, times the value, with a new axis before its last, to S, and the "
        "features to z. Then `divide` the query's features times the new S, summed over f, by the sum of the query times "
        "the new z."
    ),
)


@wrong.detail
def reads_before_it_writes(S, z, phi_q, phi_k, v):
    """You read from the state that came in and add this position afterwards. The position then does not attend to itself,
    and the very first one attends to nothing."""
    context = divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True))
    return context, S + phi_k[..., :, None] * v[..., None, :], z + phi_k


@wrong.detail
def reads_by_products_before_it_writes(S, z, phi_q, phi_k, v):
    """You read from the state that came in and add this position afterwards, so it does not attend to itself: write first. And
    φ(q) @ S and φ(q) @ z take a batch for the rows of a matrix: give φ(q) an axis of size 1, or multiply and sum over f."""
    context = divide(phi_q @ S, phi_q @ z)
    return context, S + phi_k[..., :, None] * v[..., None, :], z + phi_k


@wrong.case
def changes_the_state_in_place(S, z, phi_q, phi_k, v):
    """You add to S and z in place, so the state that the caller holds changes as well. The caller can then neither step
    from it again nor differentiate through it."""
    S += phi_k[..., :, None] * v[..., None, :]
    z += phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.detail
def multiplies_key_and_value_as_matrices(S, z, phi_q, phi_k, v):
    """You write φ(k)vᵀ as a product `@` of φ(k) and v, which sums over an axis that they share; with a batch it takes the batch
    for rows. Here nothing is summed: each feature meets each entry of the value, so give φ(k) a last axis of size 1 and v one
    before its last."""
    S, z = S + phi_k @ v, z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.part
def transposes_the_outer_product(S, z, phi_q, phi_k, v):
    """You add vφ(k)ᵀ, values down the rows, but S is (f, d_v) with the features down the rows. It fits only where f = d_v,
    and then it is transposed."""
    S, z = S + v[..., :, None] * phi_k[..., None, :], z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.detail
def forgets_z(S, z, phi_q, phi_k, v):
    """You add to S and leave z as it was. The normaliser then lacks this position."""
    S = S + phi_k[..., :, None] * v[..., None, :]
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.idea
def forgets_the_past(S, z, phi_q, phi_k, v):
    """You replace the state by this position instead of adding it. All earlier positions are lost."""
    S, z = phi_k[..., :, None] * v[..., None, :], phi_k.clone()
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.part
def decays_the_state(S, z, phi_q, phi_k, v):
    """You multiply the state by a factor below 1 before you add to it, as a forget gate does. Linear attention is a plain
    sum: the oldest position counts as much as the newest."""
    S, z = 0.9 * S + phi_k[..., :, None] * v[..., None, :], 0.9 * z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.part
def forgets_to_divide(S, z, phi_q, phi_k, v):
    """You return φ(q)ᵀS as it is. Divide it by φ(q)ᵀz, so that the weights over all positions sum to 1."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return (phi_q[..., :, None] * S).sum(-2), S, z


@wrong.idea
def swaps_query_and_key(S, z, phi_q, phi_k, v):
    """You exchange query and key: the key's features are added to the state, the query's are multiplied by it."""
    S, z = S + phi_q[..., :, None] * v[..., None, :], z + phi_q
    return divide((phi_k[..., :, None] * S).sum(-2), (phi_k * z).sum(-1, keepdim=True)), S, z


@wrong.part
def gives_back_the_old_state(S, z, phi_q, phi_k, v):
    """Your context is right, but the state you return is the one that came in. The next step then lacks this position."""
    new_S, new_z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return divide((phi_q[..., :, None] * new_S).sum(-2), (phi_q * new_z).sum(-1, keepdim=True)), S, z


@wrong.detail
def divides_by_the_sum_of_z(S, z, phi_q, phi_k, v):
    """You divide by the sum of the entries of z, without the query. The normaliser is φ(q)ᵀz."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), z.sum(-1, keepdim=True)), S, z


@wrong.case
def divides_nothing_by_nothing(S, z, phi_q, phi_k, v):
    """Where all similarities are 0, as with a masked key at the start, you divide 0 by 0 and your context is NaN; it must
    be 0."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return (phi_q[..., :, None] * S).sum(-2) / (phi_q * z).sum(-1, keepdim=True), S, z


@wrong.part
def writes_all_sequences_into_one_state(S, z, phi_q, phi_k, v):
    """You sum the outer products over the batch and add that to every S. Each sequence and each head has its own state;
    with a single one the mistake has no effect."""
    S, z = S + torch.einsum("...f,...d->fd", phi_k, v), z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.detail
def multiplies_features_by_a_value(S, z, phi_q, phi_k, v):
    """You multiply φ(k) and v entry by entry, f features against d_v. S is a sum of outer products φ(k) vᵀ: phi_k[..., None] *
    v[..., None, :]."""
    S, z = S + phi_k * v, z + phi_k
    return divide((phi_q.unsqueeze(-2) @ S).squeeze(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.detail
def divides_by_a_row(S, z, phi_q, phi_k, v):
    """Your normaliser has lost its last axis: one number for each sequence meets the d_v features. Keep an axis of size 1,
    keepdim=True."""
    S, z = S + phi_k.unsqueeze(-1) * v.unsqueeze(-2), z + phi_k
    return (phi_q.unsqueeze(-2) @ S).squeeze(-2) / (phi_q * z).sum(-1), S, z


@wrong.detail
def divides_by_the_sum_before(S, z, phi_q, phi_k, v):
    """You read from the new S and divide by the old z. The position itself then counts in the numerator alone, and the weights
    sum to more than 1."""
    new = S + phi_k[..., :, None] * v[..., None, :]
    return divide((phi_q[..., :, None] * new).sum(-2), (phi_q * z).sum(-1, keepdim=True)), new, z + phi_k


@wrong.case
def replaces_the_nan_afterwards(S, z, phi_q, phi_k, v):
    """Your values are right, but you divide 0 by 0 and replace the NaN afterwards. Its gradient is NaN all the same: 0 times
    infinity. Replace the divisor before the division."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return ((phi_q[..., :, None] * S).sum(-2) / (phi_q * z).sum(-1, keepdim=True)).nan_to_num(), S, z


@wrong.case
def looks_for_keys_alone(S, z, phi_q, phi_k, v):
    """You set the context to 0 where z is 0, and divide elsewhere. φ(q)ᵀz is also 0 where the features of the query are all 0,
    and 0 / 0 is NaN: look at φ(q)ᵀz itself."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    nothing = (z == 0).all(-1, keepdim=True)
    similarity = torch.where(nothing, 1.0, (phi_q * z).sum(-1, keepdim=True))
    return torch.where(nothing, 0.0, (phi_q[..., :, None] * S).sum(-2) / similarity), S, z


@wrong.detail
def multiplies_the_query_without_an_axis(S, z, phi_q, phi_k, v):
    """You write φ(q) @ S. A product `@` needs a matrix on the left: with a batch it takes the batch for the rows of one.
    Give φ(q) an axis of size 1 and take it away again, (φ(q)[..., None, :] @ S)[..., 0, :]."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return divide(phi_q @ S, (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.detail
def divides_by_a_product_of_matrices(S, z, phi_q, phi_k, v):
    """You write φ(q) @ S and φ(q) @ z, which holds for one position alone. With a batch, `@` takes the batch for the rows of a
    matrix: (φ(q)[..., None, :] @ S)[..., 0, :], and (φ(q) * z).sum(-1, keepdim=True)."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return divide(phi_q @ S, phi_q @ z), S, z


@wrong.detail
def writes_by_the_outer_product_of_vectors(S, z, phi_q, phi_k, v):
    """`torch.outer` takes two vectors only, and there may be batch axes here: phi_k[..., :, None] * v[..., None, :]."""
    S, z = S + torch.outer(phi_k, v), z + phi_k
    return divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True)), S, z


@wrong.case
def returns_the_state_first(S, z, phi_q, phi_k, v):
    """All three of your results are right, but the context comes last. The order is (context, S, z)."""
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return S, z, divide((phi_q[..., :, None] * S).sum(-2), (phi_q * z).sum(-1, keepdim=True))


@right
def replaces_the_divisor(S, z, phi_q, phi_k, v):
    """A divisor of 0 becomes 1."""
    S, z = S + phi_k.unsqueeze(-1) * v.unsqueeze(-2), z + phi_k
    similarity = (phi_q * z).sum(-1, keepdim=True)
    return (phi_q.unsqueeze(-2) @ S).squeeze(-2) / torch.where(similarity == 0, 1.0, similarity), S, z


@right
def in_einsum(S, z, phi_q, phi_k, v):
    """All three products as einsum."""
    S, z = S + torch.einsum("...f,...d->...fd", phi_k, v), torch.add(z, phi_k)
    normaliser = torch.einsum("...f,...f->...", phi_q, z)
    return divide(torch.einsum("...f,...fd->...d", phi_q, S), normaliser[..., None]), S, z


@right
def as_one_state(S, z, phi_q, phi_k, v):
    """z as a last column of S, written and read together, then taken apart again."""
    value = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    state = torch.cat([S, z.unsqueeze(-1)], dim=-1) + phi_k.unsqueeze(-1) @ value.unsqueeze(-2)
    read = (state.mT @ phi_q.unsqueeze(-1)).squeeze(-1)
    return divide(read[..., :-1], read[..., -1:]), state[..., :-1], state[..., -1]


@right
def feature_by_feature(S, z, phi_q, phi_k, v):
    """A loop over the features: each writes its own row of S and adds its share to the two sums that are read."""
    rows, numerator, normaliser = [], torch.zeros_like(v), torch.zeros_like(v[..., :1])
    z = z + phi_k
    for f in range(phi_k.shape[-1]):
        row = S[..., f, :] + phi_k[..., f, None] * v
        numerator = numerator + phi_q[..., f, None] * row
        normaliser = normaliser + phi_q[..., f, None] * z[..., f, None]
        rows.append(row)
    return divide(numerator, normaliser), torch.stack(rows, dim=-2), z


@right
def in_double_precision(S, z, phi_q, phi_k, v):
    """Reads in float64, the old state and the new position apart, and casts all three results back."""
    wide_S, wide_z, q, k, value = (x.double() for x in (S, z, phi_q, phi_k, v))
    similarity = (q * k).sum(-1, keepdim=True)
    numerator = (q.unsqueeze(-1) * wide_S).sum(-2) + similarity * value
    context = divide(numerator, (q * wide_z).sum(-1, keepdim=True) + similarity)
    new_S = torch.addcmul(wide_S, k.unsqueeze(-1), value.unsqueeze(-2))
    return context.to(v.dtype), new_S.to(S.dtype), (wide_z + k).to(z.dtype)


@stranger
def step_with_a_mean(S, z, phi_q, phi_k, v):
    S, z = (S + phi_k[..., :, None] * v[..., None, :]) / 2, (z + phi_k) / 2
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


@stranger
def step_that_cuts_the_past_off(S, z, phi_q, phi_k, v):
    S, z = S.detach() + phi_k[..., :, None] * v[..., None, :], z.detach() + phi_k
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


@stranger
def step_with_an_epsilon(S, z, phi_q, phi_k, v):
    S, z = S + phi_k[..., :, None] * v[..., None, :], z + phi_k
    return (phi_q[..., None, :] @ S)[..., 0, :] / ((phi_q * z).sum(-1, keepdim=True) + 0.01), S, z


@stranger
def step_that_writes_twice(S, z, phi_q, phi_k, v):
    S, z = S + 2 * phi_k[..., :, None] * v[..., None, :], z + 2 * phi_k
    return divide((phi_q[..., None, :] @ S)[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


@stranger(makes=[reads_before_it_writes])
def step_by_einsum_on_the_old_state(S, z, phi_q, phi_k, v):
    read, n = torch.einsum("...f,...fd->...d", phi_q, S), torch.einsum("...f,...f->...", phi_q, z)[..., None]
    return divide(read, n), S + torch.einsum("...f,...d->...fd", phi_k, v), z + phi_k


@stranger(makes=[reads_before_it_writes, forgets_to_divide])
def step(S, z, phi_q, phi_k, v):
    return (phi_q[..., None, :] @ S)[..., 0, :], S + phi_k[..., :, None] * v[..., None, :], z + phi_k


def _features(draw: Draw, *shape: int) -> Tensor:
    """Positive numbers, as a feature map makes them."""
    return draw.uniform(*shape) + 0.05


def _inputs(draw: Draw, *batch: int, seen: bool = True) -> Call:
    """A state that has seen something, or nothing, and one more position."""
    f, d_v = draw.sizes(2, other_than=batch)
    S, z = draw.normal(*batch, f, d_v), _features(draw, *batch, f)
    state = (S, z) if seen else (0 * S, 0 * z)
    return *state, _features(draw, *batch, f), _features(draw, *batch, f), draw.normal(*batch, d_v)


def _hidden(draw: Draw) -> Call:
    """The first position is padding: nothing is written, and there is nothing to read."""
    S, z, phi_q, phi_k, v = _inputs(draw, 3, seen=False)
    phi_k[1] = 0.0
    return S, z, phi_q, phi_k, v


def _silent(draw: Draw) -> Call:
    """The features of one query are all 0, and z is not."""
    S, z, phi_q, phi_k, v = _inputs(draw, 3)
    phi_q[1] = 0.0
    return S, z, phi_q, phi_k, v


def _padding(draw: Draw) -> Call:
    """The first position is padding, and asks nothing: its context is 0, whatever S and z are."""
    S, z, phi_q, phi_k, v = _hidden(draw)
    phi_q[1] = 0.0
    return S, z, phi_q, phi_k, v


exercise = Exercise(
    id="14.4",
    title="One step of the recurrence",
    reference=linear_attention_step,
    results=("context", "S", "z"),
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A context, and a state of the old size.", lambda draw: [_inputs(draw, 2), _inputs(draw)]),
        Property(
            "first",
            "The very first position gets its own value.",
            lambda draw: [_inputs(draw, 1, seen=False)],
            right_result(0),
        ),
        Property("S", "φ(k) vᵀ is added to S.", lambda draw: [_inputs(draw, 1)], right_result(1), points=2),
        Property("z", "φ(k) is added to z.", lambda draw: [_inputs(draw, 1)], right_result(2)),
        Property(
            "context",
            "The context is φ(q)ᵀS / φ(q)ᵀz, with the new S and z.",
            lambda draw: [_inputs(draw, 1), _inputs(draw)],
            points=2,
            needs=("first", "S", "z"),
        ),
        Property(
            "batch",
            "Each sequence and each head has its own state.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3)],
            needs=("context",),
        ),
        Property(
            "no similarity",
            "Where all similarities are 0, the context is 0.",
            lambda draw: [_hidden(draw), _silent(draw)],
            needs=("context",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _padding(draw)], needs=("batch", "no similarity")),
        leaves_inputs(lambda draw: [_inputs(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`[:, ..., None]` is `[..., :, None]` for every tensor that has an axis.": (
            "swap elements: phi_k[:, ..., None]",
            "swap elements: phi_q[:, ..., None]",
        ),
        (
            "The inputs of the exercise are float32, which is as wide as the state gets; in bfloat16, tested "
            "elsewhere, the kinds differ."
        ): (
            "drop call: wide = S.dtype",
            "drop call: wide = torch.float32",
            "swap arguments: wide = torch.promote_types(torch.float32, S.dtype)",
            "drop attribute: dtype, phi_q, phi_k, v = (v, phi_q.to(wide), phi_k.to(wide), v.to(wide))",
            "drop call: dtype, phi_q, phi_k, v = (v.dtype, phi_q, phi_k.to(wide), v.to(wide))",
            "drop argument: dtype, phi_q, phi_k, v = (v.dtype, phi_q.to(), phi_k.to(wide), v.to(wide))",
            "drop call: dtype, phi_q, phi_k, v = (v.dtype, phi_q.to(wide), phi_k, v.to(wide))",
            "drop argument: dtype, phi_q, phi_k, v = (v.dtype, phi_q.to(wide), phi_k.to(), v.to(wide))",
            "drop call: dtype, phi_q, phi_k, v = (v.dtype, phi_q.to(wide), phi_k.to(wide), v)",
            "drop argument: dtype, phi_q, phi_k, v = (v.dtype, phi_q.to(wide), phi_k.to(wide), v.to())",
            "drop call: return (divide(read, (phi_q * z).sum(-1, keepdim=True)), S, z)",
            "drop argument: return (divide(read, (phi_q * z).sum(-1, keepdim=True)).to(), S, z)",
            "detach: S.detach().dtype",
            "other name: phi_k.dtype",
            "other name: phi_q.dtype",
            "other name: v.dtype",
            "other name: z.dtype",
            "detach: v.detach().dtype",
            "other name: S.dtype",
            "other name: phi_k.dtype (2)",
            "other name: phi_q.dtype (2)",
            "other name: z.dtype (2)",
            "other name: phi_q.to(S)",
            "other name: phi_q.to(phi_k)",
            "other name: phi_q.to(phi_q)",
            "other name: phi_q.to(v)",
            "other name: phi_q.to(z)",
            "other name: phi_k.to(S)",
            "other name: phi_k.to(phi_k)",
            "other name: phi_k.to(phi_q)",
            "other name: phi_k.to(v)",
            "other name: phi_k.to(z)",
            "other name: v.to(S)",
            "other name: v.to(phi_k)",
            "other name: v.to(phi_q)",
            "other name: v.to(v)",
            "other name: v.to(z)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(S)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(phi_k)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(phi_q)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(read)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(v)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(wide)",
            "other name: divide(read, (phi_q * z).sum(-1, keepdim=True)).to(z)",
        ),
    },
    hints=HINTS,
)
