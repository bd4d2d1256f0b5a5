"""Latches keep the first symbol, forget it without feedback, and let hardly any gradient through."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import rnn_step
from course_tools.lectures.lecture_01.latches import read_by_latches

T = 11


@pytest.fixture(scope="module")
def part():
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(8, (97,), generator=generator)
    rest = 8 + torch.randint(8, (97, T - 1), generator=generator)
    return F.one_hot(torch.cat([first[:, None], rest], dim=1), 16).float(), first


def test_the_first_symbol_is_kept_with_feedback_and_lost_without(part):
    kept, lost = (read_by_latches(rnn_step, *part, feedback=feedback) for feedback in (3.0, 0.0))
    assert kept.accuracy() == 1.0
    assert lost.accuracy() < 0.5
    assert [tuple(state.shape) for state in kept.states] == [(97, 8)] * (T + 1)


def test_a_latch_has_a_high_and_a_low_value(part):
    end = read_by_latches(rnn_step, *part).states[-1]
    own = F.one_hot(part[1], 8).bool()
    assert end[own].min() > 0.9
    assert end[~own].max() < -0.9


def test_what_is_left_of_the_gradient_is_the_product_of_the_slopes(part):
    latches = read_by_latches(rnn_step, *part)
    own = F.one_hot(part[1], 8).bool()
    slopes = torch.stack([3 * (1 - state[own] ** 2) for state in latches.states[2:]]).prod(0)
    left = latches.gradient_left()
    assert left == pytest.approx((slopes.norm() / 97**0.5).item())
    assert left < 1e-2


def test_the_step_that_is_passed_is_used(part):
    assert read_by_latches(lambda x, h, W, U, b: -rnn_step(x, h, W, U, b), *part).accuracy() < 0.5
