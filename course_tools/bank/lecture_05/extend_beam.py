"""Exercise 05.7, extend_beam: what students answer, wrong and right."""

import math
from collections.abc import Callable

import torch

from course_lib.generation import Extension, extend_beam
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "With a beam of 2 and 3 tokens in the vocabulary, how many candidates are there for one source? Write them all "
        "down; then let one of the two hypotheses have ended, and count again."
    ),
    (
        "Make a table (B, width, n_tokens) of log p: that of the hypothesis plus that of the next token. In the rows of "
        "ended hypotheses only padding is possible, with log p of 0; all else is -inf. The ranking uses this table, "
        "divided by the length penalty."
    ),
    (
        "Flatten width and n_tokens of the divided table and take `topk` of `width`. An index there is hypothesis · "
        "n_tokens + token; with the same indices, gather log p from the table that was not divided."
    ),
)


def _added(said, going, padding):
    """What each token adds to its beginning: after an end padding alone, for nothing."""
    stays = torch.full_like(said, -torch.inf)
    stays[..., padding] = 0.0
    return torch.where(going[..., None], said, stays)


def _best_of_all(scores, total):
    """Scores, log p, parent and token of the best candidates of each sentence."""
    _, width, n_tokens = scores.shape
    scores, best = scores.flatten(1).topk(width)
    return scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens


@wrong.idea
def lets_each_beginning_go_on_by_itself(log_p, logits, going, length, padding, penalty=0.0):
    """You extend every hypothesis by its own best token. Your hypotheses never compete: an unlikely one stays on the beam,
    and two good continuations of one hypothesis cannot both be kept."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    new, word = total.max(-1)
    scores, parent = (new / ((5 + length) / 6) ** penalty).sort(descending=True)
    return scores, new.gather(1, parent), parent, word.gather(1, parent)


@wrong.part
def adds_the_logits_themselves(log_p, logits, going, length, padding, penalty=0.0):
    """You add the logits as they come. They are log p only up to a constant that differs for each hypothesis, so sums of
    them cannot be compared; the log-softmax removes that constant."""
    total = log_p[..., None] + _added(logits, going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.idea
def normalises_over_the_beam(log_p, logits, going, length, padding, penalty=0.0):
    """Your log-softmax runs over the beam. For each hypothesis, the probabilities of all tokens must sum to 1."""
    total = log_p[..., None] + _added(logits.log_softmax(1), going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.case
def exchanges_parent_and_word(log_p, logits, going, length, padding, penalty=0.0):
    """You exchange parent and token. The flat index is parent · n_tokens + token, so the quotient by n_tokens is the
    parent, and the remainder the token."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return scores, total.flatten(1).gather(1, best), best % logits.shape[-1], best // logits.shape[-1]


@wrong.part
def counts_the_rows_by_the_width(log_p, logits, going, length, padding, penalty=0.0):
    """You divide the flat index by the width of the beam. A row of the table has n_tokens entries, so parent and token are
    quotient and remainder by n_tokens."""
    width = log_p.shape[1]
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(width)
    return scores, total.flatten(1).gather(1, best), best // width, best % width


@wrong.idea
def forgets_what_went_before(log_p, logits, going, length, padding, penalty=0.0):
    """You rank by log p of the new token alone. The log p of a hypothesis is the sum over all its tokens: without that of
    the beginning, an unlikely hypothesis wins by one likely token."""
    total = _added(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.part
def lets_ended_sentences_go_on(log_p, logits, going, length, padding, penalty=0.0):
    """You never use `going`. Your ended hypotheses are continued by whatever the model predicts; only padding may follow an
    end."""
    total = log_p[..., None] + logits.log_softmax(-1)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.part
def drops_ended_sentences(log_p, logits, going, length, padding, penalty=0.0):
    """You allow no continuation of an ended hypothesis, not even padding, so it drops out of the beam. It should stay and
    compete as it is, since it may be the best of all."""
    total = log_p[..., None] + logits.log_softmax(-1).masked_fill(~going[..., None], -torch.inf)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.detail
def makes_ended_sentences_pay_for_padding(log_p, logits, going, length, padding, penalty=0.0):
    """You extend an ended hypothesis by padding only, but add the model's log p of padding. It then becomes less likely
    with every further step; padding adds 0."""
    is_padding = torch.arange(logits.shape[-1], device=logits.device) == padding
    total = log_p[..., None] + logits.log_softmax(-1).masked_fill(~(going[..., None] | is_padding), -torch.inf)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.detail
def multiplies_by_the_penalty(log_p, logits, going, length, padding, penalty=0.0):
    """You multiply log p by the penalty of its length. log p is negative, so multiplying makes long hypotheses worse still;
    dividing raises it."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    return _best_of_all(total * ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.detail
def carries_the_scores_on(log_p, logits, going, length, padding, penalty=0.0):
    """You return the divided scores as log p too. In the next step they are added to and divided once more, so that early
    tokens count less and less; log p must be the undivided sum."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return scores, scores.clone(), best // logits.shape[-1], best % logits.shape[-1]


@wrong.detail
def counts_the_new_word_twice(log_p, logits, going, length, padding, penalty=0.0):
    """You add 1 to the length of every hypothesis that goes on. `length` already counts the new token, so yours favours
    unfinished hypotheses over ended ones."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((5 + (length + going)[..., None]) / 6) ** penalty, total)


@wrong.detail
def forgets_the_penalty(log_p, logits, going, length, padding, penalty=0.0):
    """You rank by log p alone and never use `penalty`: long hypotheses then lose, because each token lowers log p."""
    return extend_beam(log_p, logits, going, length, padding)


@wrong.detail
def divides_by_a_power_of_the_length(log_p, logits, going, length, padding, penalty=0.0):
    """You divide by length^α. The penalty here is ((5 + length) / 6)^α, which is 1 at length 1 and grows more slowly."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / length[..., None] ** penalty).flatten(1).topk(log_p.shape[1])
    n_tokens = logits.shape[-1]
    return scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens


@wrong.idea
def adds_probabilities(log_p, logits, going, length, padding, penalty=0.0):
    """You add probabilities to log p. Probabilities of successive tokens are multiplied, so their logarithms are added: take
    the log-softmax."""
    total = log_p[..., None] + _added(logits.softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    n_tokens = logits.shape[-1]
    return scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens


@wrong.detail
def divides_by_the_length(log_p, logits, going, length, padding, penalty=0.0):
    """You divide log p by the length and never use `penalty`. The penalty here is ((5 + length) / 6)^α: with α = 0 it is 1."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / length[..., None]).flatten(1).topk(log_p.shape[1])
    n_tokens = logits.shape[-1]
    return scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens


@wrong.idea
def lets_the_sentences_of_a_batch_compete(log_p, logits, going, length, padding, penalty=0.0):
    """You take the best of the whole batch at once. Each sentence has its own beam, and only its own hypotheses compete."""
    B, width, n_tokens = logits.shape
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten().topk(B * width)
    parts = (scores, total.flatten()[best], best // n_tokens, best % n_tokens)
    return tuple(part.unflatten(0, (B, width)) for part in parts)


@wrong.detail
def chooses_by_log_p(log_p, logits, going, length, padding, penalty=0.0):
    """You choose the hypotheses by log p, and divide only the scores of the chosen ones. The penalty is there to change the
    choice: divide first, then choose."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    new, best = total.flatten(1).topk(log_p.shape[1])
    parent = best // logits.shape[-1]
    return new / ((5 + length.gather(1, parent)) / 6) ** penalty, new, parent, best % logits.shape[-1]


@wrong.detail
def returns_the_best_last(log_p, logits, going, length, padding, penalty=0.0):
    """Your hypotheses are the right ones, in the wrong order: the best stands last. It comes first."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    return tuple(part.flip(-1) for part in _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total))


@wrong.detail
def adds_one_to_every_length(log_p, logits, going, length, padding, penalty=0.0):
    """You add 1 to all lengths, those of ended hypotheses too. `length` already counts the new token."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((6 + length[..., None]) / 6) ** penalty, total)


@wrong.part
def extends_ended_sentences_by_every_token(log_p, logits, going, length, padding, penalty=0.0):
    """You let an ended hypothesis go on by every token for nothing. It then stands on the beam several times; only padding
    may follow it, and the other tokens have log p = -∞."""
    total = log_p[..., None] + torch.where(going[..., None], logits.log_softmax(-1), 0.0)
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.part
def multiplies_infinity_by_zero(log_p, logits, going, length, padding, penalty=0.0):
    """You choose between the two rows by multiplying one with 1 and the other with 0. 0 · -∞ is NaN: use `torch.where`."""
    stays = torch.full_like(logits, -torch.inf)
    stays[..., padding] = 0.0
    goes = going[..., None].to(logits.dtype)
    total = log_p[..., None] + goes * logits.log_softmax(-1) + (1 - goes) * stays
    return _best_of_all(total / ((5 + length[..., None]) / 6) ** penalty, total)


@wrong.case
def expects_more_tokens_than_prefixes(log_p, logits, going, length, padding, penalty=0.0):
    """You take the best `width` tokens of each hypothesis first. A beam may be wider than the vocabulary is large: there are
    only n_tokens to take."""
    width = log_p.shape[1]
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    total, word = total.topk(width)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(width)
    return scores, total.flatten(1).gather(1, best), best // width, word.flatten(1).gather(1, best)


@wrong.detail
def raises_the_six_alone(log_p, logits, going, length, padding, penalty=0.0):
    """You raise only the 6 to the power α: `(5 + length) / 6**penalty`. The power belongs to the whole quotient; with α = 0
    yours divides by 5 + length."""
    total = log_p[..., None] + _added(logits.log_softmax(-1), going, padding)
    return _best_of_all(total / ((5 + length[..., None]) / 6**penalty), total)


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
    """In two stages: no beginning can send more than `width` tokens on, so only the best of those are compared."""
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


@stranger
def beam_of_the_worst(log_p, logits, going, length, padding, penalty=0.0):
    return extend_beam(log_p, -logits, going, length, padding, penalty)


@stranger
def beam_in_bits(log_p, logits, going, length, padding, penalty=0.0):
    scores, log_p, parent, word = extend_beam(log_p, logits, going, length, padding, penalty)
    return scores, log_p / math.log(2), parent, word


@stranger
def beam_upside_down(log_p, logits, going, length, padding, penalty=0.0):
    return tuple(part.flip(-1) for part in extend_beam(log_p, logits, going, length, padding, penalty))


@stranger(makes=[forgets_what_went_before, multiplies_by_the_penalty])
def beam_that_forgets_and_multiplies(log_p, logits, going, length, padding, penalty=0.0):
    return extend_beam(torch.zeros_like(log_p), logits, going, length, padding, -penalty)


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


def _unlikely(draw: Draw) -> list[Call]:
    """Continuations of which all but the best have a probability that float32 rounds to 0."""
    log_p, logits, *rest = _beam(draw, 1, 3, 5)
    return [(log_p, 300 * logits, *rest[:-1])]


exercise = Exercise(
    id="05.7",
    title="One step of a beam",
    extra=True,
    reference=extend_beam,
    properties=(
        runs_on(_GOING),
        has_shape("Scores, log p, parent and token for each entry of the beam.", _GOING),
        Property("greedy", "A beam of one takes the likeliest token.", _beams((1, 1, 5), (3, 1, 7))),
        Property("first step", "At the first step all continue the only hypothesis.", _first, needs=("greedy",)),
        Property("best of all", "The best continuations of all hypotheses, best first.", _GOING, points=2, needs=("greedy",)),
        Property(
            "log p",
            "The second result is log p of each hypothesis, also where p is too small for float32.",
            lambda draw: [*_GOING(draw), *_unlikely(draw)],
            right_result(1),
            needs=("greedy",),
        ),
        Property("wide", "A beam may be wider than the vocabulary is large.", _beams((1, 5, 3)), needs=("best of all",)),
        Property("ended", "An ended hypothesis stays as it is, and competes.", _ENDED, points=2, needs=("best of all",)),
        Property("penalty", "The length penalty changes the ranking, and not log p.", _penalised, points=2, needs=("ended",)),
        Property("batch", "Each source has its own beam.", _beams((2, 3, 5), (3, 2, 7)), needs=("best of all",)),
        leaves_inputs(lambda draw: [*_GOING(draw), *_ENDED(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the width of the beam is read, and these tensors have the same second axis.": (
            "other name: length.shape (2)",
            "other name: logits.shape",
            "other name: total.shape (2)",
            "other name: stays.shape (2)",
            "other name: going.shape (2)",
        ),
    },
    hints=HINTS,
)
