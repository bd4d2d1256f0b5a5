"""Exercise 10.3, relative_logits: what students answer, wrong and right."""

import torch
from einops import rearrange

from course_lib.attention import relative_logits
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
        "A window of 3 × 3 has nine places, but only three rows and three columns. Which row and which column has place number "
        "5? How many different numbers does a query need for all of the nine?"
    ),
    (
        "The first d_row features of q meet every row vector: size numbers a pixel. The others meet every column vector. Place "
        "a·size + b gets number a of the first plus number b of the second."
    ),
    (
        "`q[..., :d_row] @ rows.unsqueeze(-3).mT` is (…, H, W, size), and the columns likewise. Add them with a new axis each, "
        "`unsqueeze(-1)` for the rows and `unsqueeze(-2)` for the columns, and flatten the last two."
    ),
)


def _parts(q, rows, columns):
    """What the rows give, and the columns, (*batch, H, W, size) each."""
    d_row = rows.shape[-1]
    return q[..., :d_row] @ rows.unsqueeze(-3).mT, q[..., d_row:] @ columns.unsqueeze(-3).mT


def _square(q, rows, columns):
    by_row, by_column = _parts(q, rows, columns)
    return by_row.unsqueeze(-1) + by_column.unsqueeze(-2)


@wrong
def counts_column_by_column(q, rows, columns):
    """You let the row run fastest. Place a·size + b is row a, column b, as in `local_windows`; your logits are those of the
    mirrored place."""
    return _square(q, rows, columns).mT.flatten(-2)


@wrong
def gives_the_columns_the_first_features(q, rows, columns):
    """You let the first features of q meet the columns and the others the rows. In [row ; column] the row stands in front."""
    d_column = columns.shape[-1]
    by_column = q[..., :d_column] @ columns.unsqueeze(-3).mT
    by_row = q[..., d_column:] @ rows.unsqueeze(-3).mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong
def multiplies_the_two(q, rows, columns):
    """You multiply what row and column give. The product of q with both vectors, one behind the other, is the sum of the two
    products."""
    by_row, by_column = _parts(q, rows, columns)
    return (by_row.unsqueeze(-1) * by_column.unsqueeze(-2)).flatten(-2)


@wrong
def forgets_the_columns(q, rows, columns):
    """You use the rows alone. All places of one row of the window get the same number, so that left and right are one."""
    by_row, _ = _parts(q, rows, columns)
    return by_row.repeat_interleave(columns.shape[-2], dim=-1)


@wrong
def forgets_the_rows(q, rows, columns):
    """You use the columns alone. All places of one column of the window get the same number, so that above and below are
    one."""
    _, by_column = _parts(q, rows, columns)
    return by_column.repeat(*[1] * (q.dim() - 1), rows.shape[-2])


@wrong
def turns_the_rows_round(q, rows, columns):
    """You count the rows from below. The first vector of `rows` is that of the uppermost row of the window; what stands above a
    pixel is taken for what stands below it."""
    return _square(q, rows.flip(-2), columns).flatten(-2)


@wrong
def turns_the_columns_round(q, rows, columns):
    """You count the columns from the right, perhaps with i - b for b - i. The first vector of `columns` is that of the leftmost
    column."""
    return _square(q, rows, columns.flip(-2)).flatten(-2)


@wrong
def gives_all_heads_the_first(q, rows, columns):
    """You use the first head's vectors for all heads. Where there is an axis of heads, each has its own: one may look upwards
    and another to the left."""
    if rows.dim() > 2:
        rows, columns = rows[:1], columns[:1]
    return _square(q, rows, columns).flatten(-2)


@wrong
def forgets_the_axis_of_the_heads(q, rows, columns):
    """You multiply the rows of the picture with the vectors of the heads: where there is an axis of heads, your product lays it
    on the wrong axis of q. Give the vectors one more axis, `unsqueeze(-3)`, so that heads meet heads."""
    d_row = rows.shape[-1]
    by_row, by_column = q[..., :d_row] @ rows.mT, q[..., d_row:] @ columns.mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong
def normalises_already(q, rows, columns):
    """You take a softmax. These are logits, to which those of the content are still added; there is one softmax of the sum."""
    return _square(q, rows, columns).flatten(-2).softmax(-1)


@wrong
def divides_by_the_root(q, rows, columns):
    """You divide by √d_k. This paper has no scale, neither for content nor for place."""
    return _square(q, rows, columns).flatten(-2) / q.shape[-1] ** 0.5


@wrong
def leaves_the_window_square(q, rows, columns):
    """You leave a window as a square, (size, size). The logits of the content come as one list of size² places, to which yours
    must be added."""
    return _square(q, rows, columns)


@wrong
def sets_them_side_by_side(q, rows, columns):
    """You put the numbers of the rows beside those of the columns, 2 · size of them. A window has size² places, and each gets
    the sum of its row's and its column's number."""
    return torch.cat(_parts(q, rows, columns), dim=-1)


@right
def by_one_vector_a_place(q, rows, columns):
    """The vector of every place of the window, its row's and its column's end to end, and one product."""
    size = rows.shape[-2]
    of_rows, of_columns = rows.repeat_interleave(size, dim=-2), torch.cat([columns] * size, dim=-2)
    r = torch.cat([of_rows, of_columns], dim=-1)
    return (q.flatten(-3, -2) @ r.mT).unflatten(-2, q.shape[-3:-1])


@right
def in_einsum(q, rows, columns):
    """Two sums over named axes, joined by einops."""
    asks_row, asks_column = q.split([rows.shape[-1], columns.shape[-1]], dim=-1)
    by_row = torch.einsum("...ijd,...ad->...ija", asks_row, rows)
    by_column = torch.einsum("...ijd,...bd->...ijb", asks_column, columns)
    return rearrange(by_row[..., None] + by_column[..., None, :], "... a b -> ... (a b)")


@right
def place_by_place(q, rows, columns):
    """A loop over the places of a window, each by elementwise products."""
    d_row, logits = rows.shape[-1], []
    for row in rows.unbind(-2):
        for column in columns.unbind(-2):
            from_row = (q[..., :d_row] * row[..., None, None, :]).sum(-1)
            logits.append(from_row + (q[..., d_row:] * column[..., None, None, :]).sum(-1))
    return torch.stack(logits, dim=-1)


@right
def by_choosing(q, rows, columns):
    """The rows' and the columns' numbers in one list, and a matrix of ones and zeros that picks two for each place."""
    size = rows.shape[-2]
    number = torch.arange(size * size)
    picks = torch.zeros(2 * size, size * size, dtype=q.dtype)
    picks[number // size, number] = 1
    picks[size + number % size, number] = 1
    return torch.cat(_parts(q, rows, columns), dim=-1) @ picks


def _asked(draw: Draw, *batch: int, heads: tuple[int, ...] = (), size: int = 3, d_row: int = 2, d_column: int = 5) -> Call:
    q = draw.normal(*batch, 5, 7, d_row + d_column)
    return q, draw.normal(*heads, size, d_row), draw.normal(*heads, size, d_column)


def _pixels(draw: Draw) -> list[Call]:
    """More features for the columns, and more for the rows; windows of 3 × 3 and of 5 × 5."""
    d_row, d_column = draw.sizes(2)
    return [_asked(draw, 2, d_row=d_row, d_column=d_column), _asked(draw, 3, size=5, d_row=d_column, d_column=d_row)]


def _one_side(draw: Draw, side: int) -> Call:
    """Vectors of zeros for the rows (1) or for the columns (2)."""
    asked = list(_asked(draw, 2, size=5, d_row=3, d_column=2))
    asked[side] = torch.zeros_like(asked[side])
    return tuple(asked)


exercise = Exercise(
    id="10.3",
    title="Logits of relative places",
    reference=relative_logits,
    properties=(
        runs_on(lambda draw: [_asked(draw, 2)]),
        has_shape("A number for each of the size² places, for each pixel.", _pixels),
        Property(
            "columns",
            "Where the rows are zeros, the last features of q meet the columns, the leftmost first.",
            lambda draw: [_one_side(draw, 1)],
            points=2,
        ),
        Property(
            "rows",
            "Where the columns are zeros, the first features of q meet the rows, the uppermost first.",
            lambda draw: [_one_side(draw, 2)],
            points=2,
        ),
        Property(
            "places",
            "A place gets the sum of its row's and its column's number, row by row.",
            _pixels,
            points=2,
            needs=("columns", "rows"),
        ),
        Property(
            "heads",
            "Each head has vectors of its own, or all share them.",
            lambda draw: [
                _asked(draw, 2, 3, heads=(3,)),
                _asked(draw, 3, heads=(3,)),
                _asked(draw, 2, 3),
                _asked(draw),
            ],
            points=2,
            needs=("places",),
        ),
        has_gradient(lambda draw: [_asked(draw, 2), _asked(draw, 2, 3, heads=(3,))], needs=("places",)),
        leaves_inputs(_pixels),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
