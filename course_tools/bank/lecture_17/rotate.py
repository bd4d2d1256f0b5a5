"""Exercise 17.1, rotate: what students answer, wrong and right."""

import torch

from course_lib.attention import rotary_speeds, rotate
from course_tools.checks.comparisons import Failure, relative_error, same_gradients, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Turn one pair on paper: (1, 0) by the angle a becomes (cos a, sin a), and (0, 1) becomes (-sin a, cos a). What "
        "becomes of (x, y), which is x times the first and y times the second?"
    ),
    (
        "First make the angles, a row for each position and a column for each pair: (T, d_k / 2). Then split x into its even "
        "features and its odd ones, both (*batch, T, d_k / 2). Which two products give the new even features, and which "
        "the odd?"
    ),
    (
        "Positions from `start` on, as a column, times the speeds are the angles. As for one pair on paper, the new "
        "even feature is the old even one times the cosine minus the old odd one times the sine, and the new odd one "
        "has the two products that are left, added. Stack both on a new last axis and flatten it, so that pairs stand "
        "side by side again."
    ),
)


def _parts(x, speeds, start=0, sign=1):
    """The even and the odd features, and cosine and sine of the angles."""
    angle = sign * (start + torch.arange(x.shape[-2]))[:, None] * speeds
    return x[..., 0::2].float(), x[..., 1::2].float(), angle.cos(), angle.sin()


def _side_by_side(even, odd, dtype):
    return torch.stack([even, odd], dim=-1).flatten(-2).to(dtype)


@wrong.idea
def adds_sines_and_cosines(x, speeds, start=0):
    """You add sines and cosines of the position to the features, as the first Transformer does to its embeddings. Here nothing
    is added: the features themselves are turned, and their length stays the same."""
    even, odd, cos, sin = _parts(x, speeds, start)
    return _side_by_side(even + sin, odd + cos, x.dtype)


@wrong.idea
def turns_all_positions_alike(x, speeds, start=0):
    """You turn every position by the speeds themselves. The angle of a position is its number times the speed: position 0 is
    not turned at all, position 2 twice as far as position 1."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return _side_by_side(even * speeds.cos() - odd * speeds.sin(), even * speeds.sin() + odd * speeds.cos(), x.dtype)


@wrong.idea
def multiplies_by_the_cosine(x, speeds, start=0):
    """You multiply both features of a pair by the cosine alone. That shrinks them; turning mixes the two of a pair: each new
    feature takes a share of both."""
    even, odd, cos, _ = _parts(x, speeds, start)
    return _side_by_side(even * cos, odd * cos, x.dtype)


@wrong.part
def forgets_the_minus(x, speeds, start=0):
    """Both of your products are added. One of the four has a minus, even · cos - odd · sin: without it the pair is not turned,
    and its length changes."""
    even, odd, cos, sin = _parts(x, speeds, start)
    return _side_by_side(even * cos + odd * sin, even * sin + odd * cos, x.dtype)


@wrong.part
def turns_the_odd_by_the_new_even(x, speeds, start=0):
    """You write the new even features over the old ones, and then take them for the odd ones. Both new features of a pair are
    made of the two old ones: compute both before you write any."""
    even, odd, cos, sin = _parts(x, speeds, start)
    even = even * cos - odd * sin
    return _side_by_side(even, even * sin + odd * cos, x.dtype)


@wrong.part
def turns_in_place(x, speeds, start=0):
    """You write into x itself. The new even features are there before the odd ones are made of them, and the caller's vectors
    are gone: compute both products first, into a new tensor."""
    _, _, cos, sin = _parts(x, speeds, start)
    x[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    x[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return x


@wrong.part
def mixes_two_orders_of_pairs(x, speeds, start=0):
    """You repeat each angle for two neighbours, and mix each feature with the one half a vector away. The two belong to
    different orders of the pairs. Here the pairs are neighbours: the partner of x_2i is x_2i+1."""
    angle = ((start + torch.arange(x.shape[-2]))[:, None] * speeds).repeat_interleave(2, dim=-1)
    front, back = x.chunk(2, dim=-1)
    return (x * angle.cos() + torch.cat([-back, front], dim=-1) * angle.sin()).to(x.dtype)


@wrong.part
def takes_the_speeds_of_the_paper(x, speeds, start=0):
    """You compute the speeds from d_k and a base of 10,000, and never use those that are passed in. Models for long texts have
    other ones."""
    return rotate(x, rotary_speeds(x.shape[-1]), start)


@wrong.detail
def counts_the_heads(x, speeds, start=0):
    """You count the positions along axis -3, which holds the heads or the sequences. They are the last axis but one:
    `x.shape[-2]`."""
    angle = (start + torch.arange(x.shape[-3]))[:, None] * speeds
    even, odd = x[..., 0::2], x[..., 1::2]
    return _side_by_side(even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos(), x.dtype)


@wrong.detail
def pairs_the_halves(x, speeds, start=0):
    """You pair each feature with the one half a vector away, (x_0, x_d/2), as the code of many open models does. Here the pairs
    are neighbours, (x_0, x_1), (x_2, x_3), …, as in the paper."""
    angle = (start + torch.arange(x.shape[-2]))[:, None] * speeds
    front, back = x.float().chunk(2, dim=-1)
    turned = front * angle.cos() - back * angle.sin(), front * angle.sin() + back * angle.cos()
    return torch.cat(turned, dim=-1).to(x.dtype)


@wrong.detail
def leaves_even_and_odd_apart(x, speeds, start=0):
    """Your pairs are turned rightly, but all even features come first and all odd ones after them. Each belongs where it stood:
    stack the two on a new last axis and flatten it."""
    even, odd, cos, sin = _parts(x, speeds, start)
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1).to(x.dtype)


@wrong.detail
def turns_clockwise(x, speeds, start=0):
    """You turn clockwise: the minus stands before the other sine. (1, 0) becomes (cos a, sin a). Scores would be the same if
    all turned so, but keys of a trained model would not fit to your queries."""
    even, odd, cos, sin = _parts(x, speeds, start, sign=-1)
    return _side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype)


@wrong.detail
def counts_positions_from_one(x, speeds, start=0):
    """You turn the first row by (start + 1) θ. The first row has position `start`: with start = 0 it is not turned at all."""
    return rotate(x, speeds, start + 1)


@wrong.detail
def forgets_the_start(x, speeds, start=0):
    """You count from 0 whatever `start` is. When a text is written token by token, each call holds one row: all would get
    position 0, and nothing would be turned."""
    return rotate(x, speeds)


@wrong.detail
def starts_the_other_way(x, speeds, start=0):
    """You subtract `start` from the positions. The first row has position `start`, and the next one start + 1."""
    return rotate(x, speeds, -start)


@wrong.detail
def turns_by_the_start_of_all_rows(x, speeds, start=0):
    """You multiply the number of a row by `start`, or take `start` in place of it: where it is passed, the rows have wrong
    positions. Row t has position start + t."""
    even, odd, cos, sin = _parts(x, speeds) if not start else _parts(x, start * speeds)
    return _side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype)


@wrong.case
def counts_on_one_batch_axis(x, speeds, start=0):
    """You take the second axis for the positions. There may be no axis in front of them, or two, as with heads: they are the
    last axis but one, `x.shape[-2]`."""
    angle = (start + torch.arange(x.shape[1]))[:, None] * speeds
    even, odd, cos, sin = x[..., 0::2].float(), x[..., 1::2].float(), angle.cos(), angle.sin()
    return _side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype)


@wrong.case
def takes_the_first_axis_for_the_positions(x, speeds, start=0):
    """You take the first axis for the positions. With a batch in front it is the number of sequences: the positions are the
    last axis but one, `x.shape[-2]`."""
    angle = (start + torch.arange(x.shape[0]))[:, None] * speeds
    even, odd, cos, sin = x[..., 0::2].float(), x[..., 1::2].float(), angle.cos(), angle.sin()
    return _side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype)


@wrong.case
def writes_over_its_input(x, speeds, start=0):
    """You write the turned features into x itself. Your result is right, but the caller's vectors are gone: make a new
    tensor."""
    even, odd, cos, sin = _parts(x, speeds, start)
    x.copy_(_side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype))
    return x


@wrong.case
def rounds_the_angles(x, speeds, start=0):
    """You compute positions or angles in the dtype of x. bfloat16 keeps eight binary digits, so that position 257 becomes 256:
    make the angles in float32, and convert the result."""
    position = start + torch.arange(x.shape[-2]).to(x.dtype)
    angle = position[:, None] * speeds.to(x.dtype)
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], angle.cos(), angle.sin()
    return _side_by_side(even * cos - odd * sin, even * sin + odd * cos, x.dtype)


@wrong.case
def returns_float32(x, speeds, start=0):
    """Your result is float32 whatever the dtype of x is: queries and keys would then not fit to values in bfloat16. Convert the
    result to the dtype of x."""
    return rotate(x.float(), speeds, start)


@wrong.detail
def multiplies_positions_by_speeds(x, speeds, start=0):
    """You multiply the positions by the speeds entry by entry. Each position turns each pair by an angle of its own: make the
    positions a column, `[:, None]`, and the angles are a matrix (T, d_k / 2)."""
    angle = (start + torch.arange(x.shape[-2])) * speeds
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    turned = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return _side_by_side(*turned, x.dtype)


@wrong.case
def leaves_the_pairs_on_an_axis(x, speeds, start=0):
    """Your pairs stand on an axis of their own, (T, d_k / 2, 2). The result has the shape of x: flatten the last two axes."""
    return rotate(x, speeds, start).unflatten(-1, (-1, 2))


@wrong.part
def repeats_the_angles_for_halves(x, speeds, start=0):
    """You lay the angles out twice in a row, θ_1 … θ_n θ_1 … θ_n, which belongs to pairs half a vector apart. Your pairs are
    neighbours: both features of a pair need the same angle, θ_1 θ_1 θ_2 θ_2 …"""
    even, odd, cos, sin = _parts(x, speeds, start)
    cos, sin = torch.cat([cos, cos], dim=-1), torch.cat([sin, sin], dim=-1)
    return (x * cos + _side_by_side(-odd, even, x.dtype) * sin).to(x.dtype)


@wrong.detail
def does_not_repeat_the_angles(x, speeds, start=0):
    """You multiply all d_k features by d_k / 2 angles. Both features of a pair need the same one: repeat each, or take even and
    odd features apart."""
    even, odd, cos, sin = _parts(x, speeds, start)
    return (x * cos + _side_by_side(-odd, even, x.dtype) * sin).to(x.dtype)


@wrong.case
def makes_complex_numbers_of_every_dtype(x, speeds, start=0):
    """You make complex numbers of x in its own dtype. torch has none for bfloat16: convert x to float32 first, and the result
    back."""
    angle = torch.arange(start, start + x.shape[-2])[:, None] * speeds
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@right
def as_complex_numbers(x, speeds, start=0):
    """Each pair is a complex number; multiplying it by e^(iφ) turns it by φ."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    position = torch.arange(start, start + x.shape[-2], device=x.device)
    angle = torch.outer(position.float(), speeds.float())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).type_as(x)


@right
def by_matrices(x, speeds, start=0):
    """A 2 × 2 rotation matrix for each position and pair, and one einsum."""
    angle = torch.arange(start, start + x.shape[-2]).double().unsqueeze(-1) * speeds.double()
    rows = torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)
    pairs = x.double().reshape(*x.shape[:-1], -1, 2)
    return torch.einsum("tiab,...tib->...tia", torch.stack(rows, -2), pairs).reshape(x.shape).to(x.dtype)


@right
def with_repeated_angles(x, speeds, start=0):
    """Angles repeated for both features of a pair, and the pair with its partners exchanged; no gradient of the table."""
    with torch.no_grad():
        angle = (torch.arange(x.size(-2), dtype=torch.float32) + start)[:, None] * speeds.repeat_interleave(2)
        cos, sin = torch.cos(angle), torch.sin(angle)
    exchanged = torch.empty_like(x)
    exchanged[..., ::2], exchanged[..., 1::2] = -x[..., 1::2], x[..., ::2]
    return (x * cos + exchanged * sin).to(x.dtype)


@right
def row_by_row(x, speeds, start=0):
    """A loop over the positions and the pairs, each turned by itself."""
    turned = torch.zeros_like(x)
    for t in range(x.shape[-2]):
        for i, speed in enumerate(speeds):
            cos, sin = torch.cos((start + t) * speed), torch.sin((start + t) * speed)
            first, second = x[..., t, 2 * i].float(), x[..., t, 2 * i + 1].float()
            turned[..., t, 2 * i] = (first * cos - second * sin).to(x.dtype)
            turned[..., t, 2 * i + 1] = (first * sin + second * cos).to(x.dtype)
    return turned


@stranger
def rotation_of_the_first_half(x, speeds, start=0):
    n = x.shape[-1] // 4 * 2
    return torch.cat([rotate(x[..., :n], speeds[: n // 2], start), x[..., n:]], dim=-1) if n else x.clone()


@stranger
def rotation_with_the_speeds_reversed(x, speeds, start=0):
    return rotate(x, speeds.flip(0), start)


@stranger
def rotation_by_half_the_angle(x, speeds, start=0):
    return rotate(x, speeds / 2, start)


@stranger
def rotation_without_a_gradient(x, speeds, start=0):
    return rotate(x.detach(), speeds, start)


@stranger(makes=[turns_clockwise])
def rotation_by_conjugates(x, speeds, start=0):
    return as_complex_numbers(x, -speeds, start)


@stranger(makes=[pairs_the_halves, forgets_the_start])
def rotation_of_halves_from_the_origin(x, speeds, start=0):
    angle = torch.arange(x.shape[-2])[:, None] * torch.cat([speeds, speeds])
    front, back = x.chunk(2, dim=-1)
    return (x * angle.cos() + torch.cat([-back, front], dim=-1) * angle.sin()).to(x.dtype)


def _rows(draw: Draw, *batch: int, n: int | None = None, T: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of n pairs, and a speed for each pair, from slow to more than a radian."""
    drawn, n_pairs = draw.sizes(2)
    n = n_pairs if n is None else n
    return draw.normal(*batch, drawn if T is None else T, 2 * n), 0.1 + draw.uniform(n)


def _any(draw: Draw) -> list[Call]:
    return [_rows(draw)]


def _started(draw: Draw) -> list[Call]:
    """As in a cached step, in a chunk of a longer text, and before the origin."""
    return [(*_rows(draw, T=1), 7), (*_rows(draw), 5), (*_rows(draw, 2), -3)]


def _far_in_bfloat16(draw: Draw) -> list[Call]:
    x, speeds = _rows(draw, T=3)
    return [(x.bfloat16(), speeds, 300)]


def _keeps_the_dtype(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where the result has the dtype of the reference's, and its values up to two of its digits."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    want, have = expected.results[0], got.results[0]
    if want.dtype != have.dtype:
        return Failure(f"The result should be {want.dtype}, as x is, but it is {have.dtype}.")
    error = relative_error(want, have)
    return None if error < 0.02 else Failure("The result is wrong.", f"The largest error is {error:.0%} of the largest number.")


exercise = Exercise(
    id="17.1",
    title="Turning queries and keys",
    reference=rotate,
    properties=(
        runs_on(_any),
        has_shape("A turned vector for each vector.", _any),
        Property("origin", "Position 0 is not turned.", lambda draw: [_rows(draw, T=1), _rows(draw, T=1, n=1)]),
        Property(
            "one pair",
            "With two features, position t turns the pair by t times its speed, counter-clockwise.",
            lambda draw: [_rows(draw, n=1, T=2), _rows(draw, n=1)],
            points=2,
        ),
        Property(
            "pairs",
            "Neighbours form a pair, and each pair has its own speed.",
            lambda draw: [_rows(draw, n=2), _rows(draw, n=5)],
            points=3,
            needs=("one pair",),
        ),
        Property("start", "The first row has position `start`.", _started, points=2, needs=("one pair",)),
        Property(
            "batch",
            "Each sequence and each head is turned alike.",
            lambda draw: [_rows(draw, 2), _rows(draw, 2, 3)],
            needs=("pairs",),
        ),
        Property(
            "half precision",
            "The result has the dtype of x, and its angles are not rounded to it.",
            _far_in_bfloat16,
            _keeps_the_dtype,
            needs=("start",),
        ),
        Property(
            "gradient",
            "The gradient with respect to x is right.",
            lambda draw: [(torch.zeros_like(x), speeds, 2) for x, speeds in (_rows(draw), _rows(draw, 2))],
            same_gradients,
            needs=("pairs", "start"),
        ),
        leaves_inputs(lambda draw: [_rows(draw, 2), (*_rows(draw), 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "No input is wider than float32, and a product of bfloat16 and float32 is float32.": (
            "drop call: wide = torch.float32",
            "swap arguments: wide = torch.promote_types(torch.float32, x.dtype)",
            "other name: speeds.dtype",
            "drop call: position[:, None] * speeds",
            "drop argument: position[:, None] * speeds.to()",
            "other name: speeds.to(speeds)",
            "drop call: even, odd = (x[..., 0::2], x[..., 1::2].to(wide))",
            "drop argument: even, odd = (x[..., 0::2].to(), x[..., 1::2].to(wide))",
            "drop call: even, odd = (x[..., 0::2].to(wide), x[..., 1::2])",
            "drop argument: even, odd = (x[..., 0::2].to(wide), x[..., 1::2].to())",
            *(
                f"other name: x[..., {first}::2].to({other})"
                for first in (0, 1)
                for other in ("angle", "cos", "sin", "x", "speeds")
            ),
        ),
        "Of these tensors only the dtype, the size or the device is read, and all are on one device.": (
            "drop attribute: torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x)",
            "detach: x.detach().dtype",
            "detach: x.detach().dtype (2)",
            "detach: x.detach().shape",
            "detach: x.detach().device",
            "other name: speeds.device",
            "drop keyword: start + torch.arange(x.shape[-2])",
        ),
        "The speeds are not learned: no gradient of the angles is asked.": (
            "detach: position.detach()[:, None]",
            "detach: speeds.detach().to",
            "detach: angle.detach().cos",
            "detach: angle.detach().sin",
            "detach: even * cos.detach()",
            "detach: odd * sin.detach()",
            "detach: even * sin.detach()",
            "detach: odd * cos.detach()",
        ),
    },
    hints=HINTS,
)
