"""Exercise 04.2, causal_mask: what students answer, wrong and right."""

import torch

from course_lib.primitives import causal_mask
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw the mask for three queries and three keys: row i is query i, column j is key j, and True means that this "
        "query may attend to this key. What is the first row, and what the last?"
    ),
    (
        "You need the position of each key and the position of each query. With more keys than queries, the queries are "
        "the *last* positions of the keys: the last query may attend to every key. By how much does that shift query i?"
    ),
    (
        "Compare two ranges of integers by broadcasting, the keys' positions along the columns and the queries' positions, "
        "moved by T_k - T_q, along the rows; or keep the lower triangle of a matrix of True, with its diagonal moved by "
        "that much. Make either on `device`."
    ),
)


@wrong.part
def forbids_the_own_position(T_q, T_k=None, device=None):
    """Your queries attend only to strictly earlier positions. A position may attend to itself as well; in yours the first
    one may attend to nothing."""
    T_k = T_q if T_k is None else T_k
    return torch.arange(T_k, device=device) < torch.arange(T_q, device=device)[:, None] + T_k - T_q


@wrong.part
def lets_the_next_token_in(T_q, T_k=None, device=None):
    """Your diagonal is one step too far to the right: each query also attends to the next token, which is the one a
    language model must predict."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q + 1)


@wrong.idea
def looks_into_the_future(T_q, T_k=None, device=None):
    """You kept the upper triangle: each query attends to itself and to *later* positions. Rows are queries and columns are
    keys, so earlier positions are to the left of the diagonal."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).triu(T_k - T_q)


@wrong.idea
def marks_the_forbidden_keys(T_q, T_k=None, device=None):
    """Your True marks the forbidden keys, as in some of torch's modules. In this course True = may attend."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).triu(T_k - T_q + 1)


@wrong.detail
def aligns_the_first_query_with_the_first_key(T_q, T_k=None, device=None):
    """You put query i at position i even when there are more keys than queries. In cached decoding the queries are the last
    positions, so the last query must be allowed every key."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril()


@wrong.detail
def shifts_the_wrong_way(T_q, T_k=None, device=None):
    """With more keys than queries, you move the diagonal to the left. The extra keys come before the queries, so each query
    may attend to more keys than in the square mask, not to fewer."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_q - T_k)


@wrong.detail
def forgets_the_number_of_keys(T_q, T_k=None, device=None):
    """Your mask always has T_q columns. It needs one column for each key, and T_k may be larger than T_q."""
    position = torch.arange(T_q, device=device)
    return position <= position[:, None]


@wrong.part
def puts_the_keys_in_the_rows(T_q, T_k=None, device=None):
    """Your mask has a row for each key and a column for each query. Scores are (T_q, T_k), so queries belong in the rows;
    transposed, a square mask allows the future and forbids the past."""
    T_k = T_q if T_k is None else T_k
    return torch.arange(T_k, device=device)[:, None] <= torch.arange(T_q, device=device) + T_k - T_q


@wrong.case
def returns_ones_and_zeros(T_q, T_k=None, device=None):
    """Your mask holds the numbers 1 and 0. It must be bool: only then do `~` and `&` mean "not" and "and", and
    nothing in this course takes a mask of numbers."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, device=device).tril(T_k - T_q)


@wrong.part
def returns_what_to_add_to_the_scores(T_q, T_k=None, device=None):
    """Your mask is additive, 0 where the query may attend and -∞ elsewhere. Here a mask is bool with True = may attend, and
    `attend` turns it into -∞."""
    T_k = T_q if T_k is None else T_k
    return torch.full((T_q, T_k), -torch.inf, device=device).triu(T_k - T_q + 1)


@wrong.idea
def allows_everything(T_q, T_k=None, device=None):
    """Your mask allows every key to every query, so it masks nothing: later keys, j > i + T_k - T_q, must be False."""
    return torch.ones(T_q, T_q if T_k is None else T_k, dtype=torch.bool, device=device)


@wrong.idea
def takes_the_upper_triangle(T_q, T_k=None, device=None):
    """You take the upper triangle (`triu`): each query attends to its own and to later positions. Earlier ones are the lower
    triangle (`tril`), with the diagonal shifted by T_k - T_q."""
    return torch.ones(T_q, T_q if T_k is None else T_k, dtype=torch.bool, device=device).triu()


@wrong.case
def ignores_the_device(T_q, T_k=None, device=None):
    """You create the mask on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device` to
    every tensor that you create."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool).tril(T_k - T_q)


@wrong.detail
def needs_the_number_of_keys(T_q, T_k=None, device=None):
    """You use T_k as it is, and it may be None. Then there are as many keys as queries: T_k = T_q."""
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril()


@wrong.detail
def compares_two_rows(T_q, T_k=None, device=None):
    """You compare two rows of positions entry by entry. Each query is compared with each key: make a column of the queries,
    [:, None]."""
    T_k = T_q if T_k is None else T_k
    return torch.arange(T_k, device=device) <= torch.arange(T_q, device=device) + T_k - T_q


@wrong.detail
def allows_the_past_of_a_single_query(T_q, T_k=None, device=None):
    """With more keys than queries you allow every key to every query, as a shift of the diagonal by T_k - 1 does. That is
    right for a single query; of several, the first stands at T_k - T_q: shift by T_k - T_q."""
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(0 if T_k == T_q else T_k - 1)


@right
def as_a_lower_triangle(T_q, T_k=None, device=None):
    """The lower triangle of a matrix of ones, its diagonal moved to the last key."""
    T_k = T_k if T_k is not None else T_q
    return torch.tril(torch.ones((T_q, T_k), device=device), diagonal=T_k - T_q).bool()


@right
def entry_by_entry(T_q, T_k=None, device=None):
    """Two loops over queries and keys, each entry decided on its own."""
    T_k = T_k if T_k is not None else T_q
    mask = torch.zeros(T_q, T_k, dtype=torch.bool, device=device)
    for i in range(T_q):
        for j in range(T_k):
            mask[i, j] = j - i <= T_k - T_q
    return mask


@right
def as_the_last_rows_of_a_square(T_q, T_k=None, device=None):
    """The square mask over all positions, of which only the last T_q rows and the last T_k columns are kept."""
    T_k = T_k if T_k is not None else T_q
    T = max(T_q, T_k)
    position = torch.arange(T, device=device)
    return position.unsqueeze(1).ge(position)[T - T_q :, T - T_k :]


@right
def from_an_additive_mask(T_q, T_k=None, device=None):
    """The additive mask of many public implementations, -∞ above the diagonal, then asked where it is 0."""
    T_k = T_k if T_k is not None else T_q
    return torch.triu(torch.full((T_q, T_k), float("-inf"), device=device), diagonal=1 + T_k - T_q) == 0


@stranger
def causal_sees_only_a_window(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    mask = torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q)
    return mask & ~mask.tril(T_k - T_q - 4)


@stranger
def causal_opens_everything_when_cached(T_q, T_k=None, device=None):
    if T_k is not None and T_k != T_q:
        return torch.ones(T_q, T_k, dtype=torch.bool, device=device)
    return torch.ones(T_q, T_q, dtype=torch.bool, device=device).tril()


@stranger
def causal_shifts_as_for_one_query(T_q, T_k=None, device=None):
    T_k, shift = (T_q, 0) if T_k is None else (T_k, T_k - 1)
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(shift)


@stranger(makes=[aligns_the_first_query_with_the_first_key])
def causal_in_loops_without_the_shift(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    return torch.tensor([[j <= i for j in range(T_k)] for i in range(T_q)], device=device)


@stranger(makes=[looks_into_the_future, returns_ones_and_zeros])
def causal_with_two_mistakes(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, device=device).triu(T_k - T_q)


def _square(draw: Draw) -> list[Call]:
    return [(n,) for n in draw.sizes(3)]


def _longer(draw: Draw) -> list[Call]:
    """Fewer queries than keys, as in cached decoding; the last call has one query."""
    T, more = draw.sizes(2)
    return [(T, T + more), (1, T + 1)]


exercise = Exercise(
    id="04.2",
    title="The causal mask",
    reference=causal_mask,
    properties=(
        runs_on(_square),
        has_shape("A bool for each pair of query and key.", _square),
        Property("one", "The first token may attend to itself.", lambda draw: [(1,)], points=0),
        Property("past", "Each token may attend to itself and to earlier tokens.", _square, points=4),
        Property("cached", "Fewer queries than keys are the last positions of the keys.", _longer, points=2, needs=("past",)),
        Property(
            "device",
            "The mask is created on the device that is passed in.",
            lambda draw: [(5, None, "meta"), (2, 5, "meta")],
            same_shapes,
            needs=("cached",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`is` has no sides.": ("swap sides: T_q if None is T_k else T_k",),
    },
    hints=HINTS,
)
