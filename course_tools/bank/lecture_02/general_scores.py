"""Exercise 02.2, general_scores: score each query against each key by q_iᵀ W k_j."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import general_scores
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
    "For one query and one key the score is a row times a matrix times a column: one number. You need this number "
    "for all pairs at once. What are the shapes of the three factors, and in which order do their inner sizes agree?",
    "The queries of one sentence are the rows of a matrix `(T_q, d_q)`, and $W$ is `(d_q, d_k)`: their product maps "
    "each query to the size of the keys. What remains is a dot product of each row with each key.",
    "Two matrix products, no loop. Keep the queries on the left, so that they stay in the rows, then $W$ as it is, "
    "then the keys with their **last two** axes swapped: `.mT` does this for any number of batch axes.",
)


@wrong.idea
def matrix_forgotten(q, k, W):
    """You take plain dot products and leave W out. This fails where queries and keys differ in size, and where they agree the
    mechanism has no parameters."""
    return q @ k.mT


@wrong.detail
def matrix_transposed(q, k, W):
    """You use the transpose of W, as a linear layer does. Here W is (d_q, d_k): yours runs only where the two sizes agree, and
    there it exchanges the roles of queries and keys."""
    return q @ W.mT @ k.mT


@wrong.detail
def keys_by_queries(q, k, W):
    """You start from the keys, and so have a row per key and a column per query. The numbers are right, but they are
    transposed: the softmax over the last axis would run over the queries."""
    return k @ W.mT @ q.mT


@wrong.part
def tanh_around_the_product(q, k, W):
    """You put a tanh around the product, as in additive attention. This score is bilinear and has no nonlinearity; yours
    cannot leave the range from -1 to 1, so no key can get nearly all the weight."""
    return torch.tanh(q @ W @ k.mT)


@wrong.detail
def scaled_by_the_root_of_d_k(q, k, W):
    """You divide by the square root of the keys' size. That belongs to scaled dot-product attention; here W can learn its own
    scale, and the formula has none."""
    return q @ W @ k.mT / math.sqrt(k.shape[-1])


@wrong.idea
def query_meets_only_its_own_key(q, k, W):
    """You multiply the i-th query with the i-th key only, and get one score per position. Each query has to be scored against
    all keys, and the number of keys may differ from the number of queries."""
    return (q @ W * k).sum(-1)


@wrong.part
def matrix_on_both_sides(q, k, W):
    """You send both the queries and the keys through W before the dot product, so W enters the score twice. The formula has it
    once."""
    return (q @ W) @ (k @ W).mT


@wrong.part
def keys_reshaped_not_transposed(q, k, W):
    """You bring the keys to (d_k, T_k) by a reshape. The shape is the one you need, but the numbers keep their order in
    memory, so that each column is a mixture of several keys; swapping two axes is another operation."""
    return q @ W @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])


@wrong.idea
def matrix_drawn_anew(q, k, W):
    """You build a linear layer inside the function and ignore the W you are given. Its weights are drawn anew at each
    call, so the same queries and keys score differently each time, and nothing is ever learned."""
    return nn.Linear(q.shape[-1], k.shape[-1], bias=False, dtype=q.dtype, device=q.device)(q) @ k.mT


@wrong.case
def matrix_out_of_the_graph(q, k, W):
    """You detach W from the graph. All scores are right, but no gradient reaches W, so it is never trained."""
    return q @ W.detach() @ k.mT


@wrong.detail
def keys_first_without_transposing(q, k, W):
    """You compute k W qᵀ. W has the shape (d_q, d_k), so the query comes first: q W kᵀ. Yours fits only where d_q = d_k, and
    then it exchanges the axes and transposes W."""
    return k @ W @ q.mT


@wrong.detail
def softmax_already_taken(q, k, W):
    """You return weights, not scores: the softmax follows later, in `attend`, together with the mask."""
    return (q @ W @ k.mT).softmax(-1)


@wrong.detail
def multiplies_keys_that_are_not_transposed(q, k, W):
    """You multiply by the keys as they are stored. A query meets a key feature by feature, so the last axis of q W meets the
    last axis of k: transpose the keys."""
    return q @ W @ k


@right
def by_einsum(q, k, W):
    """The whole bilinear form in one einsum."""
    return torch.einsum("...id,de,...je->...ij", q, W, k)


@right
def keys_brought_to_the_queries(q, k, W):
    """The other way round: F.linear brings the keys to the size of the queries, then dot products."""
    return q @ F.linear(k, W).mT


@right
def by_bilinear_layer(q, k, W):
    """Queries and keys expanded over all pairs, F.bilinear with one output."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return F.bilinear(every_q.contiguous(), every_k.contiguous(), W[None]).squeeze(-1)


@right
def by_loop_over_queries(q, k, W):
    """A loop over the queries; each is multiplied with all keys and summed over the features."""
    rows = [((q[..., i, :] @ W).unsqueeze(-2) * k).sum(-1) for i in range(q.shape[-2])]
    return torch.stack(rows, dim=-2)


@stranger
def general_makes_the_matrix_symmetric(q, k, W):
    W = (W + W.mT) / 2 if W.shape[0] == W.shape[1] else W
    return q @ W @ k.mT


@stranger
def general_normalises_the_queries(q, k, W):
    return F.normalize(q, dim=-1) @ W @ k.mT


@stranger
def general_adds_the_dot_product(q, k, W):
    scores = q @ W @ k.mT
    return scores + q @ k.mT if q.shape[-1] == k.shape[-1] else scores


@stranger
def general_subtracts_the_largest_score(q, k, W):
    scores = q @ W @ k.mT
    return scores - scores.amax(-1, keepdim=True)


@stranger(makes=[matrix_transposed])
def general_by_linear_the_wrong_way(q, k, W):
    return F.linear(q, W) @ k.transpose(-2, -1)


@stranger(makes=[tanh_around_the_product, scaled_by_the_root_of_d_k])
def general_with_two_mistakes(q, k, W):
    return torch.tanh(q @ W @ k.mT / math.sqrt(k.shape[-1]))


def _pairs(draw: Draw, T_q: int, T_k: int, *batch: int, square: bool = False) -> Call:
    d_q, d_k = draw.sizes(2)
    d_k = d_q if square else d_k
    return draw.normal(*batch, T_q, d_q), draw.normal(*batch, T_k, d_k), draw.normal(d_q, d_k)


exercise = Exercise(
    id="02.2",
    title="General (bilinear) scores",
    extra=True,
    reference=general_scores,
    properties=(
        runs_on(lambda draw: [_pairs(draw, 5, 7, 2, square=True)]),
        has_shape("One score for each pair of query and key.", lambda draw: [_pairs(draw, 5, 7, 2, square=True)]),
        Property(
            "one pair", "One query and one key score qᵀ W k.", lambda draw: [_pairs(draw, 1, 1, 1, square=True)], points=2
        ),
        Property("sizes", "Queries and keys may differ in size.", lambda draw: [_pairs(draw, 1, 1, 1)], needs=("one pair",)),
        Property(
            "pairs",
            "Row i is query i, column j is key j.",
            lambda draw: [_pairs(draw, 2, 3, 1), _pairs(draw, 5, 5, 1)],
            points=2,
            needs=("sizes",),
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
