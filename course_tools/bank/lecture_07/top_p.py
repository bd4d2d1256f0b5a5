"""Exercise 07.3, top_p: what students answer, wrong and right."""

import math

import torch

from course_lib.generation import top_p
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
from course_tools.checks.outcome import Outcome, is_close

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take four tokens with probabilities 0.1, 0.5, 0.3, 0.1 and p = 0.6. Add the probabilities in descending order "
        "and stop as soon as the sum is 0.6 or more: which tokens are in the nucleus? What was the sum before the last "
        "one? And with p = 0.2?"
    ),
    (
        "Sort each row in descending order, and take the cumulative sum of its probabilities. A token is kept where the "
        "sum of all tokens *before* it is less than p; for the likeliest this sum is 0. Then every logit must go back to "
        "its own index."
    ),
    (
        "`cumsum` over the sorted softmax, minus that softmax itself, is the sum before each token; fill the sorted "
        "logits with -inf where it is p or more, and `scatter` them along the last axis at the indices that `sort` gave."
    ),
)


def _sorted(logits):
    """Logits, probabilities and places of the tokens, the likeliest first."""
    ordered, order = logits.sort(dim=-1, descending=True)
    return ordered, ordered.softmax(-1), order


def _put_back(kept, order):
    return torch.full_like(kept, -torch.inf).scatter(-1, order, kept)


@wrong.detail
def leaves_out_the_word_that_crosses(logits, p):
    """You stop before the token with which the sum reaches p. Your set then sums to less than p; the token that crosses the
    threshold belongs to the nucleus."""
    ordered, probabilities, order = _sorted(logits)
    first = torch.arange(logits.shape[-1]) == 0
    return _put_back(ordered.masked_fill((probabilities.cumsum(-1) > p) & ~first, -torch.inf), order)


@wrong.detail
def loses_the_likeliest(logits, p):
    """You keep a token only while the sum up to it, itself included, is at most p. If the likeliest token alone has more
    than p, nothing is kept; compare the sum before a token."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) > p, -torch.inf), order)


@wrong.case
def goes_on_where_the_sum_is_p(logits, p):
    """You keep the token after the one with which the sum is exactly p: you remove where the sum before is more than p, and it
    must be p or more. The nucleus is the smallest set that reaches p."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) - probabilities > p, -torch.inf), order)


@wrong.detail
def takes_one_too_many(logits, p):
    """You take one more token after p is reached. The nucleus is the smallest set whose probabilities sum to p or more."""
    ordered, probabilities, order = _sorted(logits)
    needed = (probabilities.cumsum(-1) < p).sum(-1, keepdim=True) + 1
    return _put_back(ordered.masked_fill(torch.arange(logits.shape[-1]) > needed, -torch.inf), order)


@wrong.idea
def keeps_the_tail(logits, p):
    """You begin the sum at the least likely token and keep the tail, which the nucleus removes; begin at the likeliest."""
    ordered, order = logits.sort(dim=-1)
    probabilities = ordered.softmax(-1)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf), order)


@wrong.detail
def leaves_them_sorted(logits, p):
    """You return the logits in sorted order. The index of a logit is that of its token; after sorting, each must go back to
    its own index."""
    ordered, probabilities, _ = _sorted(logits)
    return ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf)


@wrong.part
def puts_them_back_the_wrong_way(logits, p):
    """You put the sorted logits back by `gather` with the sorting order. That permutes a second time instead of undoing the
    first: use `scatter` with the order."""
    ordered, probabilities, order = _sorted(logits)
    return ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf).gather(-1, order)


@wrong.idea
def does_not_sort(logits, p):
    """You add up in the order of the vocabulary, without sorting. Which tokens you keep then depends on their indices; the
    nucleus begins with the likeliest."""
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf)


@wrong.idea
def adds_up_the_logits(logits, p):
    """You add up logits where p is a probability. Logits may be negative, and a constant added to all of them changes your
    set; take a softmax first."""
    ordered, _, order = _sorted(logits)
    return _put_back(ordered.masked_fill(ordered.cumsum(-1) - ordered >= p, -torch.inf), order)


@wrong.idea
def compares_single_probabilities(logits, p):
    """You compare the probability of each single token with p. The nucleus is defined by the cumulative sum."""
    return logits.masked_fill(logits.softmax(-1) < p, -torch.inf)


@wrong.part
def adds_up_over_the_first_axis(logits, p):
    """Your sum runs over the first axis. For a batch that is from row to row, so the set of one text depends on the texts
    before it; the tokens are on the last axis."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(0) - probabilities >= p, -torch.inf), order)


@wrong.part
def sets_the_others_to_zero(logits, p):
    """You set the tokens outside the nucleus to 0. A logit of 0 is an ordinary one, and often larger than those you keep.
    Only -inf becomes probability 0."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, 0.0), order)


@wrong.case
def overwrites_the_logits(logits, p):
    """You write -inf into the caller's logits, which may still be needed, to sample again with another p; return a new
    tensor."""
    _, probabilities, order = _sorted(logits.detach())
    out = (probabilities.cumsum(-1) - probabilities >= p).gather(-1, order.argsort(-1))
    with torch.no_grad():
        return logits.masked_fill_(out, -torch.inf)


@wrong.case
def normalises_what_is_left(logits, p):
    """You renormalise the logits that you keep. They stay as they are: sampling takes a softmax of them, which normalises
    anyway."""
    return top_p(logits, p).log_softmax(-1)


@wrong.idea
def keeps_every_token(logits, p):
    """You remove no token, whatever p is: what you add up never reaches p. Logarithms of probabilities, for example, are
    negative; add up the probabilities."""
    return logits.clone()


@wrong.case
def keeps_all_that_are_equal(logits, p):
    """You compare each token with the least likely one of the nucleus. Where others are as likely as that one, you keep them
    all: more than the smallest set that reaches p. Decide by the order after sorting."""
    ordered, probabilities, _ = _sorted(logits)
    is_out = probabilities.cumsum(-1) - probabilities >= p
    return logits.masked_fill(logits < ordered.masked_fill(is_out, torch.inf).amin(-1, keepdim=True), -torch.inf)


@wrong.idea
def compares_with_a_share_of_the_largest(logits, p):
    """You keep the tokens with at least p times the largest probability. That is min-p; the nucleus is the smallest set whose
    probabilities sum to p."""
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < p * probabilities.amax(-1, keepdim=True), -torch.inf)


@wrong.part
def leaves_the_first_place_unshifted(logits, p):
    """You shift the removal by one, but leave the first place as it was: where the likeliest token alone has more than p,
    nothing remains. The first place is always kept."""
    ordered, probabilities, order = _sorted(logits)
    remove = probabilities.cumsum(-1) > p
    remove = torch.cat([remove[..., :1], remove[..., :-1]], -1)
    return _put_back(ordered.masked_fill(remove, -torch.inf), order)


@wrong.part
def removes_up_to_p_from_the_unlikely(logits, p):
    """You remove the least likely tokens as long as they sum to p or less. That keeps 1 - p: remove up to 1 - p from this
    end."""
    ordered, order = logits.sort(dim=-1)
    remove = ordered.softmax(-1).cumsum(-1) <= p
    remove[..., -1] = False
    return _put_back(ordered.masked_fill(remove, -torch.inf), order)


@right
def by_counting_the_words(logits, p):
    """How many tokens each row needs, and every token whose rank is below that."""
    order = logits.argsort(-1, descending=True)
    needed = (logits.softmax(-1).gather(-1, order).cumsum(-1) < p).sum(-1, keepdim=True) + 1
    return torch.where(order.argsort(-1) < needed, logits, -torch.inf)


@right
def by_all_pairs(logits, p):
    """No running sum: for each token the probabilities of all tokens that rank before it, from a table of pairs."""
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    is_before = ranks[..., None, :] < ranks[..., :, None]
    before = (is_before * logits.softmax(-1)[..., None, :]).sum(-1)
    return logits.masked_fill(before >= p, -torch.inf)


@right
def row_by_row(logits, p):
    """Row after row in Python floats: tokens are added in descending order of probability until their sum reaches p."""
    out = torch.ones_like(logits, dtype=torch.bool).reshape(-1, logits.shape[-1])
    for row, probabilities in enumerate(logits.detach().double().softmax(-1).reshape(out.shape).tolist()):
        held = 0.0
        for word in sorted(range(len(probabilities)), key=probabilities.__getitem__, reverse=True):
            if held >= p:
                break
            out[row, word] = False
            held += probabilities[word]
    return logits.masked_fill(out.view(logits.shape), -torch.inf)


@right
def from_the_rising_order(logits, p):
    """From the unlikely end, in float64: a token is out where it and all below it sum to 1 - p or less."""
    ordered, order = logits.double().sort(dim=-1)
    up_to_here = ordered.softmax(-1).cumsum(-1)
    is_out = (up_to_here <= 1 - p).index_fill(-1, torch.tensor([logits.shape[-1] - 1]), False)
    return logits.masked_fill(torch.zeros_like(is_out).scatter(-1, order, is_out), -torch.inf)


@stranger
def nucleus_of_half_the_rest(logits, p):
    return top_p(logits, 1 - p)


@stranger
def nucleus_at_another_temperature(logits, p):
    return torch.where(top_p(logits / 2, p) > -torch.inf, logits, -torch.inf)


@stranger
def nucleus_over_a_share_of_the_largest(logits, p):
    q = logits.softmax(-1)
    return torch.where(q >= (1 - p) * q.amax(-1, keepdim=True), logits, -torch.inf)


@stranger(makes=[leaves_out_the_word_that_crosses])
def nucleus_by_a_sum_without_the_first(logits, p):
    ordered, order = logits.sort(dim=-1, descending=True)
    crossed = (ordered.softmax(-1).cumsum(-1) > p) & (torch.arange(logits.shape[-1]) > 0)
    return torch.full_like(logits, -torch.inf).scatter(-1, order, torch.where(crossed, -torch.inf, ordered))


@stranger(makes=[does_not_sort, sets_the_others_to_zero])
def nucleus_unsorted_with_zeros(logits, p):
    q = logits.softmax(-1)
    return torch.where(q.cumsum(-1) - q < p, logits, 0.0)


def _logits(draw: Draw, p: float, *batch: int, n: int = 7) -> Call:
    """Logits on both sides of 0; no sum of their probabilities comes near p."""
    while True:
        logits = draw.normal(*batch, n, scale=1.5)
        sums = logits.softmax(-1).sort(dim=-1, descending=True).values.cumsum(-1)
        if (sums - p).abs().min() > 1e-4:
            return logits, p


def _halves() -> Call:
    """The likeliest token has exactly half of the probability."""
    return torch.tensor([0.0, math.log(2.0), 0.0]), 0.5


def _equal(draw: Draw) -> list[Call]:
    """Tokens that are equally likely: one of four, or one of three, is needed."""
    shift = draw.normal(1)
    return [(torch.tensor(logits) + shift, p) for logits, p in (([0.0, 2.0, 0.0, 0.0, 0.0], 0.7), ([1.0, -1.0, 1.0, 1.0], 0.3))]


def _same_in_order(expected: Outcome, got: Outcome) -> Failure | None:
    """Compare the logits of each row in order: of equal ones, any may be kept."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    want, have = (outcome.results[0].sort(-1).values for outcome in (expected, got))
    return None if is_close(want, have) else Failure("Of equally likely tokens, more or fewer than needed are kept.")


def _certain(draw: Draw) -> list[Call]:
    """One token has nearly all of the probability, so that it alone passes any p."""
    logits, p = _logits(draw, 0.3, 5)
    logits[:, 2] += 12.0
    return [(logits, p), (logits, 0.9)]


exercise = Exercise(
    id="07.3",
    title="Top-p, the nucleus",
    reference=top_p,
    extra=True,
    properties=(
        runs_on(lambda draw: [_logits(draw, 0.7, 5)]),
        has_shape("A logit for each token.", lambda draw: [_logits(draw, 0.7, 5), _logits(draw, 0.5)]),
        Property("certain", "The likeliest token is kept, even where it alone has more than p.", _certain, points=0),
        Property(
            "nucleus",
            "The fewest of the likeliest tokens whose probabilities sum to p or more stay as they are, the others are -inf.",
            lambda draw: [_logits(draw, 0.7), _logits(draw, 0.5, n=11), _logits(draw, 0.9, n=11), _halves()],
            points=3,
            needs=("certain",),
        ),
        Property(
            "equal", "Of equally likely tokens, no more are kept than needed.", _equal, _same_in_order, needs=("nucleus",)
        ),
        Property(
            "batch",
            "Each row has its own nucleus.",
            lambda draw: [_logits(draw, 0.6, 5), _logits(draw, 0.8, 2, 3)],
            points=2,
            needs=("nucleus",),
        ),
        Property(
            "shift",
            "A constant added to all logits changes nothing.",
            lambda draw: [(logits + shift, p) for logits, p in [_logits(draw, 0.6, 5)] for shift in (-20.0, 20.0)],
            needs=("nucleus",),
        ),
        has_gradient(lambda draw: [_logits(draw, 0.7, 5)], needs=("batch",)),
        leaves_inputs(lambda draw: [_logits(draw, 0.7, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        ("Every place is written to by the scatter: what stood there before does not matter, nor whose shape it has."): (
            "detach: torch.full_like(logits.detach(), -torch.inf)",
            "drop call: logits.scatter",
            "drop sign: torch.full_like(logits, torch.inf)",
            "other name: torch.full_like(before, -torch.inf)",
            "other name: torch.full_like(kept, -torch.inf)",
            "other name: torch.full_like(ordered, -torch.inf)",
            "other name: torch.full_like(probabilities, -torch.inf)",
        ),
        ("Which words are in is a comparison, through which no gradient flows; and the last axis is sort's own choice."): (
            "detach: probabilities.cumsum(-1) - probabilities.detach()",
            "detach: probabilities.detach().cumsum",
            "detach: before.detach() >= p",
            "detach: ordered.detach().softmax",
            "detach: torch.full_like(logits, -torch.inf).scatter(-1, order.detach(), kept)",
            "drop keyword: ordered, order = logits.sort(descending=True)",
        ),
    },
    hints=HINTS,
)
