"""Exercise 17.6, window_of_tokens: what students answer, wrong and right."""

import torch

from course_lib.primitives import causal_mask, window_of_tokens
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw the mask for five tokens and a window of two: row i is query i, column j is key j. How many entries of the last "
        "row are True, and which? And of the first row?"
    ),
    (
        "How far back a key lies is i - j. Which distances may a query see: is 0 among them, and which is the largest? A mask "
        "that you know from 04.2 is one of the two conditions."
    ),
    (
        "Make one range of positions on `device`. As a column it is i, as a row it is j, and their difference holds "
        "all distances. 0 is among those that a query may see, `size` is not. Both conditions must hold: `&` joins "
        "them, and each needs parentheses."
    ),
)


def _distance(T, device):
    position = torch.arange(T, device=device)
    return position[:, None] - position


@wrong.detail
def does_not_count_the_token_itself(T, size, device=None):
    """Your windows hold one key too many: `size` keys before the token, and the token. The token itself is one of the
    `size`."""
    distance = _distance(T, device)
    return (distance >= 0) & (distance <= size)


@wrong.detail
def cuts_the_token_itself(T, size, device=None):
    """Your windows lack the token itself: the distances are 1 … size - 1. A token attends to itself, at the distance 0, and to
    the size - 1 before it."""
    distance = _distance(T, device)
    return (distance > 0) & (distance < size)


@wrong.detail
def holds_one_key_too_few(T, size, device=None):
    """Your windows hold one key too few. The distances 0 … size - 1 are `size` keys; with a window of 1, a token still attends
    to itself."""
    distance = _distance(T, device)
    return (distance >= 0) & (distance < size - 1)


@wrong.part
def leaves_out_the_token_itself(T, size, device=None):
    """Your queries attend only to strictly earlier keys. A token attends to itself as well; in yours the first one may attend
    to nothing."""
    distance = _distance(T, device)
    return (distance > 0) & (distance <= size)


@wrong.idea
def looks_to_both_sides(T, size, device=None):
    """Your window reaches to both sides, so that a query sees the tokens after it. A decoder's window ends at the token
    itself."""
    return _distance(T, device).abs() < size


@wrong.idea
def puts_the_token_in_the_middle(T, size, device=None):
    """Your token stands in the middle of its window, as a pixel does. In a decoder it stands at the end: the window holds the
    token and what came before it."""
    return _distance(T, device).abs() <= size // 2


@wrong.idea
def forgets_the_window(T, size, device=None):
    """Your mask is the causal one: `size` has no effect. Keys that lie `size` positions back, or more, must be False."""
    return causal_mask(T, device=device)


@wrong.idea
def lets_the_future_in(T, size, device=None):
    """Your mask leaves out what lies too far back, and lets all later tokens in. It must be causal as well: j ≤ i."""
    return _distance(T, device) < size


@wrong.idea
def cuts_the_text_into_pieces(T, size, device=None):
    """You cut the text into pieces of `size` tokens, and a query sees its own piece. The first token of a piece then sees
    itself alone: a window moves with the token."""
    piece = torch.arange(T, device=device) // size
    return (piece[:, None] == piece) & causal_mask(T, device=device)


@wrong.idea
def keeps_what_lies_outside(T, size, device=None):
    """Your mask keeps the keys that lie too far back, and forbids the window. In this course True = may attend."""
    return _distance(T, device) >= size


@wrong.idea
def marks_the_forbidden_keys(T, size, device=None):
    """Your True marks the forbidden keys, as in some of torch's modules. In this course True = may attend."""
    return ~window_of_tokens(T, size, device)


@wrong.idea
def keeps_the_first_tokens(T, size, device=None):
    """You keep the first `size` tokens of the text for all queries. A window moves with its query: it holds the last ones
    before it."""
    return causal_mask(T, device=device) & (torch.arange(T, device=device) < size)


@wrong.part
def looks_ahead(T, size, device=None):
    """Your mask has a row for each key and a column for each query, so that a query sees itself and the tokens after it.
    Queries belong in the rows."""
    return window_of_tokens(T, size, device).mT


@wrong.detail
def wraps_around(T, size, device=None):
    """The windows of your first tokens reach around to the end of the text, where indices are negative. They are shorter:
    before the first token there is nothing."""
    return _distance(T, device).remainder(T) < size


@wrong.detail
def loses_the_first_windows(T, size, device=None):
    """Your first queries see nothing. Where a window would begin before the text, its slice begins at a negative index, which
    counts from the end, and is empty: begin at `max(0, i - size + 1)`."""
    mask = torch.zeros(T, T, dtype=torch.bool, device=device)
    for i in range(T):
        mask[i, i - size + 1 : i + 1] = True
    return mask


@wrong.case
def returns_ones_and_zeros(T, size, device=None):
    """Your mask holds the numbers 1 and 0. It must be bool: only then do `~` and `&` mean "not" and "and"."""
    return window_of_tokens(T, size, device).float()


@wrong.part
def returns_what_to_add_to_the_scores(T, size, device=None):
    """Your mask is additive, 0 where the query may attend and -∞ elsewhere. Here a mask is bool with True = may attend, and
    `attend` turns it into -∞."""
    return torch.zeros(T, T, device=device).masked_fill(~window_of_tokens(T, size, device), -torch.inf)


@wrong.case
def ignores_the_device(T, size, device=None):
    """You create the mask on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device` to
    every tensor that you create."""
    return window_of_tokens(T, size)


@right
def as_a_band_of_two_triangles(T, size, device=None):
    """The lower triangle, cut off below by the upper one."""
    return torch.ones(T, T, device=device).tril().triu(1 - size).bool()


@right
def as_a_difference_of_causal_masks(T, size, device=None):
    """The causal mask without the causal mask of what lies too far back."""
    past = torch.ones(T, T, dtype=torch.bool, device=device).tril()
    return past ^ past.tril(-size)


@right
def row_by_row(T, size, device=None):
    """A slice for each query, which begins at the first token at the earliest."""
    mask = torch.zeros((T, T), dtype=torch.bool, device=device)
    for i in range(T):
        mask[i, max(0, i - size + 1) : i + 1] = True
    return mask


@right
def as_a_sum_of_shifted_diagonals(T, size, device=None):
    """One diagonal for each distance, added up."""
    ones = torch.ones(T, device=device)
    return sum(torch.diag(ones[d:], -d) for d in range(min(size, T))) > 0


@stranger
def window_that_keeps_the_first_token(T, size, device=None):
    mask = window_of_tokens(T, size, device)
    return mask | (torch.arange(T, device=device) == 0)


@stranger
def window_of_every_other_token(T, size, device=None):
    distance = _distance(T, device)
    return (distance >= 0) & (distance < 2 * size) & (distance % 2 == 0)


@stranger
def window_of_one_size(T, size, device=None):
    return window_of_tokens(T, 3, device)


@stranger(makes=[does_not_count_the_token_itself])
def window_by_triangles_of_one_more(T, size, device=None):
    ones = torch.ones(T, T, dtype=torch.bool, device=device)
    return ones.tril() & ones.triu(-size)


@stranger(makes=[does_not_count_the_token_itself, returns_ones_and_zeros])
def window_of_numbers_of_one_more(T, size, device=None):
    return window_of_tokens(T, size + 1, device).float()


def _windows(draw: Draw) -> list[Call]:
    """Texts longer than their windows."""
    T, size, more = draw.sizes(3)
    return [(T + size, size), (size + more + 5, size), (9, 4)]


exercise = Exercise(
    id="17.6",
    title="A window of tokens",
    reference=window_of_tokens,
    properties=(
        runs_on(_windows),
        has_shape("A bool for each pair of query and key.", _windows),
        Property(
            "itself",
            "With a window of 1, each token attends to itself alone.",
            lambda draw: [(1, 1), (draw.sizes(1)[0] + 2, 1)],
        ),
        Property(
            "window",
            "Each token attends to itself and to the size - 1 tokens before it.",
            _windows,
            points=4,
        ),
        Property(
            "long",
            "A window as long as the text, or longer, is the causal mask.",
            lambda draw: [(5, 5), (5, 7), (draw.sizes(1)[0], 20)],
        ),
        Property(
            "device",
            "The mask is created on the device that is passed in.",
            lambda draw: [(5, 2, "meta")],
            same_shapes,
            needs=("window",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
