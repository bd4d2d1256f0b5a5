"""Exercise 13.2, difference_weights: what students answer, wrong and right."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.blocks import token_mixing
from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome, is_close

wrong, right, stranger = Answers(), Answers(), Answers()


def difference_weights(
    order: Int[Tensor, "N"], counterpart: Int[Tensor, "N"], gain: Float[Tensor, "N"]
) -> tuple[Float[Tensor, "N N"], Float[Tensor, "N"], Float[Tensor, "N N"], Float[Tensor, "N"]]:
    """Write weights with which token mixing returns, at each place, about the absolute difference to its counterpart.

    Args:
        order: (N,), a permutation: position i of the image that arrives shows position order[i] of the image.
        counterpart: (N,): the counterpart of position n of the *image* is its position counterpart[n], and the other way round.
        gain: (N,), not 0: what arrives at position i has been multiplied by gain[i].

    Returns:
        (W_1, b_1, W_2, b_2) for the image that arrives, with N hidden units: where a position and its counterpart differ by a
        in the image, the result of token mixing is GELU(a) + GELU(-a).

    Source: the sum of two units is this course's; |a| - 0.34 < GELU(a) + GELU(-a) ≤ |a|.
    """
    unit = torch.eye(len(order), device=order.device)
    partner = unit[order.argsort()[counterpart[order]]]  # row i: a 1 at the counterpart of position i
    zeros = torch.zeros(len(order), device=order.device)
    return (unit - partner) / gain, zeros, unit + partner, zeros.clone()


HINTS = (
    (
        "Take the image itself first, of four positions, without gains: 0 and 2 belong together, and 1 and 3. Write both "
        "matrices on paper. In the example by hand one unit is the difference of positions 0 and 2, and another one the "
        "opposite. To which positions does W_2 write these two?"
    ),
    (
        "Now shuffled. Position i of the shuffled image is position order[i] of the image. Which position of the "
        "image is its counterpart, and where does that one stand in the shuffled image? The last step asks `order` "
        "the other way round. Then the gains: column j of W_1 reads position j, which arrives multiplied by gain[j]."
    ),
    (
        "The inverse of the order is `order.argsort()`: it says where each position of the image stands in the "
        "shuffled one. Once you know the counterpart of each shuffled position, take the identity matrix and its rows "
        "at those counterparts: the difference of the two is W_1, their sum W_2. The biases are 0. Last, divide each "
        "column of W_1 by the gain of its position: `/ gain` does so for a matrix (N, N)."
    ),
)


def _weights(partner: Tensor) -> tuple[Tensor, Tensor]:
    """The identity, and the matrix with a 1 in each row at the partner of its position."""
    unit = torch.eye(len(partner), device=partner.device)
    return unit, unit[partner]


def _wired(partner: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    unit, other = _weights(partner)
    return (unit - other) / gain, unit.new_zeros(len(unit)), unit + other, unit.new_zeros(len(unit))


def _partner(order: Tensor, counterpart: Tensor) -> Tensor:
    return order.argsort()[counterpart[order]]


@wrong.idea
def ignores_the_order(order, counterpart, gain):
    """You pair the positions as in the image. The shuffled image has another order: its position i is position order[i] of the
    image."""
    return _wired(counterpart, gain)


@wrong.part
def runs_through_the_bundle_backwards(order, counterpart, gain):
    """You take `order` and its inverse for each other. order[i] is the position of the *image* that stands at position i of the
    shuffled one."""
    return _wired(order[counterpart[order.argsort()]], gain)


@wrong.part
def stays_at_the_start(order, counterpart, gain):
    """You find the counterpart as a position of the image, counterpart[order[i]], and take it for one of the shuffled image.
    There it stands elsewhere: at the position that the inverse of the order gives."""
    return _wired(counterpart[order], gain)


@wrong.part
def begins_at_the_end(order, counterpart, gain):
    """You take position i of the shuffled image for position i of the image when you look up its counterpart. It is position
    order[i] there."""
    return _wired(order.argsort()[counterpart], gain)


@wrong.part
def adds_the_counterpart(order, counterpart, gain):
    """Your hidden units add a position and its counterpart. Whether two are equal, their sum does not tell: subtract."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit + other) / gain, unit.new_zeros(len(unit)), unit + other, unit.new_zeros(len(unit))


@wrong.part
def writes_to_its_own_place_alone(order, counterpart, gain):
    """Each of your hidden units writes to one position of its pair. Where its difference is negative, GELU returns about 0, and
    that position then says "equal". Both units of a pair write to both positions."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit - other) / gain, unit.new_zeros(len(unit)), unit, unit.new_zeros(len(unit))


@wrong.part
def writes_to_the_other_place_alone(order, counterpart, gain):
    """Each of your hidden units writes to the counterpart of its position alone. Where its difference is negative, GELU returns
    about 0, and nothing is written there. Both units of a pair write to both positions."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit - other) / gain, unit.new_zeros(len(unit)), other, unit.new_zeros(len(unit))


@wrong.part
def subtracts_the_opposite_unit(order, counterpart, gain):
    """Your W_2 subtracts the two units of a pair. GELU(a) - GELU(-a) = a is the difference with its sign: opposite at the two
    positions, and over several channels such numbers cancel. Add the two units."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit - other) / gain, unit.new_zeros(len(unit)), unit - other, unit.new_zeros(len(unit))


@wrong.idea
def subtracts_after_the_bend(order, counterpart, gain):
    """Your hidden units copy the positions, and W_2 subtracts. By then GELU has taken the negative numbers away, and the result
    has a sign. Subtract in W_1, before GELU."""
    unit, other = _weights(_partner(order, counterpart))
    return unit / gain, unit.new_zeros(len(unit)), unit - other, unit.new_zeros(len(unit))


@wrong.detail
def takes_the_mean_of_the_units(order, counterpart, gain):
    """You halve the sum of the two units of a pair. One of them is about 0, so the sum itself is about the absolute
    difference."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit - other) / gain, unit.new_zeros(len(unit)), (unit + other) / 2, unit.new_zeros(len(unit))


@wrong.detail
def halves_the_difference(order, counterpart, gain):
    """Your hidden units halve the difference, weights of 1/2. The result is then about half of the absolute difference."""
    unit, other = _weights(_partner(order, counterpart))
    return (unit - other) / gain / 2, unit.new_zeros(len(unit)), unit + other, unit.new_zeros(len(unit))


@wrong.detail
def adds_a_bias(order, counterpart, gain):
    """Your biases are 1. Where two positions are equal the result should be 0, so nothing is added before or after GELU."""
    weights = _wired(_partner(order, counterpart), gain)
    return weights[0], torch.ones_like(weights[1]), weights[2], torch.ones_like(weights[3])


@wrong.part
def ignores_the_gain(order, counterpart, gain):
    """You subtract what arrives. Two equal patches arrive multiplied by different gains, so their difference is not 0: first
    undo the gain of each position."""
    return _wired(_partner(order, counterpart), torch.ones_like(gain))


@wrong.part
def multiplies_by_the_gain(order, counterpart, gain):
    """You multiply the columns of W_1 by the gains. What arrives has been multiplied already: divide."""
    return _wired(_partner(order, counterpart), 1 / gain)


@wrong.part
def divides_the_rows(order, counterpart, gain):
    """You divide the *rows* of W_1, so that both positions that a hidden unit reads are divided by one gain. Each position has
    its own: divide the columns."""
    return _wired(_partner(order, counterpart), gain[:, None])


@wrong.detail
def undoes_the_sign_alone(order, counterpart, gain):
    """You undo the sign of the gains, not their size. A patch that arrives with half its contrast is then subtracted from one
    with all of it."""
    return _wired(_partner(order, counterpart), gain.sign())


@wrong.detail
def undoes_the_size_alone(order, counterpart, gain):
    """You undo the size of the gains, not their sign. A negative is then subtracted, where it has to be added."""
    return _wired(_partner(order, counterpart), gain.abs())


@wrong.detail
def takes_the_gain_from_the_start(order, counterpart, gain):
    """You look the gain up by `order`. gain[i] already belongs to position i of the image that arrives."""
    return _wired(_partner(order, counterpart), gain[order])


@wrong.detail
def divides_the_result_too(order, counterpart, gain):
    """You divide the rows of W_2 by the gains as well. The hidden units already hold differences of the image: nothing is left
    to undo."""
    W_1, b_1, W_2, b_2 = _wired(_partner(order, counterpart), gain)
    return W_1, b_1, W_2 / gain[:, None], b_2


@wrong.case
def returns_integers(order, counterpart, gain):
    """Your W_2 and biases are integers, which cannot be multiplied by features. Make them floats: `torch.eye` does so by
    itself."""
    W_1, *others = _wired(_partner(order, counterpart), gain)
    return W_1, *(weight.long() for weight in others)


@right
def by_indices(order, counterpart, gain):
    """Zeros, in which single entries are set, position by position."""
    N = len(order)
    W_1, W_2 = torch.zeros(N, N, device=order.device), torch.zeros(N, N, device=order.device)
    ends_in = {int(start): end for end, start in enumerate(order)}
    for end in range(N):
        other = ends_in[int(counterpart[order[end]])]
        W_1[end, end], W_1[end, other] = 1 / gain[end], -1 / gain[other]
        W_2[end, end], W_2[end, other] = 1.0, 1.0
    return W_1, torch.zeros(N, device=order.device), W_2, torch.zeros(N, device=order.device)


@right
def for_images_in_order_first(order, counterpart, gain):
    """The weights for images in order, whose columns of W_1 and rows of W_2 are then moved to where the cables end."""
    unit, other = _weights(counterpart)
    zeros = torch.zeros(len(order), device=order.device)
    return (unit - other)[:, order] / gain, zeros, (unit + other)[order], zeros


@right
def two_units_a_pair(order, counterpart, gain):
    """The units of a pair stand one after the other, each the negative of the other."""
    partner = _partner(order, counterpart)
    N, first = len(order), (partner > torch.arange(len(order), device=order.device)).nonzero()[:, 0]
    unit = torch.eye(N, device=order.device)
    differences, pairs = unit[first] - unit[partner[first]], unit[first] + unit[partner[first]]
    zeros = torch.zeros(N, device=order.device)
    return torch.cat([differences, -differences]) / gain, zeros, torch.cat([pairs, pairs]).mT, zeros


@stranger
def pairs_halves_of_the_shuffled_image(order, counterpart, gain):
    return _wired(torch.arange(len(order), device=order.device).roll(len(order) // 2), gain)


@stranger
def subtracts_the_mean_of_all(order, counterpart, gain):
    W_1, b_1, W_2, b_2 = _wired(_partner(order, counterpart), gain)
    return (torch.eye(len(order), device=order.device) - 1 / len(order)) / gain, b_1, W_2, b_2


@stranger
def wires_of_twice_the_strength(order, counterpart, gain):
    W_1, b_1, W_2, b_2 = _wired(_partner(order, counterpart), gain)
    return 2 * W_1, b_1, W_2, b_2


@stranger(makes=[ignores_the_order, adds_the_counterpart])
def wires_twice_wrong(order, counterpart, gain):
    unit, other = _weights(counterpart)
    return (unit + other) / gain, unit.new_zeros(len(unit)), unit + other, unit.new_zeros(len(unit))


def same_mixing(expected: Outcome, got: Outcome) -> Failure | None:
    """Compare what token mixing makes of an image with the weights: hidden units may stand in any order."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    N = len(expected.results[3])
    x = 3 * torch.linspace(1.0, 20.0, N, device=expected.results[3].device).sin()[None, :, None]
    want, have = (token_mixing(x, *outcome.results).flatten() for outcome in (expected, got))
    if is_close(want, have):
        return None
    at = int((want - have).abs().argmax())
    return Failure(
        "With your weights, token mixing returns something else.",
        f"At position {at} it should return {want[at]:.3g}, and it returns {have[at]:.3g}.",
    )


def _pairs(draw: Draw, N: int) -> Tensor:
    """Draw which of an even number of positions belong together."""
    shuffled = draw.uniform(N).argsort()
    return torch.empty_like(shuffled).scatter(0, shuffled, shuffled.view(-1, 2).flip(1).flatten())


def _gains(draw: Draw, N: int) -> Tensor:
    """Draw gains of ¼ to 1, half of them with a minus."""
    return (0.25 + 0.75 * draw.uniform(N)) * torch.where(draw.uniform(N).argsort() < N // 2, -1.0, 1.0)


def _shuffled(draw: Draw) -> list[Call]:
    """Bundles in which pairs end apart: no order is its own inverse. All gains are 1."""
    calls: list[Call] = []
    for N in (8, 12):
        ring = draw.uniform(N).argsort()
        calls.append((torch.empty_like(ring).scatter(0, ring, ring.roll(1)), _pairs(draw, N), torch.ones(N)))
    return calls


def _bundles(draw: Draw) -> list[Call]:
    """Such bundles with gains."""
    return [(*bundle, _gains(draw, len(bundle[0]))) for *bundle, _ in _shuffled(draw)]


exercise = Exercise(
    id="13.2",
    title="Wire the differences by hand",
    reference=difference_weights,
    results=("W_1", "b_1", "W_2", "b_2"),
    properties=(
        runs_on(_bundles),
        has_shape("Two matrices (N, N) and two biases (N,).", _bundles),
        Property(
            "in order",
            "Where nothing is shuffled, token mixing returns about the absolute difference to the counterpart.",
            lambda draw: [(torch.arange(N), _pairs(draw, N), torch.ones(N)) for N in (2, 8)],
            same_mixing,
            points=2,
        ),
        Property("shuffled", "The same for shuffled images.", _shuffled, same_mixing, points=3),
        Property("gains", "The same where each position arrives with a gain of its own.", _bundles, same_mixing, points=2),
        leaves_inputs(_bundles),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "All vectors have one length and, as all answers are called for the CPU, one device.": (
            "drop keyword: unit = torch.eye(len(order))",
            "drop keyword: zeros = torch.zeros(len(order))",
            "negate: len(~order)",
            "negate: len(~order) (2)",
            "negate: (~order).device",
            "negate: (~order).device (2)",
            "other name: len(counterpart)",
            "other name: len(counterpart) (2)",
            "other name: len(gain)",
            "other name: len(gain) (2)",
            "other name: len(partner) (2)",
            "other name: len(unit) (2)",
            "other name: counterpart.device",
            "other name: counterpart.device (2)",
            "other name: gain.device",
            "other name: gain.device (2)",
            "other name: partner.device (2)",
            "other name: unit.device (2)",
        ),
        "The two units of a pair change places.": ("swap operands: (partner - unit) / gain",),
        "One tensor of zeros is both biases; the identity is not read again.": (
            "drop call: return ((unit - partner) / gain, zeros, unit + partner, zeros)",
            "in place: return ((unit - partner) / gain, zeros, unit.add_(partner), zeros.clone())",
        ),
    },
    hints=HINTS,
)
