"""The gated network: torch's own gate with a sigmoid and one more factor, a number by hand, and its parameters."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.blocks import FeedForward, GatedFeedForward, gated_feed_forward

B, T, D, D_FF = 2, 5, 7, 11


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def weights():
    return drawn(D_FF, D, seed=1), drawn(D_FF, D, seed=2), drawn(D, D_FF, seed=3)


def test_it_multiplies_torchs_gated_linear_unit_by_what_opens_it():
    """Swish(a) = a σ(a): SwiGLU is the unit with a sigmoid, times one more factor x W."""
    x, (W_gate, W_up, W_down) = drawn(B, T, D), weights()
    hidden = F.glu(x @ torch.cat([W_up, W_gate]).mT) * (x @ W_gate.mT)
    torch.testing.assert_close(gated_feed_forward(x, W_gate, W_up, W_down), hidden @ W_down.mT)


def test_by_hand():
    """σ(ln 3) = 3/4: gates 3/4 ln 3 and 0, features 2 and 5, of which the second stays behind a closed gate."""
    x, one, zero = torch.tensor([[1.0]]), torch.log(torch.tensor(3.0)), torch.tensor(0.0)
    W_gate, W_up, W_down = torch.stack([one, zero])[:, None], torch.tensor([[2.0], [5.0]]), torch.tensor([[4.0, 100.0]])
    torch.testing.assert_close(gated_feed_forward(x, W_gate, W_up, W_down), 6 * one.view(1, 1))


def test_the_module_is_the_function():
    x, module = drawn(B, T, D), GatedFeedForward(D, D_FF).double()
    parts = [layer.weight for layer in (module.W_gate, module.W_up, module.W_down)]
    torch.testing.assert_close(module(x), gated_feed_forward(x, *parts))


def test_two_thirds_of_the_hidden_units_are_as_many_parameters():
    """As of a network without gates and biases."""
    plain = FeedForward(D, 12)
    weights = plain.W_1.weight.numel() + plain.W_2.weight.numel()
    assert sum(p.numel() for p in GatedFeedForward(D, 8).parameters()) == weights


def test_shuffling_the_positions_shuffles_the_result():
    x, order = drawn(B, T, D), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(gated_feed_forward(x[:, order], *weights()), gated_feed_forward(x, *weights())[:, order])


def test_gradients_are_right():
    assert torch.autograd.gradcheck(gated_feed_forward, [t.requires_grad_() for t in (drawn(B, T, D), *weights())])


@pytest.mark.usefixtures("unchecked")
def test_a_transposed_matrix_is_refused():
    W_gate, W_up, W_down = weights()
    with pytest.raises(ValueError, match=r"W_down does not fit.*pass the transpose"):
        gated_feed_forward(drawn(B, T, D), W_gate, W_up, W_down.mT)
