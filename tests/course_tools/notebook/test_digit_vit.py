"""The small Vision Transformer and CNN of the lectures follow their seed."""

import torch

from course_lib.models import DeiT
from course_tools.notebook.digit_vit import small_cnn, small_vit


def test_the_seed_decides_the_weights_and_deit_has_two_learned_tokens():
    assert torch.equal(small_vit(1).encoder.positions, small_vit(1).encoder.positions)
    assert not torch.equal(small_vit(1).encoder.positions, small_vit(2).encoder.positions)
    assert small_vit(1, kind=DeiT).encoder.learned.shape[0] == 2
    assert torch.equal(small_cnn(1)[-1].weight, small_cnn(1)[-1].weight)


def test_both_models_give_ten_logits_of_an_image():
    assert [make()(torch.rand(3, 1, 28, 28)).shape for make in (small_cnn, small_vit)] == [(3, 10), (3, 10)]


def test_positions_start_as_much_larger_as_asked():
    one, four = (small_vit(0, scale=scale).encoder.positions for scale in (1.0, 4.0))
    torch.testing.assert_close(four, 4 * one)
