"""Exercise 01.7, flip_flop_weights: what students answer, wrong and right. It is judged by what the unit remembers."""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives import lstm_step
from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()


def flip_flop_weights(d: int) -> tuple[Float[Tensor, "4 d"], Float[Tensor, "4 1"], Float[Tensor, "4"]]:
    """Set W, U and b of one LSTM unit by hand, such that it keeps the last marked bit.

    An input is d numbers: a bit, -1 or 1; a mark, 1 if the bit is to be stored and else 0; and d - 2 numbers of noise, each
    from N(0, 1).

    Args:
        d: size of an input, at least 2.

    Returns:
        W (4, d), U (4, 1) and b (4,), rows in torch's order i, f, g, o. From the first mark on, the state h has the sign of the
        last marked bit, and its size is above ½.

    Source: the gates of Hochreiter & Schmidhuber 1997 and Gers et al. 2000.
    """
    W, b = torch.zeros(4, d), torch.tensor([-10.0, 10.0, 0.0, 10.0])
    W[0, 1], W[1, 1], W[2, 0] = 20.0, -20.0, 10.0
    return W, torch.zeros(4, 1), b


HINTS = (
    "Make a table with two rows, *marked* and *not marked*, and a column for each of i, f and o: which gate is open (1), which"
    " is closed (0)? And what must the candidate g be?",
    "Each gate is the sigmoid of one line, w · x + b. For the input gate you need a large positive number where the mark is 1"
    " and a large negative one where it is 0: a bias of -10, and a weight of the mark that overcomes it. The forget gate is the"
    " mirror image. The candidate follows the bit, and the output gate needs a bias only.",
    "Start from `torch.zeros`. Row 0 is i, row 1 is f, row 2 is g, row 3 is o; column 0 is the bit, column 1 the mark. Four"
    " numbers of W and b are positive and two are negative, each 10 or 20 in size; all of U is 0.",
)

B, LONG = 64, 60
"""Sequences that a unit reads, and inputs without a mark after the last marked one."""


def _weights(d: int, i: float, f: float, g: float, o: float, mark: tuple[float, float] = (0.0, 0.0)) -> tuple:
    """Biases i, f, o, a candidate of g times the bit, and the weights of the mark in i and f."""
    W, b = torch.zeros(4, d), torch.tensor([i, f, 0.0, o])
    W[0, 1], W[1, 1], W[2, 0] = mark[0], mark[1], g
    return W, torch.zeros(4, 1), b


@wrong.part
def writes_every_bit(d):
    """Your input gate is open whether there is a mark or not, so unmarked bits are written, too. It must be closed without a
    mark: a negative bias, and a larger positive weight of the mark."""
    return _weights(d, 10.0, 10.0, 10.0, 10.0, (0.0, -20.0))


@wrong.part
def never_forgets(d):
    """Your forget gate is always open, as in the LSTM of 1997. The old bit stays when a new one is written: 1 and -1 add up
    to 0. A mark has to close it."""
    return _weights(d, -10.0, 10.0, 10.0, 10.0, (20.0, 0.0))


@wrong.part
def keeps_half_of_the_cell(d):
    """Your forget gate is half open without a mark: each step halves the cell, and after sixty steps nothing is left. Give it a
    positive bias."""
    return _weights(d, -10.0, 0.0, 10.0, 10.0, (20.0, -20.0))


@wrong.idea
def opens_the_forget_gate_by_the_mark(d):
    """Your forget gate is open where there is a mark, and closed elsewhere. Its name misleads: f is the share that is *kept*.
    Exchange plus and minus."""
    return _weights(d, -10.0, -10.0, 10.0, 10.0, (20.0, 20.0))


@wrong.part
def has_no_biases(d):
    """Your biases are 0: without a mark each gate is σ(0) = ½, so the unit writes half of every bit and forgets half of its
    cell. The biases decide what happens without a mark."""
    return _weights(d, 0.0, 0.0, 10.0, 0.0, (20.0, -20.0))


@wrong.part
def shows_half_of_the_cell(d):
    """Your output gate is half open: h is only half of tanh(c), which is below ½. A positive bias opens it."""
    return _weights(d, -10.0, 10.0, 10.0, 0.0, (20.0, -20.0))


@wrong.idea
def stores_the_mark(d):
    """Your candidate follows the mark, and not the bit: every marked input writes a 1. The mark says *when* to write; *what* is
    written is the bit."""
    W, U, b = flip_flop_weights(d)
    W[2] = W[2].roll(1)
    return W, U, b


@wrong.part
def closes_the_input_gate_by_the_mark(d):
    """Your input gate is closed by the mark and open without it: you store everything but the marked bits."""
    return _weights(d, 10.0, 10.0, 10.0, 10.0, (-20.0, -20.0))


@wrong.detail
def takes_the_candidate_for_the_output_gate(d):
    """Your rows are in the order i, f, o, g. Here they are stored in torch's order: i, f, g, o."""
    W, U, b = flip_flop_weights(d)
    return W[[0, 1, 3, 2]], U, b[[0, 1, 3, 2]]


@wrong.detail
def sets_small_numbers(d):
    """Your numbers are positive and negative in the right places, and too small: σ(±1) is 0.73 and 0.27, so no gate is really
    open or closed. Take numbers around 10."""
    W, U, b = flip_flop_weights(d)
    return W / 10, U, b / 10


@wrong.detail
def makes_a_column_of_the_biases(d):
    """Your biases are a column, (4, 1). b has one axis: a number for each row of W."""
    W, U, b = flip_flop_weights(d)
    return W, U, b[:, None]


@wrong.detail
def knows_two_inputs_only(d):
    """Your W has two columns, for the bit and the mark. An input has d numbers: the columns of the noise are there, too, and
    hold zeros."""
    return flip_flop_weights(2)


@wrong.detail
def transposes_the_weights(d):
    """Your W is (d, 4). Matrices are stored as (out, in): a row for each of i, f, g and o."""
    W, U, b = flip_flop_weights(d)
    return W.mT, U.mT, b


@right
def writes_lists(d):
    """The four rows as lists, with zeros for the noise."""
    rows = [[0, 30], [0, -30], [5, 0], [0, 0]]
    W = torch.tensor([row + [0] * (d - 2) for row in rows]).float()
    return W, torch.zeros(4, 1), torch.tensor([-15.0, 15.0, 0.0, 20.0])


@right
def moves_the_rows_of_zeros(d):
    """One column for each of the two inputs that matter."""
    bit, mark = torch.tensor([0.0, 0, 12, 0]), torch.tensor([25.0, -25, 0, 0])
    W = torch.cat([bit[:, None], mark[:, None], torch.zeros(4, d - 2)], dim=1)
    return W, torch.zeros(4, 1), torch.tensor([-12.0, 12.0, 0.0, 12.0])


@right
def opens_the_output_gate_by_the_state(d):
    """The output gate is open whatever is stored, and the state adds to the candidate what it has the sign of already."""
    W, _, b = _weights(d, -20.0, 20.0, 20.0, 20.0, (40.0, -40.0))
    return W, torch.tensor([[0.0], [0.0], [3.0], [2.0]]), b


@right
def mirrors_the_input_gate(d):
    """The forget gate is one minus the input gate: a weight and a bias of the opposite sign."""
    i = torch.zeros(d)
    i[1] = 16.0
    g = torch.zeros(d)
    g[0] = 8.0
    return torch.stack([i, -i, g, 0 * i]), torch.zeros(4, 1), torch.tensor([-8.0, 8.0, 0.0, 8.0])


@stranger
def flip_flop_of_random_weights(d):
    return torch.randn(4, d), torch.randn(4, 1), torch.randn(4)


@stranger
def flip_flop_that_listens_to_noise(d):
    W, U, b = flip_flop_weights(d)
    W[0, 2:] = 10.0
    return W + (0 if d > 2 else 1), U, b


@stranger
def flip_flop_of_zeros(d):
    return torch.zeros(4, d), torch.zeros(4, 1), torch.zeros(4)


@stranger
def flip_flop_that_stores_the_opposite(d):
    W, U, b = flip_flop_weights(d)
    W[2] = -W[2]
    return W, U, b


@stranger
def flip_flop_that_leaks(d):
    return _weights(d, -10.0, 2.0, 10.0, 10.0, (20.0, -20.0))


@stranger(makes=[never_forgets])
def flip_flop_of_1997(d):
    W = torch.zeros(4, d)
    W[0, 1] = 20.0
    W[2, 0] = 10.0
    return W, torch.zeros(4, 1), torch.tensor([-10.0, 10.0, 0.0, 10.0])


@stranger(makes=[writes_every_bit, shows_half_of_the_cell])
def flip_flop_with_two_mistakes(d):
    return _weights(d, 10.0, 10.0, 10.0, 0.0, (0.0, -20.0))


def _sizes(draw: Draw) -> list[Call]:
    """Without noise, and with some."""
    return [(2,), (2 + draw.sizes(1)[0],)]


def _inputs(T: int, d: int) -> torch.Tensor:
    """Draw inputs (B, T, d) without a mark: bits, marks of 0, and noise."""
    x = torch.randn(B, T, d, generator=torch.Generator().manual_seed(T))
    x[..., 0], x[..., 1] = torch.where(x[..., 0] > 0, 1.0, -1.0), 0.0
    return x


def _remembered(outcome: Outcome, x: torch.Tensor) -> float:
    """The share of the sequences x (B, T, d) at whose end h has the sign of the last marked bit, and is above ½ in size."""
    h = c = x.new_zeros(B, 1)
    for x_t in x.unbind(1):
        h, c = lstm_step(x_t, h, c, *outcome.results)
    last = (x[..., 1] * torch.arange(1, x.shape[1] + 1)).argmax(1)
    return (h[:, 0] * x[torch.arange(B), last, 0] > 0.5).float().mean().item()


def _judged(what: str, before: int, after: int):
    """Make a judge: a marked bit, others before it, of which some are marked, and others after it, of which none is."""

    def judge(expected: Outcome, got: Outcome) -> Failure | None:
        if (failure := same_shapes(expected, got)) is not None:
            return failure
        x = _inputs(before + 1 + after, expected.results[0].shape[1])
        x[:, :before:3, 1] = 1.0
        x[:, before, 1] = 1.0
        share = _remembered(got, x)
        return None if share == 1 else Failure(f"{what}, h has the right sign and size in {share:.0%} of {B} sequences.")

    return judge


exercise = Exercise(
    id="01.7",
    title="One LSTM unit by hand",
    reference=flip_flop_weights,
    results=("W", "U", "b"),
    properties=(
        runs_on(_sizes),
        has_shape("W (4, d), U (4, 1) and b (4,).", _sizes),
        Property(
            "write",
            "A marked bit is written and shown: h has its sign, and a size above ½.",
            _sizes,
            _judged("After one marked bit", 0, 0),
            points=2,
            drawn=True,
        ),
        Property(
            "keep",
            "After sixty bits without a mark it is still there.",
            _sizes,
            _judged("After a marked bit and sixty others", 0, LONG),
            points=3,
            needs=("write",),
            drawn=True,
        ),
        Property(
            "overwrite",
            "Another marked bit takes its place.",
            _sizes,
            _judged("After several marked bits", 9, 2),
            points=2,
            needs=("write",),
            drawn=True,
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Any large numbers will do, positive and negative in the same places.": (
            "constant: W[0, 1], W[1, 1], W[2, 0] = (21.0, -20.0, 10.0)",
            "constant: W[0, 1], W[1, 1], W[2, 0] = (19.0, -20.0, 10.0)",
            "constant: W[0, 1], W[1, 1], W[2, 0] = (20.0, -20.0, 11.0)",
            "constant: W[0, 1], W[1, 1], W[2, 0] = (20.0, -20.0, 9.0)",
            "constant: W[0, 1], W[1, 1], W[2, 0] = (20.0, -21.0, 10.0)",
            "constant: W[0, 1], W[1, 1], W[2, 0] = (20.0, -19.0, 10.0)",
            "constant: [-10.0, 11.0, 0.0, 10.0]",
            "constant: [-10.0, 9.0, 0.0, 10.0]",
            "constant: [-10.0, 10.0, 1.0, 10.0]",
            "constant: [-10.0, 10.0, -1.0, 10.0]",
            "constant: [-10.0, 10.0, 0.0, 11.0]",
            "constant: [-10.0, 10.0, 0.0, 9.0]",
            "constant: [-11.0, 10.0, 0.0, 10.0]",
            "constant: [-9.0, 10.0, 0.0, 10.0]",
        ),
    },
    hints=HINTS,
)
