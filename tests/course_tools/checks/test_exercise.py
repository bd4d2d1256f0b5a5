"""What exercises are made of: inputs from a seed, and a graph of properties in order."""

import pytest
import torch

from course_lib.primitives import rnn_step
from course_tools.bank import exercise
from course_tools.checks.exercise import Draw, Exercise, Property, has_shape, runs_on
from course_tools.checks.outcome import tensors_in
from tests.course_tools.conftest import each_exercise

MET_BY_A_TRIVIAL_ANSWER = {"shape", "one", "residual", "certain", "all found", "input"}
"""Properties that may earn nothing: a constant of the right shape meets them, the input handed back, the likeliest token, the
number 1, or a cell that never reads its state."""


def exercise_with(*properties):
    return Exercise("09.1", "A title", rnn_step, properties, (), (), ("a", "b", "c"))


def no_calls(draw):
    return []


def test_the_same_seed_draws_the_same_inputs():
    def draws(seed):
        draw = Draw(seed)
        return [
            *draw.sizes(6),
            *draw.normal(3).tolist(),
            *draw.uniform(3).tolist(),
            *draw.integers(0, 99, 5).tolist(),
            *draw.mask(3, 4).flatten().tolist(),
        ]

    assert draws(5) == draws(5)
    assert draws(5) != draws(6)


def test_drawing_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    Draw(0).mask(3, 5)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("n", range(1, 7))
def test_sizes_are_different_primes(n):
    for seed in range(20):
        sizes = Draw(seed).sizes(n)
        assert len(set(sizes)) == n
        assert all(size > 1 and all(size % d for d in range(2, size)) for size in sizes)


def test_sizes_can_differ_from_those_of_the_batch():
    for seed in range(20):
        sizes = Draw(seed).sizes(2, other_than=(2, 3))
        assert len(set(sizes) - {2, 3}) == 2


@pytest.mark.parametrize("seed", range(5))
def test_the_first_inputs_of_a_recurrence_show_in_which_line_an_axis_is_wrong(seed):
    asked = exercise("14.4")
    (S, *_) = asked.calls("runs", seed)[0]
    assert len(set(S.shape)) == 3


def test_every_row_of_a_drawn_mask_allows_a_key_and_forbids_one():
    for seed in range(50):
        mask = Draw(seed).mask(4, 7, 5)
        assert mask.dtype == torch.bool
        assert mask.any(-1).all()
        assert not mask.all(-1).any()
    assert Draw(0).mask(3, 1).all()


def test_inputs_are_float32_on_the_cpu_whatever_torch_is_set_to():
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            drawn = [Draw(0).normal(3), Draw(0).uniform(3)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(t.dtype == torch.float32 and t.device.type == "cpu" for t in drawn)


@each_exercise
def test_a_property_draws_other_inputs_for_another_seed_and_the_same_for_the_same(asked):
    def numbers(seed):
        calls = [call for prop in asked.properties for call in asked.calls(prop, seed)]
        return [(t.shape, t.flatten().tolist()) for call in calls for t in tensors_in(call)] + [
            [value for value in call if isinstance(value, int)] for call in calls
        ]

    assert numbers(0) == numbers(0)
    assert numbers(0) != numbers(1)


def test_a_property_that_needs_a_later_one_is_refused():
    late = Property("late", "A law.", no_calls, needs=("shape",))
    with pytest.raises(ValueError, match=r"exercise 09\.1: 'late' needs \['shape'\], which must be listed before it"):
        exercise_with(runs_on(no_calls), late, has_shape("A law.", no_calls))


def test_two_properties_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"exercise 09\.1: two properties are called 'runs'"):
        exercise_with(runs_on(no_calls), runs_on(no_calls))


@each_exercise
def test_every_graph_starts_from_running_and_every_other_property_hangs_on_it(asked):
    first, *others = asked.properties
    assert (first.name, first.points, first.needs) == ("runs", 0, ())
    assert all(prop.needs for prop in others)
    assert all(prop.points > 0 or prop.name in MET_BY_A_TRIVIAL_ANSWER for prop in others)
    assert asked.points == sum(prop.points for prop in asked.properties)


@each_exercise
def test_every_property_has_inputs_and_a_law_of_its_own(asked):
    assert all(asked.calls(prop, 0) for prop in asked.properties)
    laws = [prop.law for prop in asked.properties]
    assert all(law.endswith(".") for law in laws)
    assert len(set(laws)) == len(laws)
