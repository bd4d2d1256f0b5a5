"""Exercise 06.1, step_encoding: what students answer, wrong and right."""

import math

import torch

from course_lib.models import step_encoding
from course_lib.primitives import sinusoidal_positions
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write down the first two features of position 0 at step 1, and of position 1 at step 1. Which part of each comes "
        "from the position, and which from the step? Which of the two is the same for every row?"
    ),
    (
        "The step is put into the same sines and cosines as a position, which gives one row of d_model numbers. This row is "
        "added to every row of the positions."
    ),
    (
        "Both encodings come from `sinusoidal_positions`: one of the T positions, the other of the steps. Steps are "
        "counted from 1 and rows from 0, so the table of steps needs one row more. A single row is added to all T by "
        "broadcasting."
    ),
)


def _row(step, d_model, device=None):
    """The sinusoids of one step, (d_model,)."""
    return sinusoidal_positions(step + 1, d_model, device=device)[step]


@wrong.idea
def knows_no_step(T, d_model, step, device=None):
    """You encode the position only. The weights are shared by all steps, so with your encoding all steps are the same
    function."""
    return sinusoidal_positions(T, d_model, device=device)


@wrong.idea
def knows_no_position(T, d_model, step, device=None):
    """You encode the step only, the same row for every position. Attention is independent of the order, so yours treats the
    tokens as a set."""
    return _row(step, d_model, device).expand(T, d_model)


@wrong.detail
def counts_steps_from_zero(T, d_model, step, device=None):
    """You take the row of step - 1. Steps count from 1, and the first of them has the sinusoids of 1; rows count from 0, so the
    row of step t has the index t."""
    return sinusoidal_positions(T, d_model, device=device) + _row(step - 1, d_model, device)


@wrong.detail
def counts_one_step_too_far(T, d_model, step, device=None):
    """You take the row of step + 1. To have the row of a step you need step + 1 rows, but its index is the step itself."""
    return sinusoidal_positions(T, d_model, device=device) + _row(step + 1, d_model, device)


@wrong.idea
def encodes_the_sum(T, d_model, step, device=None):
    """You add the step to the position and take the sinusoids of the sum. Position 3 at step 1 is then equal to position 2
    at step 2; encode both separately, and add the encodings."""
    return sinusoidal_positions(T + step, d_model, device=device)[step:]


@wrong.part
def multiplies_the_two(T, d_model, step, device=None):
    """You multiply the two encodings. Where either is 0 the other is lost, as at position 0, whose sines are 0; the two are
    added."""
    return sinusoidal_positions(T, d_model, device=device) * _row(step, d_model, device)


@wrong.detail
def subtracts_the_step(T, d_model, step, device=None):
    """You subtract the encoding of the step. It is added, as the encoding of the position is added to the token."""
    return sinusoidal_positions(T, d_model, device=device) - _row(step, d_model, device)


@wrong.detail
def averages_the_two(T, d_model, step, device=None):
    """You take the mean of the two encodings, half of what is asked for. They are added, and values in -2…2 do no harm."""
    return (sinusoidal_positions(T, d_model, device=device) + _row(step, d_model, device)) / 2


@wrong.part
def joins_the_two(T, d_model, step, device=None):
    """You put the two encodings side by side, 2 · d_model features wide. The result is added to states of d_model features:
    add one encoding to the other."""
    of_step = _row(step, d_model, device).expand(T, d_model)
    return torch.cat([sinusoidal_positions(T, d_model, device=device), of_step], dim=1)


@wrong.part
def moves_the_step_along_the_places(T, d_model, step, device=None):
    """You take another step for each position: `step` for the first, the next for the second, and so on. All positions are
    at the same step; one row is added to all."""
    return sinusoidal_positions(T, d_model, device=device) + sinusoidal_positions(T + step, d_model, device=device)[step:]


@wrong.detail
def lists_the_sines_before_the_cosines(T, d_model, step, device=None):
    """Your first half of the features holds all sines and the second half all cosines. As in lecture 05 they alternate: a
    sine at 2i, its cosine at 2i + 1."""
    right = sinusoidal_positions(T, d_model, device=device) + _row(step, d_model, device)
    return torch.cat([right[:, 0::2], right[:, 1::2]], dim=1)


@wrong.part
def adds_the_bare_step(T, d_model, step, device=None):
    """You add the number of the step itself to every feature. It grows without bound; the step is encoded by the same sines
    and cosines as a position."""
    return sinusoidal_positions(T, d_model, device=device) + step


@wrong.detail
def counts_positions_from_one(T, d_model, step, device=None):
    """You count positions from 1. Positions count from 0; only steps count from 1."""
    of_step = sinusoidal_positions(step + 1, d_model, device=device)[step]
    return sinusoidal_positions(T + 1, d_model, device=device)[1:] + of_step


@wrong.case
def ignores_the_device(T, d_model, step, device=None):
    """You create the encoding on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device`
    on to every tensor that you create."""
    return step_encoding(T, d_model, step)


@wrong.part
def looks_the_step_up_among_the_positions(T, d_model, step, device=None):
    """You take the row of the step from a table of T rows. There may be more steps than positions, and then there is no such
    row: the step needs a sinusoid of its own."""
    table = sinusoidal_positions(T, d_model, device)
    return table + table[step]


@wrong.part
def adds_a_table_of_all_steps(T, d_model, step, device=None):
    """You add a table with a row for each step. All positions get the same row, that of this step."""
    return sinusoidal_positions(T, d_model, device) + sinusoidal_positions(step, d_model, device)


@right
def entry_by_entry(T, d_model, step, device=None):
    """Every entry by itself, in Python's own numbers."""
    encoding = torch.empty(T, d_model, device=device)
    for i in range(T):
        for j in range(d_model):
            speed = 10_000 ** -((j - j % 2) / d_model)
            f = math.cos if j % 2 else math.sin
            encoding[i, j] = f(i * speed) + f(step * speed)
    return encoding


@right
def from_one_table(T, d_model, step, device=None):
    """One table, long enough for positions and step; the step's row is repeated."""
    table = sinusoidal_positions(max(T, step + 1), d_model, device=device)
    return table[:T] + table[[step] * T]


@right
def by_sums_of_angles(T, d_model, step, device=None):
    """sin a + sin b = 2 sin((a+b)/2) cos((a-b)/2), and cos a + cos b alike, in float64."""
    speed = 10_000 ** -(torch.arange(0, d_model, 2, dtype=torch.float64, device=device) / d_model)
    place = torch.arange(T, dtype=torch.float64, device=device)[:, None]
    middle, apart = (place + step) / 2 * speed, (place - step) / 2 * speed
    pairs = torch.stack([middle.sin(), middle.cos()], dim=-1) * (2 * apart.cos()[..., None])
    return pairs.reshape(T, d_model).float()


@right
def by_complex_numbers(T, d_model, step, device=None):
    """e^(i · angle) of positions and step added; imaginary parts are the sines, real parts the cosines."""
    speed = torch.exp(torch.arange(0, d_model, 2, device=device) * (-math.log(10_000) / d_model))
    angle = torch.outer(torch.arange(T, device=device).float(), speed)
    z = torch.polar(torch.ones_like(angle), angle) + torch.polar(torch.ones_like(speed), step * speed)
    return torch.view_as_real(z).flip(-1).flatten(1)


@stranger
def encoding_of_half_steps(T, d_model, step, device=None):
    return sinusoidal_positions(T, d_model, device) + sinusoidal_positions(step // 2 + 1, d_model, device)[-1]


@stranger
def encoding_upside_down(T, d_model, step, device=None):
    return step_encoding(T, d_model, step, device).flip(0)


@stranger
def encoding_that_takes_the_larger(T, d_model, step, device=None):
    return sinusoidal_positions(T, d_model, device).maximum(sinusoidal_positions(step + 1, d_model, device)[step])


@stranger(makes=[counts_steps_from_zero, averages_the_two])
def encoding_of_the_step_before_averaged(T, d_model, step, device=None):
    return (sinusoidal_positions(T, d_model, device) + sinusoidal_positions(step + 1, d_model, device)[step - 1]) / 2


def _sizes(draw: Draw) -> list[Call]:
    T, half, step = draw.sizes(3)
    return [(T, 2 * half, step), (2 * half + 1, 2 * T, step + 1)]


def _steps(T: int, d_model: int) -> list[Call]:
    return [(T, d_model, step) for step in (1, 2, 6)]


exercise = Exercise(
    id="06.1",
    title="Encode position and step",
    extra=True,
    reference=step_encoding,
    properties=(
        runs_on(_sizes),
        has_shape("One vector of d_model features for each position.", _sizes),
        Property(
            "first position",
            "At position 0 the encoding is that of the step, plus 1 in every cosine.",
            lambda _: _steps(1, 6),
        ),
        Property(
            "one pair",
            "With two features, position i at step t is (sin i + sin t, cos i + cos t).",
            lambda _: _steps(5, 2),
            points=2,
            needs=("first position",),
        ),
        Property("all features", "The same at every frequency.", _sizes, points=3, needs=("one pair",)),
        Property(
            "far", "Large positions and steps follow the same formula.", lambda _: [(300, 8, 40)], needs=("all features",)
        ),
        Property(
            "device",
            "The encoding is created on the device that is passed in.",
            lambda _: [(5, 6, 3, "meta")],
            same_shapes,
            needs=("all features",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A table with one more row has the same row at this step.": ("constant: step + 2",),
    },
    hints=HINTS,
)
