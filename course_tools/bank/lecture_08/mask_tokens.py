"""Exercise 08.2, corrupt: what students answer, wrong and right."""

import torch

from course_lib.losses import Masked, corrupt
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Follow one token: first it is chosen or not, then a chosen one has one of three fates. Which tensor decides "
        "what? And is a chosen token that stays as it is a target of the loss?"
    ),
    (
        "`chosen` needs two conditions at once, eligible and `choice` below the rate. Then compute the text as if every "
        "token were chosen, and use it only where one is."
    ),
    (
        "`torch.where(condition, a, b)` nests: where fate < 0.8 take `mask`, else where fate < 0.9 the replacement, else "
        "the token. A last `where` with `chosen` selects between this and the unchanged tokens."
    ),
)


def _fates(tokens, mask, fate, replacements):
    """What would stand at each position if it were chosen."""
    return torch.where(fate < 0.8, mask, torch.where(fate < 0.9, replacements, tokens))


@wrong.part
def always_masks(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You turn every chosen token into [MASK]. Later tasks have no [MASK], so a tenth are replaced by another token and a
    tenth stay."""
    chosen = eligible & (choice < rate)
    return Masked(torch.where(chosen, mask, tokens), chosen)


@wrong.part
def does_not_ask_for_the_words_that_stay(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You remove the tokens that stay from `chosen`. Your text is right, but they are targets of the loss too."""
    chosen = eligible & (choice < rate)
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen & (fate < 0.9))


@wrong.part
def asks_only_for_the_masks(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You mark a token as chosen only where it became [MASK]. Those that were replaced or stayed are chosen too."""
    chosen = eligible & (choice < rate)
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen & (fate < 0.8))


@wrong.detail
def takes_out_special_tokens_too(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You never use `eligible`: sometimes a [CLS], a [SEP] or padding is chosen; these must stay."""
    chosen = choice < rate
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen)


@wrong.idea
def reads_eligible_the_other_way(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You choose among the tokens that are not eligible. True means that a token may be chosen; you choose exactly those
    that must stay."""
    chosen = ~eligible & (choice < rate)
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen)


@wrong.idea
def corrupts_the_whole_text(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You apply `fate` to every token, chosen or not. The 80, 10 and 10 percent are of the chosen tokens only."""
    chosen = eligible & (choice < rate)
    return Masked(_fates(tokens, mask, fate, replacements), chosen)


@wrong.idea
def chooses_above_the_rate(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You choose where `choice` is above the rate. That is most of the text; 15 % are below a rate of 0.15."""
    chosen = eligible & (choice > rate)
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen)


@wrong.case
def types_the_rate_in(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You write 0.15 instead of `rate`. It is only the default; another rate has no effect in yours."""
    chosen = eligible & (choice < 0.15)
    return Masked(torch.where(chosen, _fates(tokens, mask, fate, replacements), tokens), chosen)


@wrong.detail
def exchanges_replaced_and_kept(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """Your tokens stay for a fate in 0.8…0.9 and are replaced from 0.9 on. The two are exchanged: the replacement comes
    first."""
    chosen = eligible & (choice < rate)
    corrupted = torch.where(fate < 0.8, mask, torch.where(fate < 0.9, tokens, replacements))
    return Masked(torch.where(chosen, corrupted, tokens), chosen)


@wrong.detail
def replaces_over_the_masks(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You write the masks first and then a replacement wherever fate < 0.9. That condition holds for the masked tokens too,
    so no [MASK] is left; require 0.8 ≤ fate as well."""
    chosen = eligible & (choice < rate)
    corrupted = torch.where(chosen & (fate < 0.8), mask, tokens)
    return Masked(torch.where(chosen & (fate < 0.9), replacements, corrupted), chosen)


@wrong.part
def uses_one_draw_for_both(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You use `choice` again for the fate. A chosen token has a choice below the rate, hence below 0.8, and always becomes
    [MASK]. The fate is an independent draw."""
    chosen = eligible & (choice < rate)
    return Masked(torch.where(chosen, _fates(tokens, mask, choice, replacements), tokens), chosen)


@wrong.case
def overwrites_the_text(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You write into the caller's text. The true tokens, the targets of the loss, are then lost; make a new tensor."""
    chosen = eligible & (choice < rate)
    tokens[chosen] = _fates(tokens, mask, fate, replacements)[chosen]
    return Masked(tokens, chosen)


@wrong.detail
def keeps_no_chosen_token(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You replace every chosen token that does not become [MASK]: 80/20/0. Of those chosen, the ones with fate ≥ 0.9 stay
    as they are: 80/10/10."""
    chosen = eligible & (choice < rate)
    return torch.where(chosen, torch.where(fate < 0.8, mask, replacements), tokens), chosen


@wrong.detail
def replaces_none(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You never use `replacements`: 80/0/20. Of those chosen, the ones with fate from 0.8 to 0.9 become their replacement."""
    chosen = eligible & (choice < rate)
    return torch.where(chosen & (fate < 0.8), mask, tokens), chosen


@wrong.detail
def takes_the_replacements_in_turn(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You take the replacements one after the other, as `masked_scatter` does. Each place has its own: the replacement at the
    same index."""
    chosen = eligible & (choice < rate)
    text = tokens.masked_fill(chosen & (fate < 0.8), mask)
    return text.masked_scatter(chosen & (fate >= 0.8) & (fate < 0.9), replacements), chosen


@wrong.detail
def asks_only_for_what_has_changed(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You take the places that differ from the text for the chosen ones. A token that stays, or is replaced by itself, is
    chosen too: it is a target of the loss."""
    text = corrupt(tokens, eligible, mask, choice, fate, replacements, rate).tokens
    return text, text != tokens


@wrong.case
def counts_the_borders_to_the_left(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """You write fate <= 0.8 and fate <= 0.9. A fate of exactly 0.8 is replaced, and one of exactly 0.9 kept: `<`."""
    chosen = eligible & (choice < rate)
    text = torch.where(fate <= 0.8, mask, torch.where(fate <= 0.9, replacements, tokens))
    return torch.where(chosen, text, tokens), chosen


@right
def by_writing_into_a_copy(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """A clone, and two masked assignments."""
    text, asked = tokens.clone(), torch.logical_and(eligible, choice.lt(rate))
    exchanged = asked & (fate >= 0.8) & (fate < 0.9)
    text[asked & (fate < 0.8)] = mask
    text[exchanged] = replacements[exchanged]
    return text, asked


@right
def word_by_word(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """Two loops in Python, one decision after the other."""
    text, asked = torch.empty_like(tokens), torch.empty_like(eligible)
    for b in range(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            asked[b, t] = bool(eligible[b, t]) and bool(choice[b, t] < rate)
            text[b, t] = tokens[b, t]
            if asked[b, t] and fate[b, t] < 0.8:
                text[b, t] = mask
            elif asked[b, t] and fate[b, t] < 0.9:
                text[b, t] = replacements[b, t]
    return [text, asked]


@right
def at_the_chosen_places(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    """The chosen tokens as one long row, their fates looked up among three candidates, and scattered back."""
    asked = (choice < rate).masked_fill(~eligible, False)
    words = tokens[asked]
    candidates = torch.stack([torch.full_like(words, mask), replacements[asked], words])
    which = (fate[asked] >= 0.8).long() + (fate[asked] >= 0.9).long()
    return Masked(tokens.masked_scatter(asked, candidates.gather(0, which[None])[0]), asked)


@stranger
def masks_only_half_of_the_chosen(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    return corrupt(tokens, eligible, mask, choice, fate + 0.3, replacements, rate)


@stranger
def masks_by_rank(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    rank = choice.masked_fill(~eligible, torch.inf).argsort(-1).argsort(-1)
    return corrupt(tokens, eligible, mask, rank / tokens.shape[1], fate, replacements, rate)


@stranger
def masks_and_turns_the_window_round(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    return corrupt(tokens, eligible, mask, choice, 1 - fate, replacements, rate)


@stranger(makes=[does_not_ask_for_the_words_that_stay])
def chosen_is_where_the_text_changed(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    text, chosen = corrupt(tokens, eligible, mask, choice, fate, replacements, rate)
    return text, chosen & ~(fate >= 0.9)


@stranger(makes=[always_masks, takes_out_special_tokens_too])
def masks_all_and_ignores_eligible(tokens, eligible, mask, choice, fate, replacements, rate=0.15):
    chosen = choice < rate
    return torch.where(chosen, mask, tokens), chosen


N_TOKENS = 19


def _fate(draw: Draw, kind: str, *shape: int) -> torch.Tensor:
    """Fates of one kind each: m masked, r replaced, s stays; "?" is any of them, as the shares have it."""
    low, high = {"m": (0.0, 0.79), "r": (0.81, 0.89), "s": (0.91, 1.0), "?": (0.0, 1.0)}[kind]
    return low + (high - low) * draw.uniform(*shape)


def _called(draw: Draw, kinds: str = "?", B: int = 2, T: int = 7, *rate: float, some: bool = False) -> Call:
    """A text and a [MASK] that no token is; fates of its rows are of these kinds, in turn; `some` tokens are not eligible."""
    eligible = draw.mask(B, T) if some else torch.ones(B, T, dtype=torch.bool)
    choice = draw.uniform(B, T)
    if not rate:
        choice = choice * torch.where(draw.uniform(B, T) < 0.5, 0.14, 1.0)
    fate = torch.stack([_fate(draw, kinds[b % len(kinds)], T) for b in range(B)])
    words, others = draw.integers(4, N_TOKENS, B, T), draw.integers(4, N_TOKENS, B, T)
    return words, eligible, int(draw.integers(0, 4, 1)), choice, fate, others, *rate


def _every_fate(draw: Draw) -> list[Call]:
    return [_called(draw, "mrs", 3, 13), _called(draw, "?", 2, 31)]


def _all_chosen(draw: Draw, kind: str) -> list[Call]:
    """Every token is chosen, and all meet one fate."""
    calls = []
    for B, T in ((1, 3), (2, 5)):
        *text, choice, fate, other = _called(draw, kind, B, T)
        calls.append((*text, choice * 0.1, fate, other))
    return calls


def _none_chosen(draw: Draw) -> list[Call]:
    *text, choice, fate, other = _called(draw, "mrs", 3, 5)
    return [(*text, 0.2 + 0.8 * choice, fate, other)]


def _borders(draw: Draw) -> list[Call]:
    """Draws that lie exactly at the rate, and fates exactly at 0.8 and 0.9, in float64: float32 has neither number."""
    *text, _, fate, other = _called(draw, "m", 2, 3)
    at_rate = torch.tensor([[0.25, 0.1, 0.25], [0.2, 0.25, 0.3]], dtype=fate.dtype)
    at_borders = torch.tensor([[0.8, 0.9, 0.8], [0.9, 0.8, 0.9]], dtype=torch.float64)
    return [(*text, at_rate, fate, other, 0.25), (*text, at_rate, at_borders, other, 0.5)]


exercise = Exercise(
    id="08.2",
    title="Mask tokens: 15 %, then 80/10/10",
    reference=corrupt,
    properties=(
        runs_on(_every_fate),
        has_shape("A text, and a bool for each token, True where it was chosen, (B, T) each.", _every_fate),
        Property("stays", "A token that is not chosen stays as it is.", _none_chosen),
        Property("chosen", "A token is chosen where its draw is below the rate.", _every_fate, right_result(1), points=2),
        Property(
            "masked",
            "With a fate below 0.8 a chosen token becomes [MASK].",
            lambda draw: _all_chosen(draw, "m"),
            right_result(0),
        ),
        Property(
            "replaced",
            "With a fate from 0.8 to below 0.9 it is replaced.",
            lambda draw: _all_chosen(draw, "r"),
            right_result(0),
            2,
        ),
        Property(
            "kept",
            "With a fate from 0.9 on it stays, and still counts as chosen.",
            lambda draw: _all_chosen(draw, "s"),
            needs=("masked",),
        ),
        Property(
            "text",
            "Chosen tokens change by their fate, all others stay.",
            _every_fate,
            right_result(0),
            points=3,
            needs=("stays", "masked", "replaced", "kept"),
        ),
        Property(
            "eligible",
            "A token that is not eligible stays and is never chosen.",
            lambda draw: [_called(draw, "m", 2, 5, 0.9, some=True), _called(draw, "m", 3, 31, 0.5, some=True)],
            points=4,
            needs=("masked",),
        ),
        Property(
            "rate",
            "The rate decides how many are chosen; the default is 0.15.",
            lambda draw: [_called(draw, "?", 2, 11, 0.5), _called(draw, "?", 2, 11, 0.02), _called(draw, "m", 3, 13, 1.0)],
            right_result(1),
            needs=("chosen",),
        ),
        Property(
            "borders",
            "A draw exactly at the rate is not chosen; a fate of exactly 0.8 is replaced, of exactly 0.9 kept.",
            _borders,
            needs=("text",),
        ),
        leaves_inputs(lambda draw: [*_every_fate(draw), *_all_chosen(draw, "m")]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
