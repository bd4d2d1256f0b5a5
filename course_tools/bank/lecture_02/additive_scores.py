"""Exercise 02.1, additive_scores: score each query against each key by vᵀ tanh(W q_i + U k_j)."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.attention import additive_scores
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
    "Every query is paired with every key. Before you write code, write down the shape of the tensor that holds one "
    "vector of size $d_a$ for each such pair, and where the axes of queries and of keys are.",
    "$W q_i$ does not depend on $j$, and $U k_j$ does not depend on $i$: compute both once, `(*batch, T_q, d_a)` and "
    "`(*batch, T_k, d_a)`, and let broadcasting build the sum over all pairs. Remember that the rows of the matrices "
    "are the outputs, as in `torch.nn.Linear`.",
    "Give the projected queries an axis of length 1 where the keys will be, and the projected keys one where the "
    "queries are; counted from the end, these are different axes. Add, take $\\tanh$ of the sum, and let $v$ sum out "
    "the last axis, so that `(*batch, T_q, T_k)` is left.",
)


@wrong.part
def without_the_tanh(q, k, W, U, v):
    """You add the two projections and multiply by v without the tanh. Your score is then a term of the query plus a term of
    the key, so all queries rank the keys alike."""
    return ((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v


@wrong.part
def sum_of_two_tanhs(q, k, W, U, v):
    """You take the tanh of each projection and add afterwards. The sum of query and key must be inside the nonlinearity; yours
    is a term of the query plus a term of the key, so all queries rank the keys alike."""
    return (torch.tanh(q @ W.mT).unsqueeze(-2) + torch.tanh(k @ U.mT).unsqueeze(-3)) @ v


@wrong.detail
def queries_and_keys_on_swapped_axes(q, k, W, U, v):
    """You put the keys in the rows and the queries in the columns. Each number is right, but its position is (key, query), and
    the softmax in attend would run over the queries."""
    return torch.tanh((q @ W.mT).unsqueeze(-3) + (k @ U.mT).unsqueeze(-2)) @ v


@wrong.part
def transposed_by_reshape(q, k, W, U, v):
    """You have the scores as (key, query) and bring them to the required shape by a reshape. A reshape keeps the order of the
    numbers in memory, so they end up at other pairs; swapping two axes is another operation."""
    by_key = torch.tanh((q @ W.mT).unsqueeze(-3) + (k @ U.mT).unsqueeze(-2)) @ v
    return by_key.reshape(*q.shape[:-1], k.shape[-2])


@wrong.detail
def matrices_swapped(q, k, W, U, v):
    """You apply U to the queries and W to the keys. Look at their shapes: it runs only where queries and keys have the same
    size, and even there each is projected by the other's matrix."""
    return torch.tanh((q @ U.mT).unsqueeze(-2) + (k @ W.mT).unsqueeze(-3)) @ v


@wrong.idea
def query_meets_only_its_own_key(q, k, W, U, v):
    """You add the i-th query to the i-th key only, and get one score per position. Each query has to be scored against all
    keys, and the number of keys may differ from the number of queries."""
    return torch.tanh(q @ W.mT + k @ U.mT) @ v


@wrong.part
def tanh_over_the_score(q, k, W, U, v):
    """You apply the tanh to the finished score, after v. That keeps all scores between -1 and 1, and inside it your score is
    linear: a term of the query plus a term of the key."""
    return torch.tanh(((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v)


@wrong.idea
def hidden_units_summed_without_v(q, k, W, U, v):
    """You sum the hidden units as they are and never use v. Then each unit counts the same, and v, a parameter of the model,
    has no effect and receives no gradient."""
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)).sum(-1)


@wrong.detail
def softmax_already_taken(q, k, W, U, v):
    """You return weights: your rows sum to 1. Scores are asked for, any real numbers; a softmax taken here would be
    taken a second time in attend, and that flattens the weights."""
    return (torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v).softmax(-1)


@wrong.case
def axes_counted_from_the_front(q, k, W, U, v):
    """You place the new axes by counting from the front. That fits exactly one batch axis; with none, or with batch and heads,
    the new axes are at the wrong position, and you pair the wrong vectors or get an error."""
    return torch.tanh((q @ W.mT).unsqueeze(2) + (k @ U.mT).unsqueeze(1)) @ v


@wrong.detail
def relu_for_tanh(q, k, W, U, v):
    """You use ReLU where additive attention has tanh: hidden units whose sum is negative drop out of your score."""
    return ((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)).relu() @ v


@wrong.detail
def sigmoid_for_tanh(q, k, W, U, v):
    """You use the sigmoid where additive attention has tanh: your hidden units lie in 0…1 and not in -1…1."""
    return torch.sigmoid((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v


@wrong.detail
def does_not_transpose_the_matrices(q, k, W, U, v):
    """You multiply by W and U as they are stored, (out, in). From the right they are needed as (in, out): `q @ W.mT`."""
    return torch.tanh((q @ W).unsqueeze(-2) + (k @ U).unsqueeze(-3)) @ v


@wrong.detail
def divides_by_the_root_of_the_hidden_size(q, k, W, U, v):
    """You divide by the square root of the number of hidden units. Additive scores have no scale: v learns its own."""
    return additive_scores(q, k, W, U, v) / len(v) ** 0.5


@right
def by_einsum(q, k, W, U, v):
    """All three products by einsum, with a named index for each axis."""
    projected_q = torch.einsum("...id,ad->...ia", q, W)
    projected_k = torch.einsum("...jd,ad->...ja", k, U)
    hidden = torch.tanh(projected_q[..., :, None, :] + projected_k[..., None, :, :])
    return torch.einsum("...ija,a->...ij", hidden, v)


@right
def by_loops(q, k, W, U, v):
    """Two loops, over queries and over keys, and one formula inside."""
    rows = []
    for i in range(q.shape[-2]):
        row = [torch.tanh(q[..., i, :] @ W.mT + k[..., j, :] @ U.mT) @ v for j in range(k.shape[-2])]
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2)


@right
def by_linear_layers(q, k, W, U, v):
    """F.linear for each matrix and for v, rearrange for the new axes."""
    projected_q = rearrange(F.linear(q, W), "... T_q a -> ... T_q 1 a")
    projected_k = rearrange(F.linear(k, U), "... T_k a -> ... 1 T_k a")
    return F.linear(torch.tanh(projected_q + projected_k), v[None]).squeeze(-1)


@right
def by_one_joined_matrix(q, k, W, U, v):
    """Queries and keys expanded over all pairs and joined, W and U joined too: one product."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    joined = torch.cat([every_q, every_k], dim=-1) @ torch.cat([W, U], dim=-1).mT
    return (joined.tanh() * v).sum(-1)


@stranger
def additive_multiplies_the_projections(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) * (k @ U.mT).unsqueeze(-3)) @ v


@stranger
def additive_subtracts_the_key(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) - (k @ U.mT).unsqueeze(-3)) @ v


@stranger
def additive_divides_by_the_root_of_d_a(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v / math.sqrt(len(v))


@stranger
def additive_normalises_v(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ (v / v.norm())


@stranger(makes=[without_the_tanh])
def additive_in_loops_without_tanh(q, k, W, U, v):
    rows = [[(q[..., i, :] @ W.T + k[..., j, :] @ U.T) @ v for j in range(k.shape[-2])] for i in range(q.shape[-2])]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


@stranger(makes=[without_the_tanh, queries_and_keys_on_swapped_axes])
def additive_with_two_mistakes(q, k, W, U, v):
    return ((q @ W.mT).unsqueeze(-3) + (k @ U.mT).unsqueeze(-2)) @ v


def _pairs(draw: Draw, T_q: int, T_k: int, *batch: int) -> Call:
    d_q, d_k, d_a = draw.sizes(3)
    q, k = draw.normal(*batch, T_q, d_q), draw.normal(*batch, T_k, d_k)
    return q, k, draw.normal(d_a, d_q), draw.normal(d_a, d_k), draw.normal(d_a)


exercise = Exercise(
    id="02.1",
    title="Additive scores",
    reference=additive_scores,
    properties=(
        runs_on(lambda draw: [_pairs(draw, 5, 7, 2)]),
        has_shape("One score for each pair of query and key.", lambda draw: [_pairs(draw, 5, 7, 2)]),
        Property("one pair", "One query and one key score vᵀ tanh(W q + U k).", lambda draw: [_pairs(draw, 1, 1, 1)], points=2),
        Property(
            "pairs",
            "Row i is query i, column j is key j.",
            lambda draw: [_pairs(draw, 2, 3, 1), _pairs(draw, 5, 5, 1), _pairs(draw, 1, 3, 1), _pairs(draw, 3, 1, 1)],
            points=2,
            needs=("one pair",),
        ),
        Property(
            "batch",
            "Each sequence is computed independently, with any number of batch axes.",
            lambda draw: [_pairs(draw, 3, 5, 2), _pairs(draw, 3, 5), _pairs(draw, 3, 3, 3, 2)],
            needs=("pairs",),
        ),
        has_gradient(lambda draw: [_pairs(draw, 3, 5, 2)], needs=("batch",)),
        leaves_inputs(lambda draw: [_pairs(draw, 3, 5, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
