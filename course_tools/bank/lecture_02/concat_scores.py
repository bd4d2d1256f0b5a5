"""Exercise 02.3, concat_scores: score each query against each key by vᵀ tanh(W [q_i; k_j])."""

import torch
import torch.nn.functional as F

from course_lib.attention import concat_scores
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
    "Each pair of query and key becomes one vector of size $d_q + d_k$, the query first. How many such vectors are "
    "there in one sentence, and which axes should they have, if the scores are to be `(*batch, T_q, T_k)`?",
    "Repeat each query once per key, and the row of all keys once per query, so that both are "
    "`(*batch, T_q, T_k, …)`. `einops.repeat` lets you write this in words; `unsqueeze` with `expand` does it too. "
    "Then join them on the last axis.",
    "With `pairs` of shape `(*batch, T_q, T_k, d_q + d_k)` the rest is one hidden layer: the product with $W$ (whose "
    "rows are the outputs), $\\tanh$, and the product with $v$, which sums out the last axis. Or do not build the "
    "pairs at all: the first $d_q$ columns of $W$ act on the query, the others on the key.",
)


@wrong.detail
def key_before_query(q, k, W, v):
    """You join the pair with the key first. The length is the same, so there is no error, but the columns of W that belong to
    the query now act on the key."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return torch.tanh(torch.cat([every_k, every_q], dim=-1) @ W.mT) @ v


@wrong.part
def without_the_tanh(q, k, W, v):
    """You leave out the tanh. Two linear layers in a row are one, so your score is a term of the query plus a term of the key:
    all queries rank the keys alike."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return torch.cat([every_q, every_k], dim=-1) @ W.mT @ v


@wrong.detail
def relu_for_tanh(q, k, W, v):
    """You use a ReLU as the nonlinearity, today's habit for a hidden layer. The formula has a tanh: its units are
    bounded and can be negative, yours are neither."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return F.relu(torch.cat([every_q, every_k], dim=-1) @ W.mT) @ v


@wrong.part
def tanh_over_the_score(q, k, W, v):
    """You apply the tanh to the finished score, after v. That keeps all scores between -1 and 1, and inside it your score is
    linear: a term of the query plus a term of the key."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return torch.tanh(torch.cat([every_q, every_k], dim=-1) @ W.mT @ v)


@wrong.detail
def queries_and_keys_on_swapped_axes(q, k, W, v):
    """You put the keys in the rows and the queries in the columns. Each pair is joined correctly, but its score is at (key,
    query), and a softmax over the last axis would run over the queries."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-3).expand(*q.shape[:-2], T_k, T_q, q.shape[-1])
    every_k = k.unsqueeze(-2).expand(*k.shape[:-1], T_q, k.shape[-1])
    return torch.tanh(torch.cat([every_q, every_k], dim=-1) @ W.mT) @ v


@wrong.part
def pairs_out_of_step(q, k, W, v):
    """You repeat queries and keys in the same way, each vector several times in a row. One must be repeated element by element
    and the other as a whole; as it is, some pairs occur more than once and others never."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    pairs = torch.cat([q.repeat_interleave(T_k, -2), k.repeat_interleave(T_q, -2)], dim=-1)
    return (torch.tanh(pairs @ W.mT) @ v).unflatten(-1, (T_q, T_k))


@wrong.idea
def one_query_at_a_time(q, k, W, v):
    """You spread the queries over the keys as if there were only one, as in a single step of the decoder. With one
    query it is right; with several you either get an error or join each query to one key only."""
    every_q = q.expand(*k.shape[:-1], q.shape[-1])
    return (torch.tanh(torch.cat([every_q, k], dim=-1) @ W.mT) @ v).unsqueeze(-2)


@wrong.detail
def matrix_cut_in_halves(q, k, W, v):
    """You cut W in two equal halves, one for the query and one for the key. That fits only where both have the same size; the
    docstring says how many columns belong to which."""
    for_q, for_k = W.chunk(2, dim=-1)
    return torch.tanh((q @ for_q.mT).unsqueeze(-2) + (k @ for_k.mT).unsqueeze(-3)) @ v


@wrong.part
def matrix_reshaped_not_transposed(q, k, W, v):
    """You bring W to (d_q + d_k, d_a) by a reshape. The shape fits the product, but the numbers keep their order in memory, so
    that each hidden unit gets weights of several others; swapping two axes is another operation."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return torch.tanh(torch.cat([every_q, every_k], dim=-1) @ W.reshape(-1, len(W))) @ v


@wrong.case
def scores_collected_as_numbers(q, k, W, v):
    """You write the scores one by one, as bare numbers, into a new tensor. All of them are right, but they are detached from
    q, k, W and v: no gradient reaches them and nothing is learned."""
    scores = q.new_zeros(*q.shape[:-1], k.shape[-2])
    for i in range(q.shape[-2]):
        for j in range(k.shape[-2]):
            scores[..., i, j] = (torch.tanh(torch.cat([q[..., i, :], k[..., j, :]], dim=-1) @ W.mT) @ v).detach()
    return scores


@wrong.detail
def softmax_already_taken(q, k, W, v):
    """You return weights, not scores: the softmax follows later, in `attend`, together with the mask."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, q.shape[-1])
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, T_k, k.shape[-1])
    return (torch.tanh(torch.cat([every_q, every_k], dim=-1) @ W.mT) @ v).softmax(-1)


@wrong.detail
def concatenates_queries_and_keys_of_different_numbers(q, k, W, v):
    """You concatenate the queries and the keys as they are: there are T_q of one and T_k of the other. Expand both to (T_q,
    T_k) pairs first."""
    return torch.tanh(torch.cat([q, k], dim=-1) @ W.mT) @ v


@wrong.detail
def multiplies_by_the_stored_matrix(q, k, W, v):
    """You multiply the pair by W as it is stored. It has a row for each hidden unit, so the pair meets its columns: pairs @
    W.mT."""
    size = (*q.shape[:-1], k.shape[-2], -1)
    pairs = torch.cat([q.unsqueeze(-2).expand(size), k.unsqueeze(-3).expand(size)], dim=-1)
    return torch.tanh(pairs @ W) @ v


@wrong.detail
def concatenates_without_expanding(q, k, W, v):
    """You give queries and keys their new axes of size 1 and concatenate at once. `cat` does not broadcast: expand both to
    (T_q, T_k) pairs first."""
    return torch.tanh(torch.cat([q.unsqueeze(-2), k.unsqueeze(-3)], dim=-1) @ W.mT) @ v


@wrong.idea
def adds_the_halves_without_new_axes(q, k, W, v):
    """You split W rightly, but add row i of the queries' part to row i of the keys'. Each query meets every key: give the
    queries an axis for the keys, and the keys one for the queries, before you add."""
    for_q, for_k = W.split([q.shape[-1], k.shape[-1]], dim=-1)
    return torch.tanh(q @ for_q.mT + k @ for_k.mT) @ v


@wrong.detail
def lists_the_pairs_key_by_key(q, k, W, v):
    """You list the pairs key by key, all queries for the first key, then all for the second, and fold the list as if it went
    query by query. Repeat each query in a row, and the keys as a whole."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    pairs = torch.cat([torch.cat([q] * T_k, dim=-2), k.repeat_interleave(T_q, -2)], dim=-1)
    return (torch.tanh(pairs @ W.mT) @ v).unflatten(-1, (T_q, T_k))


@wrong.part
def applies_the_tanh_too_early(q, k, W, v):
    """You apply the tanh to queries and keys, before W. The hidden layer is tanh(W [q; k]), the product inside."""
    size = (*q.shape[:-1], k.shape[-2], -1)
    pairs = torch.cat([q.unsqueeze(-2).expand(size), k.unsqueeze(-3).expand(size)], dim=-1)
    return torch.tanh(pairs) @ W.mT @ v


@wrong.detail
def sigmoid_for_tanh(q, k, W, v):
    """You apply the sigmoid to the hidden layer. It lies between 0 and 1, and the tanh of the formula between -1 and 1."""
    size = (*q.shape[:-1], k.shape[-2], -1)
    pairs = torch.cat([q.unsqueeze(-2).expand(size), k.unsqueeze(-3).expand(size)], dim=-1)
    return torch.sigmoid(pairs @ W.mT) @ v


@wrong.detail
def cuts_the_matrix_by_the_size_of_the_keys(q, k, W, v):
    """You cut W after as many columns as a key has. [q; k] begins with the query, so the first d_q columns belong to it."""
    d = k.shape[-1]
    return torch.tanh((q @ W[:, :d].mT).unsqueeze(-2) + (k @ W[:, d:].mT).unsqueeze(-3)) @ v


@right
def by_split_matrix(q, k, W, v):
    """W split at d_q, so that no pair is ever built: additive attention."""
    for_q, for_k = W.split([q.shape[-1], k.shape[-1]], dim=-1)
    return torch.tanh((q @ for_q.mT)[..., :, None, :] + (k @ for_k.mT)[..., None, :, :]) @ v


@right
def by_loop_over_keys(q, k, W, v):
    """A loop over the keys, each joined to all queries at once, its scores stacked as a column."""
    columns = []
    for key in k.unbind(-2):
        pairs = torch.cat([q, key.unsqueeze(-2).expand(*q.shape[:-1], -1)], dim=-1)
        columns.append(F.linear(torch.tanh(F.linear(pairs, W)), v[None]).squeeze(-1))
    return torch.stack(columns, dim=-1)


@right
def by_list_of_pairs(q, k, W, v):
    """One long list of pairs, queries each repeated in a row and keys tiled, folded to a table at the end."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    pairs = torch.cat([q.repeat_interleave(T_k, -2), torch.cat([k] * T_q, dim=-2)], dim=-1)
    return (torch.tanh(pairs @ W.mT) @ v).unflatten(-1, (T_q, T_k))


@right
def by_einsum(q, k, W, v):
    """Both sides expanded over all pairs, then einsum for W and for v."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = q.unsqueeze(-2).expand(*q.shape[:-1], T_k, -1)
    every_k = k.unsqueeze(-3).expand(*k.shape[:-2], T_q, -1, -1)
    hidden = torch.einsum("...d,ad->...a", torch.cat((every_q, every_k), dim=-1), W).tanh()
    return torch.einsum("...a,a->...", hidden, v)


@stranger
def concat_averages_the_hidden_units(q, k, W, v):
    hidden = torch.tanh((q @ W[:, : q.shape[-1]].mT).unsqueeze(-2) + (k @ W[:, q.shape[-1] :].mT).unsqueeze(-3))
    return (hidden * v).mean(-1)


@stranger
def concat_splits_at_the_size_of_the_keys(q, k, W, v):
    for_k, for_q = W.split([k.shape[-1], q.shape[-1]], dim=-1)
    return torch.tanh((q @ for_q.mT).unsqueeze(-2) + (k @ for_k.mT).unsqueeze(-3)) @ v


@stranger
def concat_forgets_the_keys(q, k, W, v):
    hidden = torch.tanh(q @ W[:, : q.shape[-1]].mT) @ v
    return hidden.unsqueeze(-1).expand(*q.shape[:-1], k.shape[-2]).clone()


@stranger(makes=[key_before_query])
def concat_in_loops_with_the_key_first(q, k, W, v):
    columns = []
    for j in range(k.shape[-2]):
        key = k[..., j : j + 1, :].expand(*q.shape[:-1], k.shape[-1])
        columns.append(F.linear(torch.cat([key, q], -1), W).tanh() @ v)
    return torch.stack(columns, -1)


@stranger(makes=[key_before_query, without_the_tanh])
def concat_with_two_mistakes(q, k, W, v):
    d_k = k.shape[-1]
    return ((k @ W[:, :d_k].mT).unsqueeze(-3) + (q @ W[:, d_k:].mT).unsqueeze(-2)) @ v


def _pairs(draw: Draw, T_q: int, T_k: int, *batch: int, square: bool = False) -> Call:
    d_q, d_k, d_a = draw.sizes(3)
    d_k = d_q if square else d_k
    q, k = draw.normal(*batch, T_q, d_q), draw.normal(*batch, T_k, d_k)
    return q, k, draw.normal(d_a, d_q + d_k), draw.normal(d_a)


exercise = Exercise(
    id="02.3",
    title="Concat scores",
    extra=True,
    reference=concat_scores,
    properties=(
        runs_on(lambda draw: [_pairs(draw, 5, 7, 2)]),
        has_shape("One score for each pair of query and key.", lambda draw: [_pairs(draw, 5, 7, 2)]),
        Property(
            "one pair",
            "One query and one key score vᵀ tanh(W [q; k]).",
            lambda draw: [_pairs(draw, 1, 1, 1), _pairs(draw, 1, 1, 1, square=True)],
            points=2,
        ),
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
    equivalent_mutants={
        "Only the shape is read, and a detached tensor has the same.": (
            "detach: q.detach().shape",
            "detach: k.detach().shape",
        ),
    },
    hints=HINTS,
)
