"""Exercise 04.8, dictionary_matrices: what students answer, judged by what attention then looks up."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.attention import scaled_dot_product_attention
from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()


def dictionary_matrices(
    n_keys: int, n_values: int
) -> tuple[
    Float[Tensor, "n_keys d"],
    Float[Tensor, "n_keys d"],
    Float[Tensor, "n_values d"],
]:
    """Set W_q, W_k and W_v such that scaled dot-product attention looks up the values of keys.

    A token x is two one-hot vectors side by side: of its key, n_keys numbers, and of its value, n_values + 1 numbers, the last
    of them for the blank of a question. Attention is called with q = x @ W_q.mT, k = x @ W_k.mT and v = x @ W_v.mT.

    Args:
        n_keys: number of different keys, also the size of a query, d_k.
        n_values: number of different values, without the blank.

    Returns:
        W_q, W_k (n_keys, n_keys + n_values + 1) and W_v (n_values, n_keys + n_values + 1): the largest number of a question's
        context is at the value of its key, and other keys together get less than a tenth of its weights.

    Source: Vaswani et al. 2017, eq. 1, with matrices that are not learned.
    """
    W_k = F.pad(torch.eye(n_keys), (0, n_values + 1))
    W_q = 5 * math.sqrt(n_keys) * W_k
    W_v = F.pad(torch.eye(n_values), (n_keys, 1))
    return W_q, W_k, W_v


HINTS = (
    "Write the token of k1 → v0 on paper, for two keys and two values: which of its five numbers say the key, which the value?"
    " A matrix (3, 5) that copies numbers has a single 1 in each row.",
    "W_k and W_q both copy the key: then q · k is 1 for equal keys and 0 for others. But a softmax over 1 and 0, divided by"
    " √d_k, is nearly even: let one of the two matrices be so large that the exponential of the right score is a few hundred."
    " W_v copies the value. A question has its own key, so it finds itself as well: what does W_v make of a blank?",
    "`torch.eye` has a 1 in each row, and `F.pad` puts columns of zeros before it or after it. The columns of the key come"
    " first, then those of the values, then that of the blank. The factor 20 is large enough here; the column of the blank"
    " stays 0.",
)


@wrong.part
def asks_too_softly(n_keys, n_values):
    """Your queries ask for the right key, but too softly: the scores are 1/√d_k for it and 0 for all others, and the softmax
    over them is nearly even. Make the queries, or the keys, about twenty times as long."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.part
def makes_the_values_large(n_keys, n_values):
    """You make the values large, and not the scores. Values enter after the softmax: the weights stay nearly even, and the
    context is the same mixture, only longer."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return W_k, W_k, 20 * F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.part
def passes_the_key_on(n_keys, n_values):
    """Your W_v reads the key: a pair that was found passes on its key, which the question knew. The values stand in the columns
    from n_keys on."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return 20 * W_k, W_k, torch.eye(n_values, n_keys + n_values + 1)


@wrong.part
def passes_the_blank_on(n_keys, n_values):
    """Your W_v has a row for the blank, too. A question finds itself as well as its pair, since both have its key; so half of
    its context would say "blank". Leave that row out: then a question passes nothing on."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return 20 * W_k, W_k, F.pad(torch.eye(n_values + 1), (n_keys, 0))


@wrong.detail
def shifts_the_values(n_keys, n_values):
    """Your values are one column too far to the right: value j is read from the column of value j + 1, and the last one from
    that of the blank. The value 0 stands in column n_keys."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return 20 * W_k, W_k, F.pad(torch.eye(n_values), (n_keys + 1, 0))


@wrong.idea
def looks_for_the_opposite(n_keys, n_values):
    """Your score is negative for the key that is asked for and 0 for the others: the softmax gives the weight to all pairs but
    the right one. Large scores win: leave the minus out."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return -20 * W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.idea
def compares_values(n_keys, n_values):
    """Your queries and keys read the end of a token, where its value stands. A question has a blank there, so it finds the
    other questions. What it asks for is its key: the first n_keys columns."""
    W_k = F.pad(torch.eye(n_keys), (n_values + 1, 0))
    return 20 * W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.idea
def finds_every_key(n_keys, n_values):
    """Your queries are the same for every question, a row of ones: every key gets the same score. A query has to say which key
    it looks for: one 1 in each row."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return torch.ones_like(W_k), W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.detail
def multiplies_zeros_by_infinity(n_keys, n_values):
    """You make the queries infinitely long: 0 · ∞ is NaN, and so is every weight. A finite factor, about 20, is enough."""
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return math.inf * W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@wrong.detail
def returns_the_transposes(n_keys, n_values):
    """You return the transposes, with a row for each number of a token. Matrices are stored as (out, in), and the layer
    transposes them itself: x @ W_q.mT."""
    W_k = torch.eye(n_keys + n_values + 1, n_keys)
    return 20 * W_k, W_k, F.pad(torch.eye(n_values), (0, 0, n_keys, 1))


@wrong.case
def returns_integers(n_keys, n_values):
    """Your matrices hold integers, and tokens are floating-point numbers, which torch does not multiply by integers. Write
    `.float()`."""
    W_q, W_k, W_v = dictionary_matrices(n_keys, n_values)
    return (20 * W_k).long(), W_k.long(), W_v.long()


@right
def writes_ones_in_a_loop(n_keys, n_values):
    """Zeros first, then a number for each key and each value."""
    W_q, W_k = (torch.zeros(n_keys, n_keys + n_values + 1) for _ in range(2))
    W_v = torch.zeros(n_values, n_keys + n_values + 1)
    for i in range(n_keys):
        W_q[i, i], W_k[i, i] = 20.0, 1.0
    for j in range(n_values):
        W_v[j, n_keys + j] = 1.0
    return W_q, W_k, W_v


@right
def shares_the_factor(n_keys, n_values):
    """Queries and keys are the same, each five times as long."""
    W_k = 5 * torch.eye(n_keys, n_keys + n_values + 1)
    return W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@right
def hides_the_questions(n_keys, n_values):
    """The column of the blank takes the key of a question away, so that its whole weight is on the pair."""
    W_q = 40 * torch.eye(n_keys, n_keys + n_values + 1)
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    W_k[:, -1] = -1
    return W_q, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@right
def turns_queries_and_keys(n_keys, n_values):
    """Queries and keys in another basis: only their products count."""
    Q = torch.linalg.qr(torch.randn(n_keys, n_keys)).Q
    W_k = F.pad(Q, (0, n_values + 1))
    return 30 * W_k, W_k, 3 * F.pad(torch.eye(n_values), (n_keys, 1))


@stranger
def dictionary_of_random_matrices(n_keys, n_values):
    d = n_keys + n_values + 1
    return torch.randn(n_keys, d), torch.randn(n_keys, d), torch.randn(n_values, d)


@stranger
def dictionary_of_zeros(n_keys, n_values):
    d = n_keys + n_values + 1
    return torch.zeros(n_keys, d), torch.zeros(n_keys, d), torch.zeros(n_values, d)


@stranger
def dictionary_of_one_key(n_keys, n_values):
    W_k = torch.zeros(n_keys, n_keys + n_values + 1)
    W_k[0, 0] = 1
    return 20 * W_k, W_k, F.pad(torch.eye(n_values), (n_keys, 1))


@stranger
def dictionary_with_exchanged_values(n_keys, n_values):
    W_q, W_k, W_v = dictionary_matrices(n_keys, n_values)
    return W_q, W_k, W_v.flip(0)


@stranger
def dictionary_of_a_large_blank(n_keys, n_values):
    W_q, W_k, W_v = dictionary_matrices(n_keys, n_values)
    W_v[0, -1] = 3
    return W_q, W_k, W_v


@stranger(makes=[asks_too_softly])
def dictionary_without_a_factor(n_keys, n_values):
    W_q = torch.cat([torch.eye(n_keys), torch.zeros(n_keys, n_values + 1)], dim=1)
    W_v = torch.cat([torch.zeros(n_values, n_keys), torch.eye(n_values), torch.zeros(n_values, 1)], dim=1)
    return W_q, W_q.clone(), W_v


@stranger(makes=[asks_too_softly, shifts_the_values])
def dictionary_with_two_mistakes(n_keys, n_values):
    W_k = torch.eye(n_keys, n_keys + n_values + 1)
    return W_k, W_k, F.pad(torch.eye(n_values), (n_keys + 1, 0))


def _sizes(draw: Draw) -> list[Call]:
    """Other numbers of keys and values, and those of the lecture."""
    few, many = sorted(draw.sizes(2))
    return [(many, few), (16, 8)]


def _attended(outcome: Outcome, n_keys: int, n_values: int) -> tuple[torch.Tensor, ...]:
    """Read 64 texts: weights (64, 4, T) and context (64, 4, n_values) of the questions, whose key is where, and the answers."""
    n_pairs = min(8, n_keys)
    generator = torch.Generator().manual_seed(0)
    keys = torch.rand(64, n_keys, generator=generator).argsort(dim=1)[:, :n_pairs]
    values = torch.randint(n_values, (64, n_pairs), generator=generator)
    asked = torch.randint(n_pairs, (64, 4), generator=generator)
    keys = torch.cat([keys, keys.gather(1, asked)], dim=1)
    tokens = F.one_hot(torch.cat([values, torch.full((64, 4), n_values)], dim=1), n_values + 1)
    x = torch.cat([F.one_hot(keys, n_keys), tokens], dim=-1).float()
    W_q, W_k, W_v = outcome.results
    found = scaled_dot_product_attention(x @ W_q.mT, x @ W_k.mT, x @ W_v.mT)
    same = keys[:, n_pairs:, None] == keys[:, None]
    return found.weights[:, n_pairs:], found.context[:, n_pairs:], same, values.gather(1, asked)


def finds_the_pair(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that of the pairs, that with the key of the question has the largest weight."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    weights, _, same, _ = _attended(got, len(expected.results[0]), len(expected.results[2]))
    own, others = weights[..., :-4].where(same[..., :-4], -1).amax(-1), weights[..., :-4].where(~same[..., :-4], -1).amax(-1)
    share = (own > others + 1e-6).float().mean().item()
    return None if share == 1 else Failure(f"In new texts, {share:.0%} of the questions give the largest weight to their pair.")


def is_sharp(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that tokens with another key get less than a tenth of the weights of a question."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    weights, _, same, _ = _attended(got, len(expected.results[0]), len(expected.results[2]))
    most = weights.where(~same, 0).sum(-1).max().item()
    return None if most < 0.1 else Failure(f"Tokens with other keys get {most:.2f} of the weights of a question.")


def answers_right(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the largest number of a question's context is at its answer."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    _, context, _, answers = _attended(got, len(expected.results[0]), len(expected.results[2]))
    share = (context.argmax(-1) == answers).float().mean().item()
    return None if share == 1 else Failure(f"In new texts, {share:.0%} of the questions are answered right.")


exercise = Exercise(
    id="04.8",
    title="A dictionary by hand",
    reference=dictionary_matrices,
    results=("W_q", "W_k", "W_v"),
    properties=(
        runs_on(_sizes),
        has_shape("Matrices (n_keys, d), (n_keys, d) and (n_values, d) with d = n_keys + n_values + 1.", _sizes),
        Property(
            "pair",
            "Of all pairs, a question gives the largest weight to that with its key.",
            _sizes,
            finds_the_pair,
            points=3,
            drawn=True,
        ),
        Property(
            "sharp",
            "All tokens with other keys together get less than a tenth of its weights.",
            _sizes,
            is_sharp,
            points=2,
            needs=("pair",),
            drawn=True,
        ),
        Property(
            "answer",
            "The largest number of a question's context is at the value of its key.",
            _sizes,
            answers_right,
            points=2,
            needs=("pair",),
            drawn=True,
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Any factor that is large enough will do, on the queries, on the keys or on both.": (
            "constant: 4 * math.sqrt(n_keys)",
            "constant: 6 * math.sqrt(n_keys)",
            "cousin: math.exp(n_keys)",
            "drop call: 5 * n_keys",
            "other name: return (W_q, W_q, W_v)",
            "swap elements: return (W_k, W_q, W_v)",
        ),
    },
    hints=HINTS,
)
