"""Exercise 07.3, top_p: what students answer, wrong and right."""

import torch

from course_lib.generation import top_p
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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Take four words with probabilities 0.1, 0.5, 0.3, 0.1 and p = 0.6. Walk from the likeliest word down and stop as soon "
        "as you hold 0.6: which words are in? What did you already hold just before you took the last one? And with p = 0.2?"
    ),
    (
        "Sort each row downwards, and add up its probabilities. A word stays where the sum of all words *before* it is still "
        "less than p; for the likeliest this sum is 0. Then every logit must go back to its own word."
    ),
    (
        "`cumsum` over the sorted softmax, minus that softmax itself, is the sum before each word; fill the sorted logits with "
        "-inf where it is p or more, and `scatter` them along the last axis at the indices that `sort` gave."
    ),
)


def _sorted(logits):
    """Logits, probabilities and places of the words, the likeliest first."""
    ordered, order = logits.sort(dim=-1, descending=True)
    return ordered, ordered.softmax(-1), order


def _put_back(kept, order):
    return torch.full_like(kept, -torch.inf).scatter(-1, order, kept)


@wrong
def leaves_out_the_word_that_crosses(logits, p):
    """You stop before the word that takes the sum to p, and save only the likeliest. Your set then falls short of p, although
    the nucleus is to hold p or more: the word that crosses the border belongs to it."""
    ordered, probabilities, order = _sorted(logits)
    first = torch.arange(logits.shape[-1]) == 0
    return _put_back(ordered.masked_fill((probabilities.cumsum(-1) > p) & ~first, -torch.inf), order)


@wrong
def loses_the_likeliest(logits, p):
    """You keep a word only while the sum up to it, itself included, is at most p. If the likeliest word alone has more than p,
    nothing is left and no word can be drawn; what counts is the sum before a word."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) > p, -torch.inf), order)


@wrong
def takes_one_too_many(logits, p):
    """You take one more word after p is reached. Once the words in hand sum to p the set is complete, and the nucleus is the
    smallest such set."""
    ordered, probabilities, order = _sorted(logits)
    needed = (probabilities.cumsum(-1) < p).sum(-1, keepdim=True) + 1
    return _put_back(ordered.masked_fill(torch.arange(logits.shape[-1]) > needed, -torch.inf), order)


@wrong
def keeps_the_tail(logits, p):
    """You begin to add up at the least likely word. Yours is the long tail of words that are hardly possible, which the
    nucleus is there to cut off; begin at the likeliest."""
    ordered, order = logits.sort(dim=-1)
    probabilities = ordered.softmax(-1)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf), order)


@wrong
def leaves_them_sorted(logits, p):
    """You return the logits in sorted order. The place of a logit says which word it belongs to; after sorting, each must go
    back to where it came from, or the first words of the vocabulary always win."""
    ordered, probabilities, _ = _sorted(logits)
    return ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf)


@wrong
def puts_them_back_the_wrong_way(logits, p):
    """You put the sorted logits back by picking with the sorting order once more. That sorts a second time instead of undoing
    the first: the order says where each logit came from, so it must say where they are written to."""
    ordered, probabilities, order = _sorted(logits)
    return ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf).gather(-1, order)


@wrong
def does_not_sort(logits, p):
    """You add up in the order of the vocabulary, without sorting. Which words you keep then depends on how they happen to be
    numbered; the nucleus begins with the likeliest."""
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities.cumsum(-1) - probabilities >= p, -torch.inf)


@wrong
def adds_up_the_logits(logits, p):
    """You add up logits where p is a share of the probability. Logits may be negative and sum to anything, and a constant added
    to all of them changes your set; first make probabilities of them."""
    ordered, _, order = _sorted(logits)
    return _put_back(ordered.masked_fill(ordered.cumsum(-1) - ordered >= p, -torch.inf), order)


@wrong
def compares_single_probabilities(logits, p):
    """You hold the probability of each single word against p, and nothing is added up. With p = 0.9 you keep a word only if it
    alone has so much; the nucleus needs so much from all of its words together."""
    return logits.masked_fill(logits.softmax(-1) < p, -torch.inf)


@wrong
def adds_up_over_the_first_axis(logits, p):
    """Your sum runs over the first axis. For a batch that is from row to row, so that the set of one text depends on the texts
    before it; the words of one row are on the last axis."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(0) - probabilities >= p, -torch.inf), order)


@wrong
def sets_the_others_to_zero(logits, p):
    """You set the words outside the nucleus to 0. A logit of 0 is an ordinary one, and often larger than those you keep: the
    words are not out. Only -inf becomes probability 0."""
    ordered, probabilities, order = _sorted(logits)
    return _put_back(ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= p, 0.0), order)


@wrong
def overwrites_the_logits(logits, p):
    """You write -inf into the logits that were handed to you. They still belong to whoever called, who may want to draw again
    with another p; give a new tensor back."""
    _, probabilities, order = _sorted(logits.detach())
    out = (probabilities.cumsum(-1) - probabilities >= p).gather(-1, order.argsort(-1))
    with torch.no_grad():
        return logits.masked_fill_(out, -torch.inf)


@right
def by_counting_the_words(logits, p):
    """How many words each row needs, and every word whose rank is below that."""
    order = logits.argsort(-1, descending=True)
    needed = (logits.softmax(-1).gather(-1, order).cumsum(-1) < p).sum(-1, keepdim=True) + 1
    return torch.where(order.argsort(-1) < needed, logits, -torch.inf)


@right
def by_all_pairs(logits, p):
    """No running sum: for each word the probabilities of all words that rank before it, from a table of pairs."""
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    is_before = ranks[..., None, :] < ranks[..., :, None]
    before = (is_before * logits.softmax(-1)[..., None, :]).sum(-1)
    return logits.masked_fill(before >= p, -torch.inf)


@right
def row_by_row(logits, p):
    """Row after row in Python floats: the next likeliest word is taken until p is in hand."""
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
    """From the unlikely end, in float64: a word is out where it and all below it sum to 1 - p or less."""
    ordered, order = logits.double().sort(dim=-1)
    up_to_here = ordered.softmax(-1).cumsum(-1)
    is_out = (up_to_here <= 1 - p).index_fill(-1, torch.tensor([logits.shape[-1] - 1]), False)
    return logits.masked_fill(torch.zeros_like(is_out).scatter(-1, order, is_out), -torch.inf)


def _logits(draw: Draw, p: float, *batch: int, n: int = 7) -> Call:
    """Logits on both sides of 0; no sum of their probabilities comes near p."""
    while True:
        logits = draw.normal(*batch, n, scale=1.5)
        sums = logits.softmax(-1).sort(dim=-1, descending=True).values.cumsum(-1)
        if (sums - p).abs().min() > 1e-4:
            return logits, p


def _certain(draw: Draw) -> list[Call]:
    """One word has nearly all of the probability, so that it alone passes any p."""
    logits, p = _logits(draw, 0.3, 5)
    logits[:, 2] += 12.0
    return [(logits, p), (logits, 0.9)]


exercise = Exercise(
    id="07.3",
    title="Top-p, the nucleus",
    reference=top_p,
    properties=(
        runs_on(lambda draw: [_logits(draw, 0.7, 5)]),
        has_shape("A logit for each word.", lambda draw: [_logits(draw, 0.7, 5), _logits(draw, 0.5)]),
        Property("certain", "The likeliest word stays, even where it alone has more than p.", _certain),
        Property(
            "nucleus",
            "The fewest of the likeliest words whose probabilities sum to p or more stay as they are, the others are -inf.",
            lambda draw: [_logits(draw, 0.7), _logits(draw, 0.5, n=11), _logits(draw, 0.9, n=11)],
            points=3,
            needs=("certain",),
        ),
        Property(
            "batch",
            "Each row has a nucleus of its own.",
            lambda draw: [_logits(draw, 0.6, 5), _logits(draw, 0.8, 2, 3)],
            points=2,
            needs=("nucleus",),
        ),
        Property(
            "shift",
            "A constant added to all logits changes no choice.",
            lambda draw: [(logits + shift, p) for logits, p in [_logits(draw, 0.6, 5)] for shift in (-20.0, 20.0)],
            needs=("nucleus",),
        ),
        has_gradient(lambda draw: [_logits(draw, 0.7, 5)], needs=("batch",)),
        leaves_inputs(lambda draw: [_logits(draw, 0.7, 5)]),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
