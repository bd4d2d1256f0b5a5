"""Exercise 05.7, extend_beam: what students answer, wrong and right."""

from collections.abc import Callable

import torch

from course_lib.generation import Extension, extend_beam
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right = Answers(), Answers()

HINTS = (
    (
        "With a beam of 2 and 3 words, how many candidates are there for one sentence? Write them all down; then let one of "
        "the two beginnings have ended, and count again."
    ),
    (
        "Make a table (B, width, n_tokens) of log p: that of the beginning plus that of the word behind it. In the rows of "
        "ended sentences only padding is possible, and it costs nothing: 0, all else -inf. What ranks is this table, divided."
    ),
    (
        "Flatten width and n_tokens of the divided table and take `topk` of `width`. An index there is beginning · n_tokens + "
        "word; with the same indices, fetch log p from the table that was not divided."
    ),
)


def _behind(said, going, padding):
    """What each word adds to its beginning: behind an end padding alone, for nothing."""
    stays = torch.full_like(said, -torch.inf)
    stays[..., padding] = 0.0
    return torch.where(going[..., None], said, stays)


def _best_of_all(scores, total):
    """Scores, log p, parent and word of the best candidates of each sentence."""
    _, width, n_tokens = scores.shape
    scores, best = scores.flatten(1).topk(width)
    return scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens


@wrong
def lets_each_beginning_go_on_by_itself(log_p, logits, going, length, padding, penalty=0.0):
    """You give every beginning its own best word. Your sentences never compete: a poor beginning keeps its place, and two
    good words behind one beginning cannot both be kept."""
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    new, word = total.max(-1)
    scores, parent = (new / ((5 + length) / 6) ** penalty).sort(descending=True)
    return scores, new.gather(1, parent), parent, word.gather(1, parent)


@wrong
def adds_the_logits_themselves(log_p, logits, going, length, padding, penalty=0.0):
    """You add the logits as they come. They are log p only up to a constant, another one behind each beginning, so sums of
    them cannot be compared; the log-softmax takes that constant away."""
    total = log_p[..., None] + _behind(logits, going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def normalises_over_the_beam(log_p, logits, going, length, padding, penalty=0.0):
    """Your log-softmax runs over the beginnings: the beam has become axis 1, and the words have moved to the last. Behind each
    beginning, the probabilities of all words must sum to 1."""
    total = log_p[..., None] + _behind(logits.log_softmax(1), going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def exchanges_parent_and_word(log_p, logits, going, length, padding, penalty=0.0):
    """You return the word as the parent and the parent as the word. All words of one beginning stand together in the flat
    list, so whole rows passed tell the beginning, and the rest within the row tells the word."""
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return scores, total.flatten(1).gather(1, best), best % logits.shape[-1], best // logits.shape[-1]


@wrong
def counts_the_rows_by_the_width(log_p, logits, going, length, padding, penalty=0.0):
    """You divide the flat index by the width of the beam. A row of the table is as long as there are words, so both parent and
    word come from quotient and rest by n_tokens."""
    width = log_p.shape[1]
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(width)
    return scores, total.flatten(1).gather(1, best), best // width, best % width


@wrong
def forgets_what_went_before(log_p, logits, going, length, padding, penalty=0.0):
    """You rank by the new word's log p alone. A sentence is as likely as all its words together: without log p of the
    beginning, an absurd one wins by one sure word, and a place with no beginning at all is taken up again."""
    total = _behind(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def lets_ended_sentences_go_on(log_p, logits, going, length, padding, penalty=0.0):
    """You never look at `going`. Your ended sentences are continued by whatever the model says behind an end; nothing but
    padding may follow there."""
    total = log_p[..., None] + logits.log_softmax(-1)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def drops_ended_sentences(log_p, logits, going, length, padding, penalty=0.0):
    """You let nothing follow an ended sentence, not even padding, and so it falls off the beam. It should stay and compete
    as it is, since it may well be the best of all."""
    total = log_p[..., None] + logits.log_softmax(-1).masked_fill(~going[..., None], -torch.inf)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def makes_ended_sentences_pay_for_padding(log_p, logits, going, length, padding, penalty=0.0):
    """You allow an ended sentence only padding, but charge it what the model says about padding. It then becomes less likely
    with every step in which it only waits for the others; padding costs nothing."""
    is_padding = torch.arange(logits.shape[-1], device=logits.device) == padding
    total = log_p[..., None] + logits.log_softmax(-1).masked_fill(~(going[..., None] | is_padding), -torch.inf)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def multiplies_by_the_penalty(log_p, logits, going, length, padding, penalty=0.0):
    """You multiply log p by the penalty of its length. Both log p and the number of words work against long sentences, and
    multiplying makes it worse; log p is negative, so dividing is what raises it."""
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    return _best_of_all(total * ((5 + length[..., None]) / 6) ** penalty, total)


@wrong
def carries_the_scores_on(log_p, logits, going, length, padding, penalty=0.0):
    """You return the divided scores as log p too. In the next step they are added to and divided once more, so that early
    words count less and less; what is carried on must be the undivided sum."""
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return scores, scores.clone(), best // logits.shape[-1], best % logits.shape[-1]


@wrong
def counts_the_new_word_twice(log_p, logits, going, length, padding, penalty=0.0):
    """You add 1 to the length of every sentence that goes on. The `length` that comes in counts the new word already, so yours
    favours the going sentences over the ended ones."""
    total = log_p[..., None] + _behind(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((5 + (length + going)[..., None]) / 6) ** penalty, total)


@right
def from_a_list_of_candidates(log_p, logits, going, length, padding, penalty=0.0):
    """Sentence by sentence: all candidates in a Python list, an ended beginning having one, sorted by their scores."""
    B, width, n_tokens = logits.shape
    said = logits.log_softmax(-1)
    parts = []
    for b in range(B):
        candidates = []
        for i in range(width):
            divisor = ((5 + length[b, i]) / 6) ** penalty
            for word in range(n_tokens) if going[b, i] else [padding]:
                new = log_p[b, i] + said[b, i, word] if going[b, i] else log_p[b, i]
                candidates.append((new / divisor, new, i, word))
        candidates.sort(key=lambda candidate: candidate[0].item(), reverse=True)
        scores, news, parents, words = zip(*candidates[:width], strict=True)
        places = (torch.tensor(parents, device=logits.device), torch.tensor(words, device=logits.device))
        parts.append((torch.stack(scores), torch.stack(news), *places))
    return tuple(torch.stack(part) for part in zip(*parts, strict=True))


@right
def by_the_best_words_of_each(log_p, logits, going, length, padding, penalty=0.0):
    """In two stages: no beginning can send more than `width` words on, so only the best of those are compared."""
    width, n_tokens = log_p.shape[1], logits.shape[2]
    said, word = logits.log_softmax(-1).topk(min(width, n_tokens), dim=-1)
    first = torch.arange(said.shape[-1], device=logits.device) == 0
    said = torch.where(going.unsqueeze(-1), said, torch.zeros_like(said).masked_fill(~first, -torch.inf))
    word = word.masked_fill(~going.unsqueeze(-1), padding)
    total = log_p.unsqueeze(-1) + said
    ranked = total / torch.pow((5 + length) / 6, penalty).unsqueeze(-1)
    scores, best = ranked.flatten(1).topk(width)
    new, parent = total.flatten(1).gather(1, best), best.div(said.shape[-1], rounding_mode="floor")
    return Extension(scores, new, parent, word.flatten(1).gather(1, best))


@right
def in_double_precision(log_p, logits, going, length, padding, penalty=0.0):
    """In float64, log p by the log of the sum of exponentials, a complete sort, and indices from a table of all pairs."""
    B, width, n_tokens = logits.shape
    word = torch.arange(n_tokens, device=logits.device).expand(B, width, n_tokens)
    parent = torch.arange(width, device=logits.device)[:, None].expand(B, width, n_tokens)
    said = logits.double() - torch.logsumexp(logits.double(), dim=-1, keepdim=True)
    waits = torch.log((word == padding).double())
    total = log_p.double()[:, :, None] + torch.where(going[:, :, None], said, waits)
    scores = total * torch.exp(-penalty * torch.log((5 + length.double()) / 6))[:, :, None]
    best = scores.reshape(B, -1).argsort(dim=1, descending=True)[:, :width]
    scores, total, parent, word = (table.reshape(B, -1).take_along_dim(best, 1) for table in (scores, total, parent, word))
    return scores.to(log_p.dtype), total.to(log_p.dtype), parent, word


def _beam(draw: Draw, B: int, width: int, n_tokens: int, *, ended: bool = False, penalty: float = 0.0) -> Call:
    """Beginnings of different probability and length; where `ended`, about half have ended, the best one among them."""
    log_p = -draw.uniform(B, width).mul(3.0).sort(-1).values
    going = torch.ones(B, width, dtype=torch.bool)
    if ended:
        going = draw.uniform(B, width) < 0.5
        going[:, 0] = False
        going[:, -1] = True
    length = draw.integers(2, 9, B, width).float()
    return log_p, draw.normal(B, width, n_tokens, scale=1.5), going, length, int(draw.integers(0, n_tokens, 1)), penalty


def _first(draw: Draw) -> list[Call]:
    """The first step: one beginning, and no others yet."""
    calls = []
    for B, width in ((1, 2), (3, 3)):
        log_p, logits, going, length, padding, _ = _beam(draw, B, width, 7)
        log_p[:, 0], log_p[:, 1:] = 0.0, -torch.inf
        calls.append((log_p, logits, going, torch.ones_like(length), padding))
    return calls


def _beams(*sizes: tuple[int, int, int], ended: bool = False) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_beam(draw, *size, ended=ended)[:5] for size in sizes]


_GOING, _ENDED = _beams((1, 2, 5), (1, 3, 7)), _beams((1, 3, 5), (1, 5, 7), ended=True)


def _penalised(draw: Draw) -> list[Call]:
    return [_beam(draw, 2, 3, 5, ended=True, penalty=0.8), _beam(draw, 1, 5, 7, ended=True, penalty=2.0)]


exercise = Exercise(
    id="05.7",
    title="One step of a beam",
    reference=extend_beam,
    properties=(
        runs_on(_GOING),
        has_shape("Scores, log p, parent and word, one of each for each place on the beam.", _GOING),
        Property("greedy", "A beam of one takes the likeliest word.", _beams((1, 1, 5), (3, 1, 7))),
        Property("first step", "At the first step all come from the one beginning.", _first, needs=("greedy",)),
        Property("best of all", "The best of all beginnings with all words, best first.", _GOING, points=2, needs=("greedy",)),
        Property("log p", "What is carried on is log p.", _GOING, right_result(1), needs=("greedy",)),
        Property("ended", "A sentence that has ended stays as it is, and competes.", _ENDED, points=2, needs=("best of all",)),
        Property("penalty", "The penalty for length ranks, and is not carried on.", _penalised, points=2, needs=("ended",)),
        Property("batch", "Each source has a beam of its own.", _beams((2, 3, 5), (3, 2, 7)), needs=("best of all",)),
        leaves_inputs(lambda draw: [*_GOING(draw), *_ENDED(draw)]),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
