"""Exercise 15.1, gat_scores: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import gat_scores
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
        "Write aᵀ[z_i ‖ z_j] as a sum of two dot products. Which of them depends on i alone, which on j alone? How many "
        "numbers must be computed before each pair takes a single addition?"
    ),
    (
        "Cut the last axis of `a` in the middle. The product of the first half with the receiver gives a column (…, N, "
        "1), that of the second with the sender a row (…, 1, N). Their sum is (…, N, N); LeakyReLU comes last."
    ),
    (
        "A vector a holds a half for the receiver and a half for the sender: cut it in two along its last axis. Each half "
        "times z is one number a node and head; one of them as a column and the other as a row add up to all pairs. LeakyReLU "
        "comes after the sum."
    ),
)


@wrong.detail
def swaps_the_halves(z, a, slope=0.2):
    """You multiply z_j by the first half of a, and z_i by the second. That is the transposed matrix."""
    a_key, a_query = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT, slope)


@wrong.idea
def uses_the_first_half_twice(z, a, slope=0.2):
    """You use the first half of a for both nodes. Your scores are symmetric, and the second half is never used."""
    a_query, _ = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_query).mT, slope)


@wrong.idea
def joins_each_node_with_itself(z, a, slope=0.2):
    """You join each node with itself, [z_i ‖ z_i], and get one number a node. A score belongs to a pair: row i, column j, with
    z_i from the one and z_j from the other."""
    joined = torch.cat([z, z], dim=-1)
    return F.leaky_relu((joined * a.unsqueeze(-2)).sum(-1), slope)


@wrong.part
def cuts_every_other_entry(z, a, slope=0.2):
    """You take every other entry of a for the receiver and the ones between for the sender. In [z_i ‖ z_j] all of z_i comes
    first, so a is cut once, in the middle."""
    a_query, a_key = a.unflatten(-1, (-1, 2)).unsqueeze(-2).unbind(-1)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT, slope)


@wrong.idea
def forgets_the_leaky_relu(z, a, slope=0.2):
    """You leave out the LeakyReLU. Then the term of z_i is the same for all senders and cancels in the softmax, and nodes with
    the same neighbours have the same weights."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return z @ a_query + (z @ a_key).mT


@wrong.detail
def takes_relu(z, a, slope=0.2):
    """You use ReLU, which makes all negative scores 0. They then have no gradient; LeakyReLU has a small slope there."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.relu(z @ a_query + (z @ a_key).mT)


@wrong.case
def takes_the_slope_of_torch(z, a, slope=0.2):
    """You call LeakyReLU without a slope, and torch's own is 0.01. The paper takes 0.2, and here it is an argument of
    the function."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT)


@wrong.case
def fixes_the_slope(z, a, slope=0.2):
    """You use a fixed slope of 0.2 and never use the argument."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT, 0.2)


@wrong.detail
def takes_tanh(z, a, slope=0.2):
    """You use tanh, as Bahdanau's additive score does. A GAT uses LeakyReLU; your scores are bounded by -1…1."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return torch.tanh(z @ a_query + (z @ a_key).mT)


@wrong.idea
def bends_the_features(z, a, slope=0.2):
    """You apply LeakyReLU to the features, before aᵀ. In the GAT of 2018 it comes after: first one number for the pair,
    then LeakyReLU. (GATv2 applies it to the sum of both ends, not to each.)"""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    bent = F.leaky_relu(z, slope)
    return bent @ a_query + (bent @ a_key).mT


@wrong.part
def bends_each_half(z, a, slope=0.2):
    """You apply LeakyReLU to the part of the receiver and to that of the sender, and add afterwards. The term of the receiver
    then cancels in the softmax; LeakyReLU is applied to the sum."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query, slope) + F.leaky_relu(z @ a_key, slope).mT


@wrong.detail
def takes_the_softmax_already(z, a, slope=0.2):
    """You return weights and not scores. The softmax comes later, over the neighbours of each node only; yours runs over all
    nodes, and a second one would follow."""
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT, slope).softmax(-1)


@wrong.case
def uses_the_first_head_for_all(z, a, slope=0.2):
    """You take the first row of a for every head. Each head has its own vector; with one head the mistake has no effect."""
    a_query, a_key = a.reshape(-1, a.shape[-1])[0].unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query + (z @ a_key).mT, slope)


@wrong.part
def multiplies_one_node_by_the_vector_of_a_pair(z, a, slope=0.2):
    """You multiply z by all of a, which is for a pair: 2·d entries. Its first half scores z_i and the second z_j; add the two
    with an axis of size 1 each."""
    return F.leaky_relu(z @ a, slope)


@wrong.case
def multiplies_by_the_vectors_as_a_matrix(z, a, slope=0.2):
    """You write z @ a. That is right for one vector; with one for each head it multiplies matrices. Multiply entry by entry
    and add up: (z * a[..., None, :]).sum(-1)."""
    own, other = a.chunk(2, dim=-1)
    return F.leaky_relu((z @ own)[..., :, None] + (z @ other)[..., None, :], slope)


@right
def pair_by_pair(z, a, slope=0.2):
    """All pairs [z_i ‖ z_j] laid side by side as the formula has them, then one product with a."""
    N = z.shape[-2]
    looking = z.unsqueeze(-2).expand(*z.shape[:-1], N, z.shape[-1])
    pairs = torch.cat([looking, looking.transpose(-3, -2)], dim=-1)
    return F.leaky_relu((pairs * a[..., None, None, :]).sum(-1), slope)


@right
def in_einsum(z, a, slope=0.2):
    """Two einsum, and the LeakyReLU written out as a choice."""
    d = z.shape[-1]
    from_query = torch.einsum("...nd,...d->...n", z, a[..., :d])
    from_key = torch.einsum("...nd,...d->...n", z, a[..., d:])
    total = from_query[..., :, None] + from_key[..., None, :]
    return torch.where(total > 0, total, slope * total)


@right
def row_by_row(z, a, slope=0.2):
    """A loop over the nodes that look, each of which adds its own number to those of all others."""
    a_query, a_key = a.tensor_split(2, dim=-1)
    from_key = (z * a_key.unsqueeze(-2)).sum(-1)
    rows = [F.leaky_relu((z_i * a_query).sum(-1, keepdim=True) + from_key, slope) for z_i in z.unbind(-2)]
    return torch.stack(rows, dim=-2)


@right
def both_halves_at_once_in_double_precision(z, a, slope=0.2):
    """One product in float64 with both halves as columns; the result is cast back."""
    halves = a.double().unflatten(-1, (2, -1)).mT
    from_query, from_key = (z.double() @ halves).unbind(-1)
    total = from_query.unsqueeze(-1) + from_key.unsqueeze(-2)
    return F.leaky_relu(total, negative_slope=slope).to(z.dtype)


@stranger
def gat_takes_the_absolute_value(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return (z @ a_query + (z @ a_key).mT).abs()


@stranger
def gat_subtracts_the_key(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu(z @ a_query - (z @ a_key).mT, slope)


@stranger
def gat_scales_the_scores(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    return F.leaky_relu((z @ a_query + (z @ a_key).mT) / z.shape[-1] ** 0.5, slope)


@stranger
def gat_hides_the_diagonal(z, a, slope=0.2):
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    scores = F.leaky_relu(z @ a_query + (z @ a_key).mT, slope)
    return scores.masked_fill(torch.eye(z.shape[-2], dtype=torch.bool), 0.0)


@stranger(makes=[forgets_the_leaky_relu])
def gat_pairs_without_the_bend(z, a, slope=0.2):
    d = z.shape[-1]
    return (z * a[..., None, :d]).sum(-1).unsqueeze(-1) + (z * a[..., None, d:]).sum(-1).unsqueeze(-2)


@stranger(makes=[swaps_the_halves, forgets_the_leaky_relu])
def gat_twice_wrong(z, a, slope=0.2):
    a_key, a_query = a.unsqueeze(-1).chunk(2, dim=-2)
    return z @ a_query + (z @ a_key).mT


def _nodes(draw: Draw, n_nodes: int, *batch: int, heads: tuple[int, ...] = ()) -> Call:
    (d,) = draw.sizes(1)
    return draw.normal(*batch, *heads, n_nodes, d), draw.normal(*heads, 2 * d)


exercise = Exercise(
    id="15.1",
    title="Scores of a GAT",
    reference=gat_scores,
    properties=(
        runs_on(lambda draw: [_nodes(draw, 5), _nodes(draw, 5, heads=(3,))]),
        has_shape("One score for each pair of nodes.", lambda draw: [_nodes(draw, 5), _nodes(draw, 5, heads=(3,))]),
        Property(
            "one node",
            "The score of a node with itself uses both halves of a.",
            lambda draw: [_nodes(draw, 1) for _ in range(4)],
            points=2,
        ),
        Property(
            "pairs",
            "Row i is the receiver, column j the sender.",
            lambda draw: [_nodes(draw, 2), _nodes(draw, 5)],
            points=2,
            needs=("one node",),
        ),
        Property(
            "slope",
            "LeakyReLU has the slope that is passed in.",
            lambda draw: [(*_nodes(draw, 5), 0.5), (*_nodes(draw, 5), 0.05)],
            needs=("pairs",),
        ),
        Property(
            "heads",
            "Each head has its own vector, and each graph of a batch the same ones.",
            lambda draw: [_nodes(draw, 3, heads=(2,)), _nodes(draw, 5, 2, heads=(3,)), _nodes(draw, 3, 5)],
            needs=("pairs",),
        ),
        has_gradient(lambda draw: [_nodes(draw, 5), _nodes(draw, 3, 2, heads=(5,))], needs=("heads",)),
        leaves_inputs(lambda draw: [_nodes(draw, 5, heads=(3,))]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    extra=True,
)
