"""The initial weights of the controls preserve or scale lengths, and open the update gate, as described."""

import torch

from course_lib.fast import hoisted_rnn
from course_lib.primitives import RNN
from course_tools.lectures.lecture_01.gradients import gru_with_bias, orthogonal_rnn


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
