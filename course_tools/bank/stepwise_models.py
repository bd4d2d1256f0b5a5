"""Build tasks whose model also reads step by step, from a state of fixed size: its properties, and the evidence of mistakes.

The last query is a batch of texts, which the model reads in parallel as `outputs[-1]`, and token by token as `steps`.
"""

from course_tools.checks.exercise import Truth
from course_tools.checks.trained import Judge, carries_a_state, is_near
from course_tools.checks.training_record import Measured

MORE = 16
"""Least number of nonlinear operations by which a chain through gates is longer in the first probe than in the second."""


def steps(measured: Measured, truth: Truth) -> str | None:
    """Judge whether the model has `start` and `step`, and whether `step` gives logits."""
    if not measured.begins:
        return "`start` raises an error for an empty prompt, tokens (B, 0)."
    if not measured.steps:
        return "The model has no methods `start` and `step`."
    wanted, found = measured.outputs[-1].shape, tuple(measured.steps[0].shape)
    if found != tuple(wanted):
        return f"`step` should return logits (B, {wanted[-1]}) for tokens (B,); its {wanted[1]} results make {found}."
    return None


def agree(measured: Measured, truth: Truth) -> str | None:
    """Judge whether both forms give the same logits."""
    if is_near(measured.outputs[-1], measured.steps[0]):
        return None
    gap = (measured.outputs[-1] - measured.steps[0]).abs().amax((0, 2))
    first = int((gap > 1e-3).nonzero()[0]) if (gap > 1e-3).any() else 0
    return f"From token {first + 1} on, the logits of the two forms differ, by up to {gap.max():.2g}."


def constant(most: int) -> Judge:
    """Make a judge: the state has one size, whatever was read, and at most so many numbers of each sequence."""

    def judge(measured: Measured, truth: Truth) -> str | None:
        held = measured.steps[2] / len(measured.steps[0])
        first, last = held[0], held[-1]
        if last != first:
            return f"The state holds {first:,.0f} numbers of each sequence after one token, and {last:,.0f} after {len(held)}."
        if last > most:
            return f"The state holds {last:,.0f} numbers of each sequence, and {most:,} are allowed."
        return None

    return judge


def is_a_sum(measured: Measured, truth: Truth) -> str | None:
    """Judge whether the state is a sum of outer products over what was read: no list, no result of gates, nothing fades."""
    if lists_what_it_read(measured, truth):
        return (
            f"{measured.steps[3]:.0%} of the numbers in the state after a quarter of a text are still in it after half of the "
            "text: it lists what was read."
        )
    if goes_through_gates(measured, truth):
        return "The longest chain of nonlinear operations grows with the text: the state is no sum."
    if forgets(measured, truth):
        return "Half a text later, hardly any number of the state holds what the first token added to it: the state is no sum."
    if holds_no_products(measured, truth):
        return "What the first token adds to the state holds no products of keys and values, by which a query could choose."
    if reads_without_a_query(measured, truth):
        return (
            f"Of what the state says of the text, the next token chooses {measured.steps[6]:.0%}: little is read by its query."
        )
    return None


def lists_what_it_read(measured: Measured, truth: Truth) -> bool:
    """Evidence: most numbers of an earlier state are still there in a later one."""
    return bool(measured.steps) and bool(measured.steps[3] > 0.8)


def forgets(measured: Measured, truth: Truth) -> bool:
    """Evidence: hardly any number of the state still holds what the first token added to it, as each number of a sum does."""
    return can_step(measured, truth) and bool(measured.steps[4] < 0.02)


def holds_no_products(measured: Measured, truth: Truth) -> bool:
    """Evidence: nothing that the first token writes into the state has the form of an outer product, as φ(k) vᵀ has."""
    return can_step(measured, truth) and bool(measured.steps[5] == 0)


def reads_without_a_query(measured: Measured, truth: Truth) -> bool:
    """Evidence: the same is read from the state, whatever token comes next, or most of it is."""
    return can_step(measured, truth) and bool(measured.steps[6] < 0.6)


def goes_through_gates(measured: Measured, truth: Truth) -> bool:
    """Evidence: a nonlinear function is applied on the way from each state to the next. The second probe is shorter."""
    return carries_a_state(measured, truth, MORE)


def values(measured: Measured, truth: Truth) -> str | None:
    """Judge whether a step leaves the state that it is given as it is."""
    if is_near(measured.steps[0], measured.steps[1], tolerance=1e-5):
        return None
    return "Stepping first with another token from the same state changes the logits of the next step from that state."


def can_step(measured: Measured, truth: Truth) -> bool:
    """Whether the steps gave logits."""
    return steps(measured, truth) is None


def grows(measured: Measured, truth: Truth) -> bool:
    """Evidence: the state holds more numbers after each token."""
    return bool(measured.steps) and bool((measured.steps[2].diff() > 0).all())


def changes_its_state(measured: Measured, truth: Truth) -> bool:
    """Evidence: a token that is read from a state and left out changes what the next step from that state gives."""
    return can_step(measured, truth) and values(measured, truth) is not None


def forms_differ(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of the two forms are not the same."""
    return can_step(measured, truth) and agree(measured, truth) is not None


def forms_differ_at_once(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits of the two forms are not the same even after the first token."""
    return can_step(measured, truth) and not is_near(measured.outputs[-1][:, 0], measured.steps[0][:, 0])
