"""The position-wise network: two convolutions of width 1, the same at every position."""

import torch
import torch.nn.functional as F

from course_lib.blocks import FeedForward, feed_forward

B, T, D, D_FF = 2, 5, 7, 11


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights():
    return drawn(D_FF, D, seed=1), drawn(D_FF, seed=2), drawn(D, D_FF, seed=3), drawn(D, seed=4)


def test_it_is_two_convolutions_of_width_one():
    x, (W_1, b_1, W_2, b_2) = drawn(B, T, D), weights()
    hidden = F.conv1d(x.mT, W_1[..., None], b_1).relu()
    torch.testing.assert_close(feed_forward(x, W_1, b_1, W_2, b_2), F.conv1d(hidden, W_2[..., None], b_2).mT)


def test_the_module_is_the_function():
    x, module = drawn(B, T, D), FeedForward(D, D_FF).double()
    parts = (module.W_1.weight, module.W_1.bias, module.W_2.weight, module.W_2.bias)
    torch.testing.assert_close(module(x), feed_forward(x, *parts))


def test_by_hand():
    one = torch.ones(1, 1)
    x = torch.tensor([[-3.0], [2.0]])
    result = feed_forward(x, torch.tensor([[1.0], [-1.0]]), torch.tensor([1.0, 0.0]), torch.tensor([[10.0, 1.0]]), one[0])
    assert result.tolist() == [[4.0], [31.0]]


def test_shuffling_the_positions_shuffles_the_result():
    x, order = drawn(B, T, D), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(feed_forward(x[:, order], *weights()), feed_forward(x, *weights())[:, order])


def test_the_activation_is_handed_over():
    x, module = drawn(B, T, D), FeedForward(D, D_FF, F.gelu).double()
    torch.testing.assert_close(module(x), module.W_2(F.gelu(module.W_1(x))))


def test_gradients_are_right():
    assert torch.autograd.gradcheck(feed_forward, [t.requires_grad_() for t in (drawn(B, T, D), *weights())])
