"""Exercise 08.9, fill_surest: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.generation import fill_surest
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "A text has two gaps: at the first, the likeliest token has the probability 0.6, at the second 0.9. Which gap is "
        "filled, and what stands at the other one after this step? What if the model is surest of a word that is no gap?"
    ),
    (
        "A softmax over the tokens, without that of [MASK], and its maximum give two tensors (B, T): how sure the model is "
        "at each place, and of what. Places that are no gap get less than any probability before you look for the surest."
    ),
    (
        "`max(-1)` of the probabilities gives both tensors; `argmax(-1, keepdim=True)` of the first, with -1 where there is "
        "no gap, gives one place in each text. `gather` the token there, and `scatter` it into the text. At the end a "
        "`where` keeps every token that was no gap: a full text has an argmax, too."
    ),
)


def _predicted(logits, mask):
    """The probability of the likeliest token but [MASK] at each place, and that token."""
    without = logits.masked_fill(torch.arange(logits.shape[-1]) == mask, -torch.inf)
    return without.softmax(-1).max(-1)


def _filled(tokens, mask, score, likeliest):
    """Fill the gap with the highest score in each text."""
    gap = tokens == mask
    place = score.masked_fill(~gap, -torch.inf).argmax(-1, keepdim=True)
    return torch.where(gap, tokens.scatter(-1, place, likeliest.gather(-1, place)), tokens)


@wrong.idea
def fills_every_gap(logits, tokens, mask):
    """You fill all gaps at once. Each is then filled without knowing what the others become; fill only the surest one of each
    text."""
    return torch.where(tokens == mask, _predicted(logits, mask)[1], tokens)


@wrong.idea
def fills_from_the_left(logits, tokens, mask):
    """You fill the first gap of each text, as a GPT would. Here the surest gap comes first, wherever it is."""
    p, likeliest = _predicted(logits, mask)
    return _filled(tokens, mask, -torch.arange(p.shape[1]).expand_as(p).to(p), likeliest)


@wrong.idea
def fills_the_least_sure(logits, tokens, mask):
    """You fill the gap of which the model is least sure. Begin with the surest: the others are then predicted with one word
    more."""
    p, likeliest = _predicted(logits, mask)
    return _filled(tokens, mask, -p, likeliest)


@wrong.part
def compares_logits(logits, tokens, mask):
    """You compare the largest logits of the gaps. Logits of different places have no common scale: only after the softmax
    do they say how sure the model is."""
    without = logits.masked_fill(torch.arange(logits.shape[-1]) == mask, -torch.inf)
    best, likeliest = without.max(-1)
    gap = tokens == mask
    place = best.masked_fill(~gap, -torch.inf).argmax(-1, keepdim=True)
    filled = tokens.scatter(-1, place, likeliest.gather(-1, place))
    return torch.where(gap, filled, tokens)


@wrong.part
def looks_at_every_place(logits, tokens, mask):
    """You take the surest place of the text, gap or not. The model is surest where it reads the token; look for the surest
    among the gaps only."""
    p, likeliest = _predicted(logits, mask)
    place = p.argmax(-1, keepdim=True)
    return torch.where(tokens == mask, tokens.scatter(-1, place, likeliest.gather(-1, place)), tokens)


@wrong.part
def overwrites_the_surest_place(logits, tokens, mask):
    """You take the surest place of the text, gap or not, and write there. That overwrites words that are given; only a gap may
    be filled."""
    p, likeliest = _predicted(logits, mask)
    place = p.argmax(-1, keepdim=True)
    return tokens.scatter(-1, place, likeliest.gather(-1, place))


@wrong.part
def fills_one_gap_of_the_batch(logits, tokens, mask):
    """You fill one gap of the whole batch. Each text has a surest gap of its own: look along the last axis."""
    p, likeliest = _predicted(logits, mask)
    place = int(p.masked_fill(tokens != mask, -1.0).argmax())
    filled = tokens.flatten().clone()
    filled[place] = likeliest.flatten()[place]
    return torch.where(tokens == mask, filled.view_as(tokens), tokens)


@wrong.part
def writes_the_token_of_the_first_place(logits, tokens, mask):
    """You scatter the likeliest tokens of all places: the first of them goes to the surest gap. Gather the token of that place
    before you scatter it."""
    p, likeliest = _predicted(logits, mask)
    place = p.masked_fill(tokens != mask, -1.0).argmax(-1, keepdim=True)
    return torch.where(tokens == mask, tokens.scatter(-1, place, likeliest), tokens)


@wrong.part
def predicts_the_next_token(logits, tokens, mask):
    """You read the logits of the place before, as in a GPT. In BERT, the logits at t predict the token at t."""
    p, likeliest = _predicted(logits.roll(1, 1), mask)
    return _filled(tokens, mask, p, likeliest)


@wrong.detail
def takes_the_softmax_over_the_places(logits, tokens, mask):
    """Your softmax runs over the places of the text. At each place, the probabilities of all tokens sum to 1: take it over the
    last axis."""
    without = logits.masked_fill(torch.arange(logits.shape[-1]) == mask, -torch.inf)
    return _filled(tokens, mask, *without.softmax(1).nan_to_num().max(-1))


@wrong.case
def writes_masks(logits, tokens, mask):
    """You leave [MASK] among the tokens that may be written. Where its logit is the largest, the gap stays and the loop never
    ends; set this logit to -inf first."""
    return _filled(tokens, mask, *logits.softmax(-1).max(-1))


@wrong.case
def counts_the_mask_in(logits, tokens, mask):
    """You leave [MASK] out only after the softmax. It then still has a share of the probability, larger at some places than at
    others; set its logit to -inf before the softmax."""
    p = logits.softmax(-1).masked_fill(torch.arange(logits.shape[-1]) == mask, 0.0)
    return _filled(tokens, mask, *p.max(-1))


@wrong.case
def changes_full_texts(logits, tokens, mask):
    """You also write into a text that has no gap. The argmax of equal numbers is a place, too; such a text must stay
    as it is."""
    p, likeliest = _predicted(logits, mask)
    place = p.masked_fill(tokens != mask, -1.0).argmax(-1, keepdim=True)
    return tokens.scatter(-1, place, likeliest.gather(-1, place))


@wrong.case
def writes_into_the_argument(logits, tokens, mask):
    """You write into the caller's text, which may still be needed; make a new tensor."""
    return tokens.copy_(fill_surest(logits, tokens, mask))


@right
def text_by_text(logits, tokens, mask):
    """A loop over the texts and their gaps, with the best so far."""
    rows = []
    for row, text in zip(logits, tokens, strict=True):
        best, new = -1.0, text.clone()
        for t in (text == mask).nonzero().flatten().tolist():
            p = torch.cat([row[t, :mask], torch.full((1,), -torch.inf), row[t, mask + 1 :]]).softmax(0)
            if p.max() > best:
                best, new = float(p.max()), text.clone()
                new[t] = p.argmax()
        rows.append(new)
    return torch.stack(rows)


@right
def by_log_probabilities(logits, tokens, mask):
    """Log-softmax, a one-hot mark at the surest gap, and one where."""
    hidden = logits.clone()
    hidden[..., mask] = -torch.inf
    best = hidden.log_softmax(-1).max(-1)
    gap = tokens.eq(mask)
    place = torch.where(gap, best.values, torch.tensor(-1e9, dtype=best.values.dtype)).argmax(-1)
    here = F.one_hot(place, tokens.shape[1]).bool()
    return torch.where(here & gap, best.indices, tokens)


@right
def by_sorting(logits, tokens, mask):
    """The rank of each gap by how sure the model is, and the first of them filled."""
    hidden = logits.masked_fill(F.one_hot(torch.tensor(mask), logits.shape[-1]).bool(), -torch.inf)
    p = hidden.softmax(-1)
    sure = p.amax(-1) * (tokens == mask)
    rank = sure.argsort(-1, descending=True).argsort(-1)
    return torch.where((rank == 0) & (tokens == mask), p.argmax(-1), tokens)


@stranger
def gap_of_least_entropy(logits, tokens, mask):
    p = logits.masked_fill(torch.arange(logits.shape[-1]) == mask, -torch.inf).softmax(-1)
    return _filled(tokens, mask, torch.special.entr(p).sum(-1).neg(), p.argmax(-1))


@stranger
def gap_of_the_widest_margin(logits, tokens, mask):
    p = logits.masked_fill(torch.arange(logits.shape[-1]) == mask, -torch.inf).softmax(-1)
    first, second = p.topk(2, dim=-1).values.unbind(-1)
    return _filled(tokens, mask, first - second, p.argmax(-1))


@stranger
def gap_by_the_last_token(logits, tokens, mask):
    p, likeliest = _predicted(logits, mask)
    return _filled(tokens, mask, p, likeliest.flip(-1))


@stranger
def two_gaps_at_once(logits, tokens, mask):
    return fill_surest(logits, fill_surest(logits, tokens, mask), mask)


@stranger(makes=[fills_the_least_sure, writes_masks])
def unsure_gap_with_masks(logits, tokens, mask):
    p, likeliest = logits.softmax(-1).max(-1)
    return _filled(tokens, mask, -p, likeliest)


N_TOKENS = 13


def _text(draw: Draw, gaps: str, *, ends: bool = True) -> Call:
    """Texts, one for each word of `gaps`, whose _ are gaps; [MASK] is the last token, or any.

    The logits of each place are moved by a number of its own, which a softmax does not see; that of [MASK] is small.
    """
    rows = torch.tensor([[letter == "_" for letter in row] for row in gaps.split()])
    mask = N_TOKENS - 1 if ends else int(draw.integers(1, N_TOKENS - 2, 1))
    tokens = (mask + 1 + draw.integers(0, N_TOKENS - 1, *rows.shape)) % N_TOKENS
    logits = draw.normal(*rows.shape, N_TOKENS, scale=1.5)
    logits[..., mask] = -9.0
    return logits + draw.normal(*rows.shape, 1, scale=4.0), tokens.masked_fill(rows, mask), mask


def _one_gap(draw: Draw) -> list[Call]:
    return [_text(draw, "_"), _text(draw, "w_w"), _text(draw, "www_w"), _text(draw, "w_www", ends=False)]


def _gaps_alone(draw: Draw) -> list[Call]:
    return [_text(draw, "__"), _text(draw, "_____"), _text(draw, "_____", ends=False), _text(draw, "___")]


def _among_words(draw: Draw) -> list[Call]:
    """The model is far surer of the words than of the gaps."""
    calls = []
    for gaps in ("w_w_w", "_ww__", "ww_ww_w"):
        logits, tokens, mask = _text(draw, gaps)
        calls.append((torch.where((tokens == mask)[..., None], logits / 3, 3 * logits), tokens, mask))
    return calls


def _batch(draw: Draw) -> list[Call]:
    """Three texts, and seventeen of eleven places, so that other ways to be sure choose another gap somewhere."""
    many = " ".join(["__w__w____w"] * 17)
    return [_text(draw, "w__w _w_w ___w"), _text(draw, many, ends=False)]


def _full(draw: Draw) -> list[Call]:
    return [_text(draw, "www"), _text(draw, "w_w www")]


def _masks_likely(draw: Draw) -> list[Call]:
    """[MASK] has a large logit at all places, or a large probability at some of them."""
    calls = []
    for gaps in ("__w_", " ".join(["_w____"] * 7)):
        logits, tokens, mask = _text(draw, gaps)
        logits[..., mask] = logits.amax(-1) + draw.normal(*tokens.shape, scale=3.0)
        calls.append((logits, tokens, mask))
    return calls


exercise = Exercise(
    id="08.9",
    title="Fill the surest gap",
    reference=fill_surest,
    properties=(
        runs_on(lambda draw: [_text(draw, "w__w _w_w")]),
        has_shape("Tokens, of the shape of the texts.", lambda draw: [*_one_gap(draw), *_batch(draw)]),
        Property("one gap", "A single gap becomes its likeliest token; the words stay.", _one_gap),
        Property("surest", "Of several gaps only the surest is filled.", _gaps_alone, points=3, needs=("one gap",)),
        Property(
            "words",
            "The words are no gaps, however sure the model is of them.",
            _among_words,
            points=2,
            needs=("surest",),
        ),
        Property("batch", "One gap is filled in each text.", _batch, points=2, needs=("words",)),
        Property("full", "A text without a gap stays as it is.", _full, needs=("one gap",)),
        Property(
            "no [MASK]",
            "[MASK] is never written, and has no share of the probability.",
            _masks_likely,
            points=2,
            needs=("batch",),
        ),
        leaves_inputs(lambda draw: [*_one_gap(draw), *_batch(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Equality has no sides, no other axis is the last, and a text lies where its logits do.": (
            "swap sides: is_mask = mask == torch.arange(logits.shape[-1], device=logits.device)",
            "swap sides: gap = mask == tokens",
            "drop sign: p.masked_fill(~gap, -1.0).argmax(1, keepdim=True)",
            "drop sign: tokens.scatter(1, surest, likeliest.gather(-1, surest))",
            "drop sign: likeliest.gather(1, surest)",
            "drop keyword: torch.arange(logits.shape[-1]) == mask",
            "other name: tokens.device",
        ),
        "Every probability is above 0, and so above any number that is not.": (
            "constant: p.masked_fill(~gap, -2.0)",
            "constant: p.masked_fill(~gap, -0.0)",
        ),
    },
    hints=HINTS,
)
