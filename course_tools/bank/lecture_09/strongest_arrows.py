"""Exercise 09.5, strongest_arrows: what students answer, wrong and right."""

import torch

from course_lib.analysis import Arrows, strongest_arrows
from course_tools.checks.comparisons import right_result
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
        "A video of maps of 2 rows and 3 columns: write down the indices of its first twelve positions. At which time, in "
        "which row and in which column is number 10? What do you divide by, and what is left?"
    ),
    (
        "`topk` over the last axis gives weights and indices of positions, largest first. A map has H · W positions and a "
        "row W: integer division gives the number of full maps or rows, the remainder the position within."
    ),
    (
        "A position counts through the columns first, then the rows, then the time steps. So H · W positions make one "
        "time step, and what is left over is cut in the same way into row and column."
    ),
)


def _ends(place, H, W):
    return torch.stack([place // (H * W), place // W % H, place % W], dim=-1)


def _arrows(weights, n_arrows, H, W, dim=-1, largest=True):
    strongest, place = weights.topk(n_arrows, dim=dim, largest=largest)
    return Arrows(_ends(place, H, W), strongest)


@wrong.detail
def exchanges_row_and_column(weights, n_arrows, H, W):
    """You give the column before the row. Points are often (x, y), but the ends are (time, row, column)."""
    ends, strongest = _arrows(weights, n_arrows, H, W)
    return Arrows(ends[..., [0, 2, 1]], strongest)


@wrong.detail
def puts_the_time_last(weights, n_arrows, H, W):
    """You give row, column, time. The time comes first, as in the axes of a video."""
    ends, strongest = _arrows(weights, n_arrows, H, W)
    return Arrows(ends.roll(-1, -1), strongest)


@wrong.case
def divides_by_the_height(weights, n_arrows, H, W):
    """You divide by H to find the row. A row has W positions, so divide by W; H is right for square maps only."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place // (H * W), place // H % W, place % H], dim=-1), strongest)


@wrong.part
def leaves_the_time_in_the_row(weights, n_arrows, H, W):
    """You take place // W for the row. In a video that counts through all frames: take the remainder of the quotient by H.
    At time 0 there is no difference."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place // (H * W), place // W, place % W], dim=-1), strongest)


@wrong.part
def leaves_the_places_numbered(weights, n_arrows, H, W):
    """You return the flat indices as `topk` gives them. Asked for are time, row and column."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(place, strongest)


@wrong.idea
def takes_the_weakest(weights, n_arrows, H, W):
    """You take the smallest weights, the first ones in rising order. The arrows belong to the largest weights."""
    return _arrows(weights, n_arrows, H, W, largest=False)


@wrong.detail
def ends_with_the_strongest(weights, n_arrows, H, W):
    """You have the right arrows, the strongest last. The weights should be in descending order."""
    ends, strongest = _arrows(weights, n_arrows, H, W)
    return Arrows(ends.flip(-2), strongest.flip(-1))


@wrong.idea
def finds_who_looks_here(weights, n_arrows, H, W):
    """You search over the queries, axis -2. A row of weights belongs to a query, and the keys are the last axis."""
    return _arrows(weights, n_arrows, H, W, dim=-2)


@wrong.idea
def keeps_a_few_of_all(weights, n_arrows, H, W):
    """You keep the largest weights of the whole matrix. Then one query gets many arrows and others none; each query has
    n_arrows."""
    strongest, pair = weights.flatten(-2).topk(n_arrows, dim=-1)
    return Arrows(_ends(pair % weights.shape[-1], H, W), strongest)


@wrong.part
def drops_the_first(weights, n_arrows, H, W):
    """You leave out the largest weight, as if it belonged to the query itself. The largest weight may belong to any
    position."""
    best = weights.sort(dim=-1, descending=True)
    chosen = slice(1, n_arrows + 1)
    return Arrows(_ends(best.indices[..., chosen], H, W), best.values[..., chosen])


@wrong.detail
def shares_out_anew(weights, n_arrows, H, W):
    """You divide the weights that you keep by their sum. The weights are returned as they are."""
    ends, strongest = _arrows(weights, n_arrows, H, W)
    return Arrows(ends, strongest / strongest.sum(-1, keepdim=True))


@wrong.detail
def counts_from_one(weights, n_arrows, H, W):
    """You count times, rows and columns from 1. As indices they begin at 0."""
    ends, strongest = _arrows(weights, n_arrows, H, W)
    return Arrows(ends + 1, strongest)


@wrong.detail
def leaves_out_the_time(weights, n_arrows, H, W):
    """You give row and column, as for a single image. The positions are those of a video: the time comes first, and is 0 for
    an image."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place // W, place % W], dim=-1), strongest)


@wrong.detail
def divides_by_the_height_and_multiplies(weights, n_arrows, H, W):
    """You write place // H * W, which divides by H and multiplies by W. The time is place // (H * W)."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place // H * W, place // W % H, place % W], -1), strongest)


@wrong.detail
def divides_without_rounding(weights, n_arrows, H, W):
    """You divide by `/`, which gives fractions. Time and row are whole numbers, those of full frames and rows: `//`."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place / (H * W), place / W % H, place % W], dim=-1), strongest)


@wrong.part
def knows_one_frame_only(weights, n_arrows, H, W):
    """You look the ends up in a table of a single frame. A video has several, and their positions are counted on."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.cartesian_prod(torch.arange(1), torch.arange(H), torch.arange(W))[place], strongest)


@wrong.detail
def counts_column_by_column(weights, n_arrows, H, W):
    """You count the positions of a frame column by column. They are counted row by row: the row is place // W % H."""
    strongest, place = weights.topk(n_arrows, dim=-1)
    return Arrows(torch.stack([place // (H * W), place % H, place % (H * W) // H], -1), strongest)


@wrong.part
def takes_the_strongest_of_each_key(weights, n_arrows, H, W):
    """You look for the largest weights of each key, in the columns. Each query has its own arrows: the largest of its row."""
    return _arrows(weights.mT, n_arrows, H, W)


@right
def by_sorting(weights, n_arrows, H, W):
    """All positions in falling order; first the time and what is left of it, then row and column of that."""
    falling, place = weights.sort(dim=-1, descending=True)
    place = place[..., :n_arrows]
    time, within = place.div(H * W, rounding_mode="floor"), place.remainder(H * W)
    return torch.stack((time, within // W, within - within // W * W), -1), falling[..., :n_arrows]


@right
def by_looking_it_up(weights, n_arrows, H, W):
    """A table of the ends of all positions, made once, and read at those that were found."""
    T = weights.shape[-1] // (H * W)
    table = torch.cartesian_prod(torch.arange(T), torch.arange(H), torch.arange(W))
    place = weights.argsort(dim=-1, descending=True)[..., :n_arrows]
    return Arrows(table[place], weights.gather(-1, place))


@right
def by_torchs_own(weights, n_arrows, H, W):
    """torch's function for the indices of a flat number."""
    best = torch.topk(weights, n_arrows)
    return Arrows(torch.stack(torch.unravel_index(best.indices, (weights.shape[-1] // (H * W), H, W)), dim=-1), best.values)


@right
def one_after_the_other(weights, n_arrows, H, W):
    """The strongest, then the strongest of what is left; the ends by three digits, of base W, H and the rest."""
    left, ends, kept = weights.detach().clone(), [], []
    for _ in range(n_arrows):
        place = left.argmax(-1, keepdim=True)
        left.scatter_(-1, place, -torch.inf)
        kept.append(weights.gather(-1, place))
        rest, column = place // W, place % W
        ends.append(torch.cat([rest // H, rest % H, column], dim=-1))
    return torch.stack(ends, dim=-2), torch.cat(kept, dim=-1)


@stranger
def arrows_from_the_other_corner(weights, n_arrows, H, W):
    return strongest_arrows(weights.flip(-1), n_arrows, H, W)


@stranger
def arrows_of_squares(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends, strongest**2)


@stranger
def arrows_of_the_second_picture_onwards(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends + torch.tensor([1, 0, 0]), strongest)


@stranger(makes=[exchanges_row_and_column])
def arrows_as_x_and_y(weights, n_arrows, H, W):
    strongest, place = torch.topk(weights, n_arrows)
    time, row, column = torch.unravel_index(place, (weights.shape[-1] // (H * W), H, W))
    return Arrows(torch.stack([time, column, row], dim=-1), strongest)


@stranger(makes=[ends_with_the_strongest, counts_from_one])
def arrows_reversed_and_from_one(weights, n_arrows, H, W):
    ends, strongest = strongest_arrows(weights, n_arrows, H, W)
    return Arrows(ends.flip(-2) + 1, strongest.flip(-1))


def _drawn(draw: Draw, *batch: int, T: int = 1, n_arrows: int = 3) -> Call:
    """Rows of weights over T maps; as many queries as no map has rows, columns or positions."""
    H, W, N_q = draw.sizes(3)
    return draw.normal(*batch, N_q, T * H * W, scale=2.0).softmax(-1), n_arrows, H, W


def _all_of_them(draw: Draw) -> Call:
    weights, _, H, W = _drawn(draw, 2)
    return weights, H * W, H, W


exercise = Exercise(
    id="09.5",
    title="The strongest arrows",
    reference=strongest_arrows,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape("Each query has n arrows, with three integers and a weight for each.", lambda draw: [_drawn(draw, 2)]),
        Property(
            "weights",
            "The weights of each query's arrows are its largest, in descending order.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1, n_arrows=1)],
            right_result(1),
            points=2,
        ),
        Property(
            "image",
            "In an image the arrows end at (0, row, column).",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(0),
            points=2,
        ),
        Property(
            "video",
            "In a video they end at (time, row, column).",
            lambda draw: [_drawn(draw, 1, T=5), _drawn(draw, 2, T=3, n_arrows=6)],
            right_result(0),
            points=2,
            needs=("image",),
        ),
        Property("all", "There may be as many arrows as positions.", lambda draw: [_all_of_them(draw)], needs=("image",)),
        Property(
            "batch",
            "Each image is computed independently, with any number of batch axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3, T=2), _drawn(draw)],
            needs=("image", "weights"),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2, T=2)], needs=("image", "weights")),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "N serves the refusal of bad input alone, which the mutants leave out.": (
            "remove statement: N = weights.shape[-1]",
            "drop index: N = weights.shape",
            "drop attribute: weights[-1]",
            "drop sign: weights.shape[1]",
            "detach: weights.detach().shape",
            "constant: weights.shape[-2]",
            "constant: weights.shape[-0]",
        ),
        "topk searches the last axis by itself; whole numbers carry no gradient.": (
            "drop keyword: strongest, position = weights.topk(n_arrows)",
            "detach: position.detach() // (H * W)",
            "detach: position.detach() % W",
            "detach: position.detach() // W",
            "detach: [time.detach(), row, column]",
            "detach: [time, row.detach(), column]",
            "detach: [time, row, column.detach()]",
        ),
    },
    hints=HINTS,
)
