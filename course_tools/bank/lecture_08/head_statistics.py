"""Exercise 08.7, head_statistics: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.analysis import HeadStatistics, head_statistics
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw the weights of one head for a sentence of three tokens in a batch of five columns. Which entries are "
        "weights on the previous token, which on the next? Which rows count for each of the five numbers, and by how many "
        "do you divide?"
    ),
    (
        "First make a number for each head and each query, (B, h, T): a diagonal for the previous and next token, a sum "
        "over keys for delimiters and entropy. Then average over the real queries, and for previous and next over those "
        "that have one."
    ),
    (
        "`weights.diagonal(-1, -2, -1)` is the weight on the previous token, for queries 1, 2, …; it counts where "
        "`real[:, 1:]`. `torch.special.entr` is -p log p with 0 at 0. Replace what does not count by 0 with `where`, sum "
        "over batch and queries at once, and divide by how many count."
    ),
)


def _real(weights, lengths):
    """Which tokens are no padding, (B, T)."""
    return torch.arange(weights.shape[-1]) < lengths[:, None]


def _mean(values, counts):
    """Over batch and queries (B, h, T), those that count (B, T)."""
    return torch.where(counts[:, None], values, 0.0).sum((0, 2)) / counts.sum()


def _rows(weights, delimiters):
    """The five numbers of each query, (B, h, T) or one query less."""
    return (
        *(weights.diagonal(offset, -2, -1) for offset in (-1, 0, 1)),
        (weights * delimiters[:, None, None]).sum(-1),
        torch.special.entr(weights).sum(-1),
    )


def _statistics(weights, delimiters, lengths, mean=_mean, rows=None):
    """Average the numbers of each query."""
    real = _real(weights, lengths)
    counts = (real[:, 1:], real, real[:, 1:], real, real)
    return HeadStatistics(*map(mean, _rows(weights, delimiters) if rows is None else rows, counts))


@wrong.detail
def exchanges_before_and_after(weights, delimiters, lengths):
    """You take the diagonal above the main one for the previous token. Rows are queries and columns keys, so the key before
    query i is in column i - 1: below the diagonal."""
    right = _statistics(weights, delimiters, lengths)
    return right._replace(previous=right.following, following=right.previous)


@wrong.part
def counts_the_padding(weights, delimiters, lengths):
    """You average over all T rows. Rows of padding are meaningless; average over the rows of real tokens."""
    return _statistics(weights, delimiters, torch.full_like(lengths, weights.shape[-1]))


@wrong.detail
def averages_sentence_by_sentence(weights, delimiters, lengths):
    """You average within each sentence and then over the sentences. A token of a short sentence then has more weight than
    one of a long sentence; all real tokens of the batch have the same weight."""

    def mean(values, counts):
        n = counts.sum(1)
        sums = torch.where(counts[:, None], values, 0.0).sum(2) / n.clamp(min=1)[:, None]
        return sums[n > 0].mean(0)

    return _statistics(weights, delimiters, lengths, mean)


@wrong.detail
def divides_the_neighbours_by_all_tokens(weights, delimiters, lengths):
    """You divide the weights on the neighbours by the number of all real tokens. The first has no previous and the last no
    next token; a head that attends only to the previous token would not get 1."""
    right, n = _statistics(weights, delimiters, lengths), _real(weights, lengths).sum()
    share = _real(weights, lengths)[:, 1:].sum() / n
    return right._replace(previous=right.previous * share, following=right.following * share)


@wrong.case
def lets_the_last_token_look_into_the_padding(weights, delimiters, lengths):
    """You average the weight on the next token over every real token with a next column. The last real token of a shorter
    sentence has only padding there: it must not count."""
    following = _mean(weights.diagonal(1, -2, -1), _real(weights, lengths)[:, :-1])
    return _statistics(weights, delimiters, lengths)._replace(following=following)


@wrong.part
def looks_from_the_delimiters(weights, delimiters, lengths):
    """You take the rows of the delimiters instead of their columns. That is what the delimiters attend to; asked for is the
    weight that each token gives to them."""
    rows = list(_rows(weights, delimiters))
    rows[3] = (weights * delimiters[:, None, :, None]).sum(-2)
    return _statistics(weights, delimiters, lengths, rows=rows)


@wrong.detail
def averages_over_the_delimiters(weights, delimiters, lengths):
    """You divide the weight on delimiters by how many the sentence has. Asked for is the total weight on delimiters; with
    two of them you report half."""
    rows = list(_rows(weights, delimiters))
    rows[3] = rows[3] / delimiters.sum(-1).clamp(min=1)[:, None, None]
    return _statistics(weights, delimiters, lengths, rows=rows)


@wrong.case
def takes_the_logarithm_of_zero(weights, delimiters, lengths):
    """You multiply p by log p as it is. Where a weight is exactly 0 this is 0 · -∞ = NaN, and so is the mean; such a key
    adds 0 to the entropy."""
    rows = [*_rows(weights, delimiters)[:4], -(weights * weights.log()).sum(-1)]
    return _statistics(weights, delimiters, lengths, rows=rows)


@wrong.idea
def takes_the_entropy_of_the_mean(weights, delimiters, lengths):
    """You average the rows first and take the entropy of the mean row. Rows that are concentrated on different keys then
    have a large entropy; take the entropy of each row, and then the mean."""
    real = _real(weights, lengths)
    row = torch.where(real[:, None, :, None], weights, 0.0).sum((0, 2)) / real.sum()
    return _statistics(weights, delimiters, lengths)._replace(entropy=torch.special.entr(row).sum(-1))


@wrong.detail
def forgets_the_minus_of_the_entropy(weights, delimiters, lengths):
    """Your entropy is negative: it is -Σ w log w, and log w ≤ 0."""
    found = head_statistics(weights, delimiters, lengths)
    return (*found[:-1], -found[-1])


@wrong.case
def measures_the_entropy_in_bits(weights, delimiters, lengths):
    """Your entropy is in bits: you use log₂. Asked for are nats, the natural logarithm, so that it lies in 0…log T."""
    found = head_statistics(weights, delimiters, lengths)
    return (*found[:-1], found[-1] / math.log(2))


@wrong.case
def gives_zero_without_a_neighbour(weights, delimiters, lengths):
    """You give 0 for previous and next where no sequence has a second token. 0 would say that the head never attends to its
    neighbours; without any, their mean is NaN."""
    return tuple(part.nan_to_num(0.0) for part in head_statistics(weights, delimiters, lengths))


@right
def sentence_by_sentence(weights, delimiters, lengths):
    """A loop that cuts the padding off each sentence, sums, and divides at the end."""
    sums, n, n_pairs = torch.zeros(5, weights.shape[1]), 0, 0
    for A, delimiter, T in zip(weights, delimiters, lengths.tolist(), strict=True):
        A = A[:, :T]
        logs = torch.where(A > 0, A, 1.0).log()
        before, own, after = (A[..., :T].diagonal(offset, 1, 2).sum(-1) for offset in (-1, 0, 1))
        sums = sums + torch.stack([before, own, after, A[..., delimiter].sum((1, 2)), -(A * logs).sum((1, 2))])
        n, n_pairs = n + T, n_pairs + T - 1
    return tuple(sums[i] / d for i, d in enumerate(torch.tensor([n_pairs, n, n_pairs, n, n])))


@right
def with_all_rows_in_one(weights, delimiters, lengths):
    """The rows of all real tokens in one long list, with the position of each; neighbours are gathered."""
    T = weights.shape[-1]
    b, i = (torch.arange(T)[None] < lengths[:, None]).nonzero(as_tuple=True)
    A = weights.transpose(1, 2)[b, i]

    def on(key, there):
        return A[there].gather(-1, key[there][:, None, None].expand(-1, A.shape[1], 1)).squeeze(-1).mean(0)

    entropy = -torch.xlogy(A, A).sum(-1).mean(0)
    to_delimiters = torch.einsum("nhk,nk->h", A, delimiters[b].float()) / len(A)
    return HeadStatistics(on(i - 1, i > 0), on(i, i >= 0), on(i + 1, i + 1 < lengths[b]), to_delimiters, entropy)


@right
def by_weighing_every_square(weights, delimiters, lengths):
    """A mask of queries and keys for each kind, all squares summed by it, in float64."""
    i = torch.arange(weights.shape[-1])
    query = (i < lengths[:, None]).double()
    A = torch.where(query[:, None, :, None] > 0, weights.double(), 0.0)
    pairs = query[:, :, None] * query[:, None, :]
    near = [pairs * (i - i[:, None] == step) for step in (-1, 0, 1)]
    results = [torch.einsum("bhqk,bqk->h", A, squares) / squares.sum() for squares in near]
    results += [x.sum((0, 2, 3)) / query.sum() for x in (A * delimiters[:, None, None, :], torch.special.entr(A))]
    return HeadStatistics(*(result.to(weights.dtype) for result in results))


@stranger
def statistics_in_bits(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found._replace(entropy=found.entropy / math.log(2))


@stranger
def statistics_of_the_next_but_one(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found._replace(following=head_statistics(weights.roll(-1, -1), delimiters, lengths).following)


@stranger
def statistics_of_all_heads_together(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return tuple(part.mean().expand_as(part) for part in found)


@stranger
def statistics_of_the_favourite(weights, delimiters, lengths):
    hard = F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
    return head_statistics(hard, delimiters, lengths)._replace(entropy=head_statistics(weights, delimiters, lengths).entropy)


@stranger(makes=[exchanges_before_and_after])
def statistics_with_keys_and_queries_exchanged_in_pairs(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, lengths)
    return found.following, found.current, found.previous, found.delimiters, found.entropy


@stranger(makes=[exchanges_before_and_after, counts_the_padding])
def statistics_exchanged_and_padded(weights, delimiters, lengths):
    found = head_statistics(weights, delimiters, torch.full_like(lengths, weights.shape[-1]))
    return found._replace(previous=found.following, following=found.previous)


def _call(draw: Draw, lengths: list[int], h: int = 3, T: int | None = None, *, zeros: bool = False) -> Call:
    """Weights over the real tokens of each sequence, anything in the rows of padding; one delimiter at least in each."""
    n, T = torch.tensor(lengths), T or max(lengths)
    real = torch.arange(T) < n[:, None]
    scores = draw.normal(len(lengths), h, T, T, scale=1.5).masked_fill(~real[:, None, None], -torch.inf)
    if zeros:
        off = draw.uniform(*scores.shape) < 0.3
        scores = scores.masked_fill(off & (scores < scores.amax(-1, keepdim=True)), -torch.inf)
    weights = torch.where(real[:, None, :, None], scores.softmax(-1), draw.uniform(*scores.shape))
    delimiters = (draw.uniform(len(lengths), T) < 0.4) & real
    delimiters[torch.arange(len(lengths)), n - 1] = True
    return weights, delimiters, n


def _whole(draw: Draw) -> list[Call]:
    """Sequences without padding."""
    return [_call(draw, [3], 1), _call(draw, [5, 5], 2)]


def _padded(draw: Draw) -> list[Call]:
    return [_call(draw, [3], 2, T=5), _call(draw, [7, 2, 4], 3)]


def _uneven(draw: Draw) -> list[Call]:
    return [_call(draw, [2, 11]), _call(draw, [1, 5, 3])]


def _silent(draw: Draw) -> list[Call]:
    return [_call(draw, [5, 5], 2, zeros=True), _call(draw, [3, 7], 2, zeros=True)]


_PREVIOUS, _CURRENT, _FOLLOWING, _DELIMITERS, _ENTROPY = map(right_result, range(5))

exercise = Exercise(
    id="08.7",
    title="Statistics of attention heads",
    extra=True,
    reference=head_statistics,
    properties=(
        runs_on(lambda draw: [*_whole(draw), *_padded(draw)]),
        has_shape("Five numbers, one of each for each head.", lambda draw: [*_whole(draw), *_padded(draw)]),
        Property("current", "The weight on itself.", _whole, _CURRENT),
        Property("previous", "The weight on the previous token, over the tokens that have one.", _whole, _PREVIOUS),
        Property("following", "The weight on the next token, over the tokens that have one.", _whole, _FOLLOWING),
        Property("delimiters", "The total weight on delimiters.", _whole, _DELIMITERS, points=2),
        Property("entropy", "The mean entropy of the rows, in nats.", _whole, _ENTROPY, points=2),
        Property(
            "padding",
            "Rows of padding do not count.",
            _padded,
            right_result(1, 3, 4),
            needs=("current", "delimiters", "entropy"),
        ),
        Property(
            "neighbours",
            "Previous and next are real tokens: none before the first, none after the last; NaN if there is no pair.",
            lambda draw: [*_padded(draw), _call(draw, [1, 1], T=3)],
            right_result(0, 2),
            needs=("previous", "following"),
        ),
        Property("pooled", "Every token of the batch has the same weight.", _uneven, needs=("padding", "neighbours")),
        Property("zero", "A weight of exactly 0 adds nothing to the entropy.", _silent, _ENTROPY, needs=("entropy",)),
        leaves_inputs(lambda draw: [*_whole(draw), *_padded(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "A main diagonal and a sum over two axes have no direction; of four axes, the last but one is axis 2; "
            "weights are square."
        ): (
            "swap arguments: mean(weights.diagonal(0, -1, -2), real)",
            "swap elements: torch.where(counts[:, None], values, 0.0).sum((2, 0))",
            "drop sign: weights.diagonal(-1, 2, -1)",
            "drop sign: weights.diagonal(0, 2, -1)",
            "drop sign: weights.diagonal(1, 2, -1)",
            "constant: weights.shape[-2]",
            "other name: delimiters.shape",
        ),
        "All answers are called for the CPU: a check that asked for another device would need one.": (
            "drop keyword: position = torch.arange(weights.shape[-1])",
            "other name: delimiters.device",
            "other name: lengths.device",
        ),
    },
    hints=HINTS,
)
