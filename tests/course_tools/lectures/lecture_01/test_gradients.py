"""Gradients through time agree with torch and autograd, vanish or grow as the theory says, and follow the initial weights."""

import pytest
import torch
from torch import nn

from course_lib.datasets import digits
from course_lib.fast import hoisted_rnn
from course_lib.primitives import LSTM, RNN, bptt_step, carousel_gradient, lstm_step, rnn_step
from course_tools.bank.lecture_01.bptt_step import transposes_the_recurrent_matrix
from course_tools.lectures.lecture_01 import gradients
from course_tools.lectures.lecture_01.gradients import (
    back_through_time,
    carousel,
    difference_to_autograd,
    digit_pixels,
    gradient_by_lag,
    gradient_norms,
    gru_with_bias,
    lstm_difference_to_torch,
    orthogonal_rnn,
    parameters_of,
    rnn_difference_to_torch,
    show_carousel,
    show_carousel_by_bias,
    states_of,
    steps_reached,
    torch_weights,
)

# Forward and backward over time agree with torch and autograd, and gradients vanish or grow as the theory says.


T, B, D, N = 11, 3, 2, 5


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.RNN(D, N).double()


@pytest.fixture
def x():
    return torch.randn(T, B, D, generator=torch.Generator().manual_seed(1)).double()


def test_the_states_are_those_of_torch_with_the_same_weights(layer, x):
    states = states_of(rnn_step, x, torch.zeros(B, N).double(), *parameters_of(layer))
    assert len(states) == T + 1
    torch.testing.assert_close(torch.stack(states[1:]), layer(x)[0])


def test_going_back_one_norm_is_noted_for_each_state(layer, x):
    W, U, b = parameters_of(layer)
    states = states_of(rnn_step, x, torch.zeros(B, N).double(), W, U, b)
    grad = torch.ones(B, N).double()
    sums, norms = back_through_time(bptt_step, grad, x, states, W, U)
    assert [tuple(part.shape) for part in sums] == [(N, D), (N, N), (N,)]
    assert len(norms) == T + 1
    assert norms[0] == pytest.approx((B * N) ** 0.5)


def test_the_difference_to_autograd_is_rounding_and_shows_a_mistake_from_two_steps_on(layer, x):
    weights = parameters_of(layer)
    assert difference_to_autograd(rnn_step, bptt_step, x, weights) < 1e-12
    of_mistake = [difference_to_autograd(rnn_step, transposes_the_recurrent_matrix, x[-t:], weights) for t in (1, 2)]
    assert of_mistake[0] < 1e-12
    assert of_mistake[1] > 1e-3


def test_near_the_state_0_each_step_back_multiplies_the_norm_by_the_radius(x):
    norms = gradient_norms(rnn_step, bptt_step, x, 0.7, 1e-9, n=N)
    assert norms == pytest.approx([0.7**t for t in range(T + 1)], rel=1e-6)


def test_a_strong_input_saturates_the_units_and_the_gradient_vanishes(x):
    assert gradient_norms(rnn_step, bptt_step, x, 1.5, 50.0, n=N)[-1] < 1e-3


@pytest.mark.parametrize("forget_bias", [0.0, 4.0])
def test_the_cells_own_path_is_the_product_of_the_forget_gates(x, forget_bias):
    found = carousel(lstm_step, x, forget_bias, n=N)
    assert found.gates.shape == (T, B, N)
    torch.testing.assert_close(found.along, found.gates.prod(0))
    assert not torch.allclose(found.all_paths, found.along)


@pytest.mark.parametrize("cell", [RNN(16, N), LSTM(16, N, forget_bias=4.0)], ids=["plain", "LSTM"])
def test_the_gradient_by_lag_is_1_at_the_end_and_has_a_value_for_each_step(cell):
    torch.manual_seed(0)
    lags = gradient_by_lag(rnn_step, lstm_step, cell, torch.randn(B, T, 16), torch.tensor([0, 7, 3]))
    assert len(lags) == T
    assert lags[0] == 1.0
    assert all(lag > 0 for lag in lags)


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(gradients, "show", lambda figure, alt: figures.append((figure, alt)))
    return figures


def test_a_digit_is_read_one_pixel_at_a_time_row_by_row():
    pixels, labels = digit_pixels(3)
    images, all_labels = digits()
    assert pixels.shape == (64, 3, 1)
    assert pixels[9, 2, 0] == images[2, 1, 1]
    assert labels == all_labels[:3].tolist()


def test_an_lstm_step_is_that_of_torch_and_a_step_without_forget_gate_is_not(x):
    def keeps_all(x, h, c, W, U, b):
        return lstm_step(x, h, c, W, U, b)[0], c + lstm_step(x, h, torch.zeros_like(c), W, U, b)[1]

    assert lstm_difference_to_torch(lstm_step, x, n=N) < 1e-12
    assert lstm_difference_to_torch(keeps_all, x, n=N) > 1e-2


def test_a_plain_step_is_that_of_torch_and_a_step_without_bias_is_not(x):
    weights = torch_weights(D, N, seed=3)
    assert rnn_difference_to_torch(rnn_step, x, weights) < 1e-12
    assert rnn_difference_to_torch(lambda x, h, W, U, b: rnn_step(x, h, W, U, 0 * b), x, weights) > 1e-2


def test_initial_weights_are_those_of_torch_by_the_seed():
    torch.manual_seed(3)
    of_torch = parameters_of(nn.RNN(D, N))
    assert all(map(torch.equal, torch_weights(D, N, seed=3), of_torch))
    assert not torch_weights(D, N, seed=4)[0].equal(of_torch[0])


def test_the_gradient_reaches_the_last_segment_only(layer, x):
    weights = parameters_of(layer)
    assert steps_reached(rnn_step, x, weights, k=4) == [2, 1, 0]
    assert steps_reached(rnn_step, x, weights, k=T) == list(range(T - 1, -1, -1))


def test_the_carousel_starts_at_one_and_ends_at_the_product_of_all_gates(shown, x):
    show_carousel(lstm_step, carousel_gradient, x, labels=[3, 7, 1], forget_bias=1.0, digit=1)
    ((figure, alt),) = shown
    measured, rule = (line.get_ydata() for line in figure.axes[0].get_lines())
    assert measured[0] == rule[0] == 1.0
    assert measured[-1] == pytest.approx(carousel(lstm_step, x[:, 1:2], 1.0).along.mean().item())
    assert "the digit 7" in alt


def test_the_factor_grows_with_the_forget_bias(shown, x):
    show_carousel_by_bias(lstm_step, carousel_gradient, x)
    ((figure, alt),) = shown
    factors = figure.axes[0].get_lines()[0].get_ydata()
    assert len(factors) == 19
    assert (factors[1:] > factors[:-1]).all()
    assert f"over {T} pixels" in alt


# The initial weights of the controls preserve or scale lengths, and open the update gate, as described.


def test_all_singular_values_of_the_recurrent_matrix_are_the_stretch():
    torch.manual_seed(0)
    cell = orthogonal_rnn(3, 7, stretch=0.6)
    torch.testing.assert_close(torch.linalg.svdvals(cell.weight_hh_l0.detach()), torch.full((7,), 0.6))


def test_the_input_matrix_is_that_of_torch_times_the_scale():
    torch.manual_seed(0)
    full = RNN(3, 7, hoisted_rnn)
    torch.manual_seed(0)
    scaled = orthogonal_rnn(3, 7, input_scale=0.25)
    torch.testing.assert_close(scaled.weight_ih_l0, 0.25 * full.weight_ih_l0)
    torch.manual_seed(0)
    torch.testing.assert_close(orthogonal_rnn(3, 7).weight_ih_l0, full.weight_ih_l0)


def test_a_large_bias_keeps_the_state_and_a_small_one_replaces_it():
    torch.manual_seed(0)
    x, h = torch.zeros(2, 1, 3), torch.full((2, 5), 0.5)
    kept, replaced = (gru_with_bias(3, 5, bias)(x, (h,))[0][:, -1] for bias in (30.0, -30.0))
    torch.testing.assert_close(kept, h)
    assert (replaced - h).abs().min() > 0.01
