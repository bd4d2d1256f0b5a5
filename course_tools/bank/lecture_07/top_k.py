"""Exercise 07.2, top_k: what students answer, wrong and right."""

import torch

from course_lib.generation import top_k
from course_tools.checks.comparisons import Failure, same_shapes
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
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take the logits 2, 5, 1, 3 and k = 2 and write the result down by hand. Which logit must the removed tokens get, "
        "so that a softmax gives them exactly 0? And what should happen when k is 9?"
    ),
    (
        "`torch.topk` over the last axis gives, row by row, the k largest values and their indices; k must not exceed the "
        "number of tokens. Begin with a tensor of -inf, and write the k values at their indices."
    ),
    (
        "k is limited by the size of the last axis. Into a new tensor of -inf, shaped like the logits, `scatter` "
        "writes the k values that `topk` gave along the last axis, at the indices that it gave; `scatter`, not "
        "`scatter_`, leaves its tensor as it is."
    ),
)


def _kept(logits, n):
    """Keep the n largest of each row."""
    best = logits.topk(n, dim=-1)
    return torch.full_like(logits, -torch.inf).scatter(-1, best.indices, best.values)


@wrong.part
def gives_probabilities(logits, k):
    """You finish with a softmax. Asked for are logits, so that a temperature or the nucleus can follow; a second softmax
    makes the probabilities much too even."""
    return _kept(logits, min(k, logits.shape[-1])).softmax(-1)


@wrong.case
def normalises_what_is_left(logits, k):
    """You take the log-softmax of what is left, so that the kept probabilities sum to 1. The k largest logits should stay
    as they are: the softmax of the sampling normalises."""
    return _kept(logits, min(k, logits.shape[-1])).log_softmax(-1)


@wrong.part
def sets_the_others_to_zero(logits, k):
    """You set the other logits to 0. exp(0) = 1, so the removed tokens keep a positive probability; where the kept logits
    are negative they are even the likeliest. Only -inf has probability 0."""
    best = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.zeros_like(logits).scatter(-1, best.indices, best.values)


@wrong.detail
def takes_a_very_small_logit(logits, k):
    """You set the others to -10⁹. That is still a finite logit: they are not removed, as by -inf."""
    best = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -1e9).scatter(-1, best.indices, best.values)


@wrong.idea
def keeps_the_unlikely(logits, k):
    """You keep the k smallest logits, because your order is ascending. The likeliest tokens are those with the largest
    logits."""
    return logits.masked_fill(logits.argsort(-1).argsort(-1) >= k, -torch.inf)


@wrong.detail
def keeps_one_too_few(logits, k):
    """You keep only what lies strictly above the k-th largest logit. That leaves k - 1 tokens, and with k = 1 none at all:
    the k-th is kept too."""
    border = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits.masked_fill(logits <= border, -torch.inf)


@wrong.detail
def keeps_one_too_many(logits, k):
    """You compare with the logit at index k of the sorted row. Indices begin at 0, so this is already the first token that
    should be removed, and you keep k + 1."""
    border = logits.sort(dim=-1, descending=True).values[..., min(k, logits.shape[-1] - 1), None]
    return logits.masked_fill(logits < border, -torch.inf)


@wrong.case
def keeps_all_that_are_equal(logits, k):
    """You keep every logit that is no smaller than the k-th. Where several are equal to it, more than k stay, and with k =
    1 the choice is no longer greedy; keep exactly k, whichever of the equal ones."""
    border = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < border, -torch.inf)


@wrong.part
def ranks_the_whole_batch(logits, k):
    """You look for the k largest logits of the whole batch. Then one row keeps several tokens and another none; every row
    should keep its own k."""
    return _kept(logits.flatten(), min(k, logits.numel())).view_as(logits)


@wrong.part
def gives_the_k_alone(logits, k):
    """You return the k largest logits and nothing else. Your row has k entries, and their indices are lost; the result has
    an entry for every token of the vocabulary."""
    return logits.topk(min(k, logits.shape[-1]), dim=-1).values


@wrong.part
def moves_them_to_the_front(logits, k):
    """You put the k largest logits into the first k entries, in descending order. The index of a logit is that of its
    token, so you assign them to the first tokens of the vocabulary; they must stay at their indices."""
    k = min(k, logits.shape[-1])
    out = torch.full_like(logits, -torch.inf)
    out[..., :k] = logits.topk(k, dim=-1).values
    return out


@wrong.case
def asks_for_more_than_there_are(logits, k):
    """You pass k to `topk` as it is, and that fails where k is larger than the vocabulary. Then all tokens are kept."""
    return _kept(logits, k)


@wrong.case
def overwrites_the_logits(logits, k):
    """You write -inf into the caller's logits, which may still be needed, to sample again or to compute a loss; fill a new
    tensor."""
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    with torch.no_grad():
        return logits.masked_fill_(ranks >= k, -torch.inf)


@wrong.idea
def keeps_the_first_k(logits, k):
    """You keep the first k classes, not the k largest logits: sort, or use `topk`, to find which they are."""
    kept = torch.full_like(logits, -torch.inf)
    kept[..., :k] = logits[..., :k]
    return kept


@wrong.part
def scatters_the_logits_of_the_first_places(logits, k):
    """You scatter the logits themselves: the first ones of the row go to the places of the k largest. Scatter the values that
    `topk` gave, which belong to those indices."""
    index = logits.topk(min(k, logits.shape[-1]), dim=-1).indices
    return torch.full_like(logits, -torch.inf).scatter(-1, index, logits)


@wrong.part
def lets_the_rows_share_the_places(logits, k):
    """You keep as many logits as k for each row come to, but the largest of the whole batch. Each row keeps its own k."""
    n = min(k, logits.shape[-1]) * (logits.numel() // logits.shape[-1])
    values, index = logits.flatten().topk(n)
    return torch.full_like(logits.flatten(), -torch.inf).scatter(0, index, values).view_as(logits)


@right
def by_rank(logits, k):
    """The rank of each token in its row by sorting the sorted order, and those of rank below k."""
    ranks = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
    return torch.where(ranks < k, logits, -torch.inf)


@right
def by_taking_out_the_rest(logits, k):
    """From the other end: -inf put into a copy at the n - k smallest."""
    rest = logits.topk(max(logits.shape[-1] - k, 0), dim=-1, largest=False).indices
    return logits.scatter(-1, rest, -torch.inf)


@right
def row_by_row(logits, k):
    """Python sorts the places of each row by their logits, and the first k are let in."""
    rows = []
    for row in logits.reshape(-1, logits.shape[-1]):
        places = sorted(range(len(row)), key=row.tolist().__getitem__, reverse=True)[:k]
        rows.append(torch.stack([row[i] if i in places else row.new_tensor(-torch.inf) for i in range(len(row))]))
    return torch.stack(rows).reshape(logits.shape)


@right
def one_after_the_other(logits, k):
    """k times the likeliest of the tokens that are not yet kept."""
    kept = torch.zeros_like(logits, dtype=torch.bool)
    for _ in range(min(k, logits.shape[-1])):
        best = logits.masked_fill(kept, -torch.inf).argmax(-1, keepdim=True)
        kept = kept.scatter(-1, best, True)
    return logits.masked_fill(~kept, -torch.inf)


@stranger
def k_by_size(logits, k):
    kept = logits.abs().topk(min(k, logits.shape[-1]), dim=-1).indices
    return torch.full_like(logits, -torch.inf).scatter(-1, kept, logits.gather(-1, kept))


@stranger
def k_as_the_border(logits, k):
    border = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return torch.where(logits >= border, border, -torch.inf)


@stranger
def k_of_the_first_row(logits, k):
    kept = logits.reshape(-1, logits.shape[-1])[0].topk(min(k, logits.shape[-1])).indices
    out = torch.full_like(logits, -torch.inf)
    out[..., kept] = logits[..., kept]
    return out


@stranger
def k_cut_from_the_graph(logits, k):
    return top_k(logits.detach(), k)


@stranger(makes=[keeps_the_unlikely])
def k_by_sorting_upwards(logits, k):
    lowest = logits.sort(dim=-1).values[..., min(k, logits.shape[-1]) - 1, None]
    return torch.where(logits <= lowest, logits, -torch.inf)


@stranger(makes=[gives_probabilities, sets_the_others_to_zero, keeps_one_too_few])
def k_probabilities_of_all(logits, k):
    return torch.where(top_k(logits, k - 1 if k > 1 else 1) > -torch.inf, logits.softmax(-1), 0.0)


def _logits(draw: Draw, k: int, *batch: int, n: int = 7) -> Call:
    """Logits on both sides of 0, no two equal."""
    return draw.normal(*batch, n, scale=3.0), k


def _equal(draw: Draw, k: int) -> Call:
    """Logits of which several are as large as the k-th."""
    order = draw.uniform(5, 7).argsort(-1)
    return torch.tensor([2.5, 1.5, 1.5, 1.5, 1.5, -0.5, -3.0])[order], k


def _as_many_of_each(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where each row has the same logits as it should, at whatever places."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    want, have = (outcome.results[0].sort(dim=-1).values for outcome in (expected, got))
    return None if torch.equal(want, have) else Failure("The result is wrong.", "A row has more or fewer logits left than k.")


exercise = Exercise(
    id="07.2",
    title="Top-k",
    reference=top_k,
    extra=True,
    properties=(
        runs_on(lambda draw: [_logits(draw, 3, 5)]),
        has_shape("A logit for each token.", lambda draw: [_logits(draw, 3, 5), _logits(draw, 2)]),
        Property("greedy", "With k = 1 only the likeliest token is kept.", lambda draw: [_logits(draw, 1)]),
        Property(
            "kept",
            "The k largest logits stay as they are, the others are -inf.",
            lambda draw: [_logits(draw, 3), _logits(draw, 5, n=11)],
            points=2,
            needs=("greedy",),
        ),
        Property(
            "batch",
            "Each row is computed independently.",
            lambda draw: [_logits(draw, 3, 5), _logits(draw, 2, 2, 3)],
            points=2,
            needs=("kept",),
        ),
        Property(
            "all",
            "All tokens are kept where k is as large as the vocabulary, or larger.",
            lambda draw: [_logits(draw, 7, 2), _logits(draw, 9, 2)],
            needs=("kept",),
        ),
        Property(
            "equal",
            "If logits tie for the k-th place, exactly k logits are kept; which of the tied ones is free.",
            lambda draw: [_equal(draw, 2), _equal(draw, 4)],
            _as_many_of_each,
            needs=("batch",),
        ),
        has_gradient(lambda draw: [_logits(draw, 3, 5)], needs=("batch",)),
        leaves_inputs(lambda draw: [_logits(draw, 3, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "The last axis is topk's own choice, a smaller number has no sides, and of the detached only shape and "
            "kind are read."
        ): (
            "detach: logits.detach().shape",
            "detach: torch.full_like(logits.detach(), -torch.inf)",
            "drop keyword: kept = logits.topk(min(k, logits.shape[-1]))",
            "swap arguments: logits.topk(min(logits.shape[-1], k), dim=-1)",
        ),
    },
    hints=HINTS,
)
