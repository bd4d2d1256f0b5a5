"""Gradients through time by hand are those of autograd, and vanish or grow as the theory says."""

import pytest
import torch
from torch import nn

from course_lib.datasets import digits
from course_lib.primitives import bptt_step, rnn_step
from course_tools.bank.lecture_01.bptt_step import transposes_the_recurrent_matrix
from course_tools.lectures.lecture_01.gradients import (
    both_ways,
    digit_pixels,
    gradient_norms,
    states_of,
    steps_reached,
    torch_weights,
)

T, B, D, N = 11, 3, 2, 5


@pytest.fixture
def x():
    return torch.randn(T, B, D, generator=torch.Generator().manual_seed(1)).double()


def test_the_states_are_those_of_torch_with_the_same_weights(x):
    torch.manual_seed(0)
    layer = nn.RNN(D, N).double()
    W, U, b_W, b_U = layer.parameters()
    states = states_of(rnn_step, x, torch.zeros(B, N).double(), W, U, b_W + b_U)
    assert len(states) == T + 1
    torch.testing.assert_close(torch.stack(states[1:]), layer(x)[0])


def test_both_ways_agree_and_a_mistake_shows_from_two_steps_on(x):
    weights = torch_weights(D, N)
    by_hand, by_autograd = both_ways(rnn_step, bptt_step, x, weights)
    assert by_hand.shape == (N * D + N * N + N,)
    torch.testing.assert_close(by_hand, by_autograd)
    for t, agree in ((1, True), (2, False)):
        assert torch.allclose(*both_ways(rnn_step, transposes_the_recurrent_matrix, x[-t:], weights)) is agree


def test_near_the_state_0_each_step_back_multiplies_the_norm_by_the_radius(x):
    norms = gradient_norms(rnn_step, x, 0.7, 1e-9, n=N)
    assert norms == pytest.approx([0.7**t for t in range(T + 1)], rel=1e-6)


def test_a_strong_input_saturates_the_units_and_the_gradient_vanishes(x):
    assert gradient_norms(rnn_step, x, 1.5, 50.0, n=N)[-1] < 1e-3


def test_a_digit_is_read_one_pixel_at_a_time_row_by_row():
    pixels = digit_pixels(3)
    assert pixels.shape == (64, 3, 1)
    assert pixels[9, 2, 0] == digits()[0][2, 1, 1]


def test_the_gradient_reaches_the_last_segment_only(x):
    weights = torch_weights(D, N)
    assert steps_reached(rnn_step, x, weights, k=4) == [2, 1, 0]
    assert steps_reached(rnn_step, x, weights, k=T) == list(range(T - 1, -1, -1))
