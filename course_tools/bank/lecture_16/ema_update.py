"""Exercise 16.5, ema_update: what students answer, wrong and right."""

import torch

from course_lib.models import ema_update
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, gives_new_tensors, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "τ is usually 0.99 or more, and the target should move *slowly*. Which of the two, ξ or θ, must then keep nearly all "
        "of its weight? What comes out at τ = 1, and what at τ = 0?"
    ),
    (
        "Iterate over both lists at once, and make one new tensor for each pair. An operation that ends in an underscore, "
        "or a `*=`, would change a tensor that the caller still needs."
    ),
    (
        "Go through both lists at the same time, and demand that they have the same length. The *old* target keeps the "
        "share `decay`, the online weights get the rest; the result is a new tensor."
    ),
)


@wrong.detail
def exchanges_the_two(target, online, decay):
    """You give τ to the online weights and 1 - τ to the target. With τ near 1 your target is almost equal to the online
    network after every step."""
    return [(1 - decay) * xi + decay * theta for xi, theta in zip(target, online, strict=True)]


@wrong.case
def changes_the_target_in_place(target, online, decay):
    """You return the right numbers, but in the old tensors: operations with an underscore overwrite the caller's target.
    Return new tensors."""
    with torch.no_grad():
        return [xi.mul_(decay).add_(theta, alpha=1 - decay) for xi, theta in zip(target, online, strict=True)]


@wrong.case
def refills_the_list(target, online, decay):
    """Your tensors are new, but you put them into the caller's list. The caller's list is changed; build a new one."""
    for i, theta in enumerate(online):
        target[i] = decay * target[i] + (1 - decay) * theta
    return target


@wrong.case
def shrinks_the_online_weights(target, online, decay):
    """You scale the online weights in place on the way to the sum. The average is right, but the online weights are
    changed."""
    with torch.no_grad():
        return [decay * xi + theta.mul_(1 - decay) for xi, theta in zip(target, online, strict=True)]


@wrong.part
def adds_the_whole_online_weight(target, online, decay):
    """You shrink the target by τ and then add all of θ. The two factors must sum to 1."""
    return [decay * xi + theta for xi, theta in zip(target, online, strict=True)]


@wrong.part
def keeps_the_whole_target(target, online, decay):
    """You add (1 - τ) θ to a target that keeps all of its weight. The two factors must sum to 1: multiply the target by τ."""
    return [xi + (1 - decay) * theta for xi, theta in zip(target, online, strict=True)]


@wrong.idea
def moves_away(target, online, decay):
    """You step along ξ - θ, away from the online weights; the step is along θ - ξ."""
    return [xi + (1 - decay) * (xi - theta) for xi, theta in zip(target, online, strict=True)]


@wrong.idea
def meets_halfway(target, online, decay):
    """You take the plain mean of the two and never use τ. τ decides how slowly the target follows."""
    return [(xi + theta) / 2 for xi, theta in zip(target, online, strict=True)]


@wrong.part
def returns_one_long_vector(target, online, decay):
    """You concatenate all weights to one vector. Return one tensor for each weight, in the order of the list."""
    return torch.cat([(decay * xi + (1 - decay) * theta).flatten() for xi, theta in zip(target, online, strict=True)])


@wrong.case
def flattens_each_weight(target, online, decay):
    """You flatten each weight. The numbers are right, but each new tensor must have the shape of the old one, also one
    without axes."""
    return [decay * xi.reshape(-1) + (1 - decay) * theta.reshape(-1) for xi, theta in zip(target, online, strict=True)]


@wrong.part
def returns_after_the_first(target, online, decay):
    """Your `return` is inside the loop: all weights but the first are dropped."""
    moved = []
    for xi, theta in zip(target, online, strict=True):
        moved.append(decay * xi + (1 - decay) * theta)
        return moved
    return moved


@wrong.case
def fills_slices(target, online, decay):
    """You write into `new[:]`. A slice needs an axis, and a weight may have none: a single number as a 0-dimensional tensor
    stops your loop with an IndexError."""
    moved = []
    for xi, theta in zip(target, online, strict=True):
        new = torch.empty_like(xi)
        new[:] = decay * xi + (1 - decay) * theta
        moved.append(new)
    return moved


@wrong.idea
def copies_the_online_weights(target, online, decay):
    """You copy the online weights. The target moves only a small part of the way, by 1 - τ; `decay` has no effect in yours."""
    return [theta.clone() for theta in online]


@wrong.idea
def never_updates(target, online, decay):
    """You return the target as it was: the online weights have no effect, so your target network never learns."""
    return [xi.clone() for xi in target]


@wrong.case
def hands_back_what_stays(target, online, decay):
    """Where τ is 0 or 1, you return the caller's own tensors. The next update of the online network then changes the target, or
    the reverse: return new tensors."""
    if decay in (0, 1):
        return list(target if decay else online)
    return [decay * xi + (1 - decay) * theta for xi, theta in zip(target, online, strict=True)]


@right
def all_lists_at_once(target, online, decay):
    """No loop: torch multiplies and adds whole lists."""
    if len(target) != len(online):
        raise ValueError(f"{len(target)} target tensors and {len(online)} online ones.")
    if not target:
        return []
    return list(torch._foreach_add(torch._foreach_mul(list(target), decay), torch._foreach_mul(list(online), 1 - decay)))


@right
def through_one_vector(target, online, decay):
    """All weights after each other in one vector, averaged there, and cut up again into their shapes."""
    pairs = list(zip(target, online, strict=True))
    if not pairs:
        return []
    xi, theta = (torch.cat([pair[side].reshape(-1) for pair in pairs]) for side in (0, 1))
    parts = (xi * decay + theta * (1 - decay)).split([old.numel() for old, _ in pairs])
    return [part.view(old.shape).to(old.dtype) for part, (old, _) in zip(parts, pairs, strict=True)]


@right
def by_the_step_in_double_precision(target, online, decay):
    """A step of 1 - τ along the difference, in float64, and back to the precision that came in."""
    moved = []
    for xi, theta in zip(target, online, strict=True):
        old = xi.double()
        moved.append((old + (theta.double() - old) * (1 - decay)).to(xi.dtype))
    return moved


@right
def on_a_copy(target, online, decay):
    """A copy of each weight, which may then be changed in place."""
    if len(target) != len(online):
        raise ValueError("target and online must have as many tensors.")
    moved = [xi.clone() for xi in target]
    for i in range(len(moved)):
        moved[i].mul_(decay).add_(online[i], alpha=1 - decay)
    return moved


@stranger
def ema_averages_geometrically(target, online, decay):
    return [xi.abs() ** decay * theta.abs() ** (1 - decay) for xi, theta in zip(target, online, strict=True)]


@stranger
def ema_squares_the_decay(target, online, decay):
    return [torch.lerp(xi, theta, 1 - decay**2) for xi, theta in zip(target, online, strict=True)]


@stranger
def ema_moves_the_first_weight_only(target, online, decay):
    moved = torch.lerp(target[0], online[0], 1 - decay)
    return [moved, *(xi.clone() for xi in target[1:])]


@stranger(makes=[exchanges_the_two])
def ema_by_lerp_the_other_way(target, online, decay):
    return [torch.lerp(xi, theta, decay) for xi, theta in zip(target, online, strict=True)]


@stranger(makes=[exchanges_the_two, adds_the_whole_online_weight])
def ema_twice_wrong(target, online, decay):
    return [(1 - decay) * xi + theta for xi, theta in zip(target, online, strict=True)]


def _weights(draw: Draw, decay: float, *shapes: tuple[int, ...]) -> Call:
    return [draw.normal(*shape) for shape in shapes], [draw.normal(*shape) for shape in shapes], decay


def _two(draw: Draw) -> list[Call]:
    m, n = draw.sizes(2)
    return [_weights(draw, 0.9, (m, n), (n,))]


def _number(draw: Draw) -> list[Call]:
    """A weight without axes beside others, all in tuples, as no one can change them."""
    target, online, decay = _weights(draw, 0.7, (3, 2), (5,))
    return [((target[0], target[1].sum(), target[1]), (online[0], online[1].sum(), online[1]), decay)]


exercise = Exercise(
    id="16.5",
    title="The exponential moving average of the weights",
    reference=ema_update,
    properties=(
        runs_on(_two),
        has_shape("A list with one new tensor for each weight, of its shape.", _two),
        Property("stay", "With τ = 1 the target stays.", lambda draw: [_weights(draw, 1.0, (2, 3), (5,))]),
        Property("follow", "With τ = 0 it becomes the online network.", lambda draw: [_weights(draw, 0.0, (2, 3), (5,))]),
        Property(
            "between",
            "In between, τ of the target and 1 - τ of the online weight.",
            lambda draw: [*_two(draw), _weights(draw, 0.99, (5, 2, 3)), _weights(draw, 0.3, (7,), (2, 5), (3,))],
            points=2,
            needs=("stay", "follow"),
        ),
        Property("scalar", "A weight may be a single number, without axes.", _number, needs=("between",)),
        gives_new_tensors(
            lambda draw: [*_two(draw), *_number(draw), _weights(draw, 1.0, (2, 3), (5,)), _weights(draw, 0.0, (2, 3), (5,))],
            points=2,
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`strict` asks for lists of one length, and every input has them.": (
            "drop keyword: [torch.lerp(xi, theta, 1 - decay) for xi, theta in zip(target, online)]",
            "constant: zip(target, online, strict=False)",
        ),
    },
    hints=HINTS,
)
