"""Exercise 19.5, window_with_sinks: what students answer, wrong and right."""

import torch

from course_lib.primitives import causal_mask, window_of_tokens, window_with_sinks
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw the mask for six tokens, a window of two and one sink: row i is query i, column j is key j. Which columns are "
        "True in the last row, and which in the first?"
    ),
    (
        "A key is seen for one of two reasons: it lies fewer than `size` positions back, or it is one of the first `sinks` "
        "tokens. Whatever the reason, it must not lie in the future."
    ),
    (
        "Make one range of positions on `device`; as a column minus as a row it gives the distances, and as a row it "
        "says which keys are among the first. `|` joins the two reasons, `&` the condition that the distance is not "
        "negative. `&` comes before `|`, so the two reasons need parentheses."
    ),
)


def _distance(T, device):
    position = torch.arange(T, device=device)
    return position[:, None] - position


def _first(T, sinks, device):
    return torch.arange(T, device=device) < sinks


@wrong.idea
def forgets_the_sinks(T, size, sinks, device=None):
    """Your mask is the plain window: `sinks` has no effect. The first `sinks` tokens stay visible however far back they
    are."""
    return window_of_tokens(T, size, device)


@wrong.idea
def forgets_the_window(T, size, sinks, device=None):
    """Your queries see the sinks alone, or all that came before. Beside the first tokens, each query sees the last `size`
    tokens."""
    return causal_mask(T, device=device) & _first(T, sinks, device)


@wrong.part
def sees_sinks_of_the_future(T, size, sinks, device=None):
    """Your first queries see sinks that come after them. A sink is an early token, but for the tokens before it, it lies in
    the future: combine with j ≤ i."""
    return window_of_tokens(T, size, device) | _first(T, sinks, device)


@wrong.part
def asks_for_both(T, size, sinks, device=None):
    """You keep keys that are sinks *and* lie in the window. It is one or the other: use `|` between the two, and `&` with the
    causal condition."""
    return window_of_tokens(T, size, device) & _first(T, sinks, device)


@wrong.part
def lets_the_first_queries_see(T, size, sinks, device=None):
    """You open rows in place of columns: the first `sinks` *queries* see everything before them. Sinks are keys, and keys are
    columns."""
    return (window_of_tokens(T, size, device) | _first(T, sinks, device)[:, None]) & causal_mask(T, device=device)


@wrong.part
def looks_ahead(T, size, sinks, device=None):
    """Your mask has a row for each key and a column for each query. Queries belong in the rows."""
    return window_with_sinks(T, size, sinks, device).mT


@wrong.detail
def takes_the_sinks_from_the_window(T, size, sinks, device=None):
    """You count the sinks into the window, which then holds `size - sinks` tokens. The window keeps its `size` tokens, and the
    sinks come in addition."""
    distance = _distance(T, device)
    return (distance >= 0) & ((distance < max(size - sinks, 1)) | _first(T, sinks, device))


@wrong.detail
def has_one_sink_too_many(T, size, sinks, device=None):
    """You keep one sink too many: the positions 0 … sinks - 1 are `sinks` tokens."""
    return window_with_sinks(T, size, sinks + 1, device)


@wrong.detail
def does_not_count_the_token_itself(T, size, sinks, device=None):
    """Your windows hold one key too many: `size` keys before the token, and the token. The token itself is one of the
    `size`."""
    return window_with_sinks(T, size + 1, sinks, device)


@wrong.detail
def has_a_sink_in_each_window(T, size, sinks, device=None):
    """Your sinks stand right before the window of each query, so that they move with it: that is a larger window. Sinks are
    the first tokens of the text."""
    return window_of_tokens(T, size + sinks, device)


@wrong.detail
def loses_the_parentheses(T, size, sinks, device=None):
    """`&` binds closer than `|`: (causal and window) or sink lets early queries see later sinks, and causal and (window) or …
    needs parentheses. In yours the sinks alone are causal."""
    distance = _distance(T, device)
    return (distance < size) | ((distance >= 0) & _first(T, sinks, device))


@wrong.idea
def marks_the_forbidden_keys(T, size, sinks, device=None):
    """Your True marks the forbidden keys. In this course True = may attend."""
    return ~window_with_sinks(T, size, sinks, device)


@wrong.case
def returns_ones_and_zeros(T, size, sinks, device=None):
    """Your mask holds the numbers 1 and 0. It must be bool: only then do `~` and `&` mean "not" and "and"."""
    return window_with_sinks(T, size, sinks, device).float()


@wrong.case
def ignores_the_device(T, size, sinks, device=None):
    """You create the mask on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device` to
    every tensor that you create."""
    return window_with_sinks(T, size, sinks)


@wrong.detail
def counts_the_sinks_in_the_window(T, size, sinks, device=None):
    """Your window is smaller by the number of sinks, as where one cache holds both. Here a query sees its last `size` tokens,
    and the sinks beside them."""
    distance = _distance(T, device)
    return (distance >= 0) & ((distance < size - sinks) | _first(T, sinks, device))


@wrong.detail
def lengthens_the_window_by_the_sinks(T, size, sinks, device=None):
    """Your window is longer by the number of sinks: `size + sinks` tokens. The sinks come in addition to the last `size`
    tokens, and they are the first of the text."""
    return window_with_sinks(T, size + sinks, sinks, device)


@wrong.part
def hides_the_sinks_in_the_window(T, size, sinks, device=None):
    """You join window and sinks by `^`, an exclusive or. A sink that lies in the window is then hidden: `|`."""
    at = torch.arange(T, device=device)
    return window_of_tokens(T, size, device) ^ ((at < sinks) & (at <= at[:, None]))


@right
def from_two_masks(T, size, sinks, device=None):
    """The plain window, or the causal part of the first columns."""
    return window_of_tokens(T, size, device) | (causal_mask(T, device=device) & _first(T, sinks, device))


@right
def row_by_row(T, size, sinks, device=None):
    """Two slices for each query, the first of which ends at the query at the latest."""
    mask = torch.zeros(T, T, dtype=torch.bool, device=device)
    for i in range(T):
        mask[i, : min(sinks, i + 1)] = True
        mask[i, max(0, i + 1 - size) : i + 1] = True
    return mask


@right
def by_triangles(T, size, sinks, device=None):
    """The lower triangle without what lies too far back and is no sink."""
    past = torch.ones(T, T, device=device).tril()
    far = past.tril(-size)
    far[:, :sinks] = 0
    return (past - far).bool()


@stranger
def sinks_that_fade(T, size, sinks, device=None):
    return window_with_sinks(T, size, sinks, device) & (_distance(T, device) < size + 7)


@stranger
def sinks_of_even_positions(T, size, sinks, device=None):
    even = torch.arange(T, device=device) % 2 == 0
    return window_of_tokens(T, size, device) | (window_with_sinks(T, size, sinks, device) & even)


@stranger
def sinks_of_a_fixed_number(T, size, sinks, device=None):
    return window_with_sinks(T, size, 4, device)


@stranger(makes=[sees_sinks_of_the_future])
def sinks_in_whole_columns(T, size, sinks, device=None):
    mask = torch.ones(T, T, device=device).tril().triu(1 - size)
    mask[:, :sinks] = 1
    return mask.bool()


@stranger(makes=[sees_sinks_of_the_future, returns_ones_and_zeros])
def sinks_in_whole_columns_of_ones(T, size, sinks, device=None):
    mask = torch.ones(T, T, device=device).tril().triu(1 - size)
    mask[:, :sinks] = 1
    return mask


def _windows(draw: Draw) -> list[Call]:
    """Texts longer than their windows, with two or more sinks."""
    size, sinks, more = draw.sizes(3)
    return [(size + sinks + more + 8, size, sinks), (size + sinks + 19, size + 1, sinks), (12, 3, 2)]


exercise = Exercise(
    id="19.5",
    title="A window with sinks",
    reference=window_with_sinks,
    properties=(
        runs_on(_windows),
        has_shape("A bool for each pair of query and key.", _windows),
        Property("no sinks", "Without sinks it is a plain window.", lambda draw: [(9 + draw.sizes(1)[0], 4, 0), (7, 1, 0)]),
        Property("late", "A late query sees the first tokens and the last ones.", _windows, points=3),
        Property(
            "early",
            "An early query does not see sinks that come after it.",
            lambda draw: [(4, 1, 3), (5, 2, 5), (draw.sizes(1)[0], 1, 20)],
            points=2,
            needs=("shape",),
        ),
        Property(
            "device",
            "The mask is created on the device that is passed in.",
            lambda draw: [(5, 2, 1, "meta")],
            same_shapes,
            needs=("late",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    extra=True,
)
