"""One LSTM unit set by hand stores the last marked bit."""

import pytest
import torch

from course_lib.primitives import lstm_step
from course_tools.bank.lecture_01.flip_flop_weights import flip_flop_weights


def states(x):
    """The states of the unit after each input of x (T, d)."""
    weights = flip_flop_weights(x.shape[1])
    h = c = torch.zeros(1)
    found = []
    for x_t in x:
        h, c = lstm_step(x_t, h, c, *weights)
        found.append(h.item())
    return torch.tensor(found)


def test_a_marked_bit_is_written_kept_and_overwritten():
    """tanh(±1) = ±0.76."""
    x = torch.tensor([[-1.0, 0], [1, 1], [-1, 0], [-1, 0], [-1, 1], [1, 0], [1, 1]])
    torch.testing.assert_close(states(x), 0.7615 * torch.tensor([0.0, 1, 1, 1, -1, -1, 1]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("bit", [-1.0, 1.0])
def test_a_bit_survives_a_thousand_others_and_the_noise(bit):
    x = torch.randn(1000, 7, generator=torch.Generator().manual_seed(0))
    x[:, 0], x[:, 1] = x[:, 0].sign(), 0
    x[0, 0], x[0, 1] = bit, 1
    assert (bit * states(x)).min() > 0.7
