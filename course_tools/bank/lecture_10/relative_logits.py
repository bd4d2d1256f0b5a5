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

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "A window of 3 × 3 has nine positions, but only three rows and three columns. Which row and which column has "
        "position number 5? How many different numbers does a query need for all of the nine?"
    ),
    (
        "The first d_row features of q are multiplied by every row vector: size numbers for each pixel. The others are "
        "multiplied by every column vector. Position a·size + b gets number a of the first plus number b of the second."
    ),
    (
        "The first part of q meets the vectors of the rows, the second part those of the columns: two products with "
        "`size` numbers each. Give each an axis where the other has its own, so that their sum has every pair of row and "
        "column, and flatten the two axes."
    ),
)


def _parts(q, rows, columns):
    """What the rows give, and the columns, (*batch, H, W, size) each."""
    d_row = rows.shape[-1]
    return q[..., :d_row] @ rows.unsqueeze(-3).mT, q[..., d_row:] @ columns.unsqueeze(-3).mT


def _square(q, rows, columns):
    by_row, by_column = _parts(q, rows, columns)
    return by_row.unsqueeze(-1) + by_column.unsqueeze(-2)


@wrong.detail
def counts_column_by_column(q, rows, columns):
    """Your row index runs fastest. Position a·size + b is row a, column b, as in `local_windows`; your logits are
    transposed in the window."""
    return _square(q, rows, columns).mT.flatten(-2)


@wrong.detail
def gives_the_columns_the_first_features(q, rows, columns):
    """You multiply the first features of q by the columns and the others by the rows. In [row ; column] the row comes
    first."""
    d_column = columns.shape[-1]
    by_column = q[..., :d_column] @ columns.unsqueeze(-3).mT
    by_row = q[..., d_column:] @ rows.unsqueeze(-3).mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong.idea
def multiplies_the_two(q, rows, columns):
    """You multiply the numbers of row and column. The product of q with the concatenation [row ; column] is the sum of the
    two products."""
    by_row, by_column = _parts(q, rows, columns)
    return (by_row.unsqueeze(-1) * by_column.unsqueeze(-2)).flatten(-2)


@wrong.part
def does_not_split_q(q, rows, columns):
    """You multiply the whole of q by the rows, and by the columns. Only its first d_row features belong to the rows, and the
    others to the columns: split q before the two products."""
    return ((q @ rows.mT).unsqueeze(-1) + (q @ columns.mT).unsqueeze(-2)).flatten(-2)


@wrong.idea
def forgets_the_columns(q, rows, columns):
    """You use the rows alone. All positions of one row of the window get the same number, so left and right are not
    distinguished."""
    by_row, _ = _parts(q, rows, columns)
    return by_row.repeat_interleave(columns.shape[-2], dim=-1)


@wrong.idea
def forgets_the_rows(q, rows, columns):
    """You use the columns alone. All positions of one column of the window get the same number, so above and below are not
    distinguished."""
    _, by_column = _parts(q, rows, columns)
    return by_column.repeat(*[1] * (q.dim() - 1), rows.shape[-2])


@wrong.detail
def turns_the_rows_round(q, rows, columns):
    """You count the rows from below. The first vector of `rows` is that of the uppermost row of the window; yours exchanges
    above and below."""
    return _square(q, rows.flip(-2), columns).flatten(-2)


@wrong.detail
def turns_the_columns_round(q, rows, columns):
    """You count the columns from the right, perhaps with i - b for b - i. The first vector of `columns` is that of the leftmost
    column."""
    return _square(q, rows, columns.flip(-2)).flatten(-2)


@wrong.detail
def gives_all_heads_the_first(q, rows, columns):
    """You use the first head's vectors for all heads. Where there is an axis of heads, each has its own."""
    if rows.dim() > 2:
        rows, columns = rows[:1], columns[:1]
    return _square(q, rows, columns).flatten(-2)


@wrong.detail
def forgets_the_axis_of_the_heads(q, rows, columns):
    """You multiply the rows of the image with the vectors of the heads: where there is an axis of heads, your product
    broadcasts it against the wrong axis of q. Give the vectors one more axis, `unsqueeze(-3)`."""
    d_row = rows.shape[-1]
    by_row, by_column = q[..., :d_row] @ rows.mT, q[..., d_row:] @ columns.mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong.part
def normalises_already(q, rows, columns):
    """You take a softmax. These are logits, to which the content logits are added; there is one softmax of the sum."""
    return _square(q, rows, columns).flatten(-2).softmax(-1)


@wrong.detail
def divides_by_the_root(q, rows, columns):
    """You divide by √d_k. This paper has no scale, neither for content nor for position."""
    return _square(q, rows, columns).flatten(-2) / q.shape[-1] ** 0.5


@wrong.case
def leaves_the_window_square(q, rows, columns):
    """You leave a window as a square, (size, size). The logits of the content come as one list of size² positions, to which
    yours must be added."""
    return _square(q, rows, columns)


@wrong.part
def sets_them_side_by_side(q, rows, columns):
    """You concatenate the numbers of the rows and of the columns, 2 · size of them. A window has size² positions, and each
    gets the sum of the number of its row and that of its column."""
    return torch.cat(_parts(q, rows, columns), dim=-1)


@wrong.detail
def cuts_the_query_in_the_middle(q, rows, columns):
    """You cut the query in two halves. The first part is as long as a vector of `rows`, the second as one of `columns`; these
    may differ."""
    q_row, q_column = q.chunk(2, dim=-1)
    logits = (q_row @ rows.unsqueeze(-3).mT).unsqueeze(-1) + (q_column @ columns.unsqueeze(-3).mT).unsqueeze(-2)
    return logits.flatten(-2)


def _of_parts(q_row, q_column, rows, columns):
    """The logits of two given parts of the queries."""
    by_row, by_column = (torch.einsum("...ijd,...ad->...ija", *pair) for pair in ((q_row, rows), (q_column, columns)))
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong.detail
def cuts_the_query_at_half_its_length(q, rows, columns):
    """You cut the query at half of its length, q.shape[-1] // 2. The first part is as long as a vector of `rows`, the second as
    one of `columns`: cut at rows.shape[-1]."""
    half = q.shape[-1] // 2
    return _of_parts(q[..., :half], q[..., half:], rows, columns)


@wrong.detail
def multiplies_two_halves(q, rows, columns):
    """You cut the query at half of its length, q.shape[-1] // 2, so that a product of a part with `rows` fails: cut at
    rows.shape[-1]."""
    half = q.shape[-1] // 2
    by_row, by_column = q[..., :half] @ rows.unsqueeze(-3).mT, q[..., half:] @ columns.unsqueeze(-3).mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@wrong.detail
def exchanges_the_parts(q, rows, columns):
    """You cut the query in the right place, and give its second part to the rows. In [row ; column] the row comes first: the
    first d_row features belong to the rows."""
    d_row = rows.shape[-1]
    return _of_parts(q[..., d_row:], q[..., :d_row], rows, columns)


@wrong.detail
def multiplies_exchanged_parts(q, rows, columns):
    """You cut the query in the right place, and multiply its second part by the rows. In [row ; column] the row comes first:
    the first d_row features belong to the rows."""
    d_row = rows.shape[-1]
    by_row, by_column = q[..., d_row:] @ rows.unsqueeze(-3).mT, q[..., :d_row] @ columns.unsqueeze(-3).mT
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(-2)


@right
def by_one_vector_a_place(q, rows, columns):
    """The vector of every position of the window, its row's and its column's end to end, and one product."""
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
    """A loop over the positions of a window, each by elementwise products."""
    d_row, logits = rows.shape[-1], []
    for row in rows.unbind(-2):
        for column in columns.unbind(-2):
            from_row = (q[..., :d_row] * row[..., None, None, :]).sum(-1)
            logits.append(from_row + (q[..., d_row:] * column[..., None, None, :]).sum(-1))
    return torch.stack(logits, dim=-1)


@right
def by_choosing(q, rows, columns):
    """The rows' and the columns' numbers in one list, and a matrix of ones and zeros that picks two for each position."""
    size = rows.shape[-2]
    number = torch.arange(size * size)
    picks = torch.zeros(2 * size, size * size, dtype=q.dtype)
    picks[number // size, number] = 1
    picks[size + number % size, number] = 1
    return torch.cat(_parts(q, rows, columns), dim=-1) @ picks


@stranger
def logits_twice_as_large(q, rows, columns):
    return 2 * relative_logits(q, rows, columns)


@stranger
def logits_of_distances(q, rows, columns):
    return relative_logits(q, rows.abs(), columns.abs())


@stranger
def logits_without_gradient(q, rows, columns):
    return relative_logits(q.detach(), rows, columns)


@stranger
def logits_centred(q, rows, columns):
    logits = relative_logits(q, rows, columns)
    return logits - logits.mean(-1, keepdim=True)


@stranger(makes=[turns_the_rows_round, divides_by_the_root])
def logits_turned_round_and_scaled(q, rows, columns):
    return relative_logits(q, rows.flip(-2), columns) / q.shape[-1] ** 0.5


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
    title="Logits of relative positions",
    reference=relative_logits,
    properties=(
        runs_on(lambda draw: [_asked(draw, 2)]),
        has_shape("A number for each of the size² positions, for each pixel.", _pixels),
        Property(
            "columns",
            "Where the rows are zeros, the last features of q are multiplied by the columns, the leftmost first.",
            lambda draw: [_one_side(draw, 1)],
            points=2,
        ),
        Property(
            "rows",
            "Where the columns are zeros, the first features of q are multiplied by the rows, the uppermost first.",
            lambda draw: [_one_side(draw, 2)],
            points=2,
        ),
        Property(
            "positions",
            "Each position gets the sum of the number of its row and that of its column, in row-major order.",
            _pixels,
            points=2,
            needs=("columns", "rows"),
        ),
        Property(
            "heads",
            "Each head has its own vectors, or all have the same.",
            lambda draw: [
                _asked(draw, 2, 3, heads=(3,)),
                _asked(draw, 3, heads=(3,)),
                _asked(draw, 2, 3),
                _asked(draw),
            ],
            points=2,
            needs=("positions",),
        ),
        has_gradient(lambda draw: [_asked(draw, 2), _asked(draw, 2, 3, heads=(3,))], needs=("positions",)),
        leaves_inputs(_pixels),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Of the detached tensor only a size is read.": ("detach: rows.detach().shape",),
    },
    hints=HINTS,
)
