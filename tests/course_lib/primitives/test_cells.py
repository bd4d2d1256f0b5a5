"""Cells by their equations: torch's own cells, gate by gate, with torch's weights."""

import math

import pytest
import torch
from torch import nn

from course_lib.primitives import gru_step, lstm_step, rnn_step

B, d, n = 3, 5, 7
LN3 = math.log(3)


def column(*numbers):
    return torch.tensor(numbers).view(-1, 1)


def parameters(normal, gates):
    """W, U and the two biases."""
    return normal(gates * n, d), normal(gates * n, n), normal(gates * n), normal(gates * n)


def test_a_step_of_the_rnn_by_hand():
    """1·2 + 2·(-1) + ½ ln 3, and tanh(½ ln 3) = ½."""
    h = rnn_step(column(2.0), column(-1.0), column(1.0), column(2.0), torch.tensor([LN3 / 2]))
    torch.testing.assert_close(h, column(0.5))


def test_a_step_of_the_lstm_by_hand():
    """Gates i, f, o = ¾, ½, ¼, candidate ½, c = ln 3 - ¾: c' = ½ (ln 3 - ¾) + ¾·½ = ½ ln 3, and h' = ¼ tanh(½ ln 3) = ⅛."""
    b = torch.tensor([LN3, 0.0, LN3 / 2, -LN3])
    h, c = lstm_step(column(0.0), column(0.0), column(LN3 - 0.75), column(*[9.0] * 4), column(*[9.0] * 4), b)
    torch.testing.assert_close(c, column(LN3 / 2))
    torch.testing.assert_close(h, column(0.125))


def test_a_step_of_the_gru_by_hand():
    """Gates r, z = ½, ¾; candidate tanh(0 + ½ ln 3) = ½ from h = 2: h' = ¼·½ + ¾·2 = 1.625."""
    b_W, b_U = torch.tensor([0.0, LN3, 0.0]), torch.tensor([0.0, 0.0, LN3])
    h = gru_step(column(0.0), column(2.0), column(*[9.0] * 3), column(*[0.0] * 3), b_W, b_U)
    torch.testing.assert_close(h, column(1.625))


def test_the_rnn_step_is_torchs_own(normal, agree):
    cell = nn.RNNCell(d, n).double()

    def torchs(x, h, W, U, b_W, b_U):
        return torch.func.functional_call(cell, cell_weights(W, U, b_W, b_U), (x, h))

    ours = lambda x, h, W, U, b_W, b_U: rnn_step(x, h, W, U, b_W + b_U)  # noqa: E731
    agree(ours, torchs, normal(B, d), normal(B, n), *parameters(normal, 1))


def test_the_lstm_step_is_torchs_own(normal, agree):
    cell = nn.LSTMCell(d, n).double()

    def torchs(x, h, c, W, U, b_W, b_U):
        return torch.func.functional_call(cell, cell_weights(W, U, b_W, b_U), (x, (h, c)))

    ours = lambda x, h, c, W, U, b_W, b_U: lstm_step(x, h, c, W, U, b_W + b_U)  # noqa: E731
    agree(ours, torchs, normal(B, d), normal(B, n), normal(B, n), *parameters(normal, 4))


def test_the_gru_step_is_torchs_own(normal, agree):
    cell = nn.GRUCell(d, n).double()

    def torchs(x, h, W, U, b_W, b_U):
        return torch.func.functional_call(cell, cell_weights(W, U, b_W, b_U), (x, h))

    agree(gru_step, torchs, normal(B, d), normal(B, n), *parameters(normal, 3))


def cell_weights(W, U, b_W, b_U):
    return {"weight_ih": W, "weight_hh": U, "bias_ih": b_W, "bias_hh": b_U}


def test_lstm_gates_stand_in_torchs_order_input_forget_candidate_output(normal):
    """Each block of rows is opened or closed separately, and acts as the gate of that name."""
    x, h, c = normal(B, d), normal(B, n), normal(B, n)
    W, U = torch.zeros(4 * n, d, dtype=torch.float64), torch.zeros(4 * n, n, dtype=torch.float64)
    shut, open_ = -1e3, 1e3

    def step(i, f, g, o):
        b = torch.tensor([i, f, g, o], dtype=torch.float64).repeat_interleave(n)
        return lstm_step(x, h, c, W, U, b)

    kept = step(i=shut, f=open_, g=0.3, o=open_)
    torch.testing.assert_close(kept, (c.tanh(), c))
    written = step(i=open_, f=shut, g=0.3, o=open_)
    torch.testing.assert_close(written[1], torch.full_like(c, math.tanh(0.3)))
    added = step(i=open_, f=open_, g=0.3, o=open_)
    torch.testing.assert_close(added[1], c + math.tanh(0.3))
    silent = step(i=open_, f=open_, g=0.3, o=shut)
    torch.testing.assert_close(silent, (torch.zeros_like(h), c + math.tanh(0.3)))


def test_gru_gates_stand_in_torchs_order_reset_update_candidate(normal):
    """An open update gate keeps the state; a closed one writes the candidate, which reads the state through the reset gate."""
    x, h = normal(B, d), normal(B, n)
    W = torch.zeros(3 * n, d, dtype=torch.float64)
    U = torch.cat([torch.zeros(2 * n, n, dtype=torch.float64), torch.eye(n, dtype=torch.float64)])
    b_U = torch.zeros(3 * n, dtype=torch.float64)
    shut, open_ = -1e3, 1e3

    def step(r, z):
        return gru_step(x, h, W, U, torch.tensor([r, z, 0.3], dtype=torch.float64).repeat_interleave(n), b_U)

    torch.testing.assert_close(step(r=open_, z=open_), h)
    torch.testing.assert_close(step(r=open_, z=shut), (0.3 + h).tanh())
    torch.testing.assert_close(step(r=shut, z=shut), torch.full_like(h, math.tanh(0.3)))


def test_a_state_never_leaves_the_range_of_tanh(normal):
    x, h = normal(B, d, scale=100), normal(B, n, scale=100)
    W, U, b, _ = parameters(normal, 1)
    assert (rnn_step(x, h, W, U, b).abs() <= 1).all()
    W, U, b, _ = parameters(normal, 4)
    assert (lstm_step(x, h, normal(B, n, scale=100), W, U, b)[0].abs() <= 1).all()


def test_the_gru_moves_from_its_state_towards_a_candidate(normal):
    """Between two numbers: the new state lies within the old one and ±1."""
    x, h = normal(B, d), normal(B, n, scale=3)
    new = gru_step(x, h, *parameters(normal, 3))
    assert (new <= h.clamp(min=1)).all()
    assert (new >= h.clamp(max=-1)).all()


@pytest.mark.parametrize("batch", [(), (B,), (2, B)])
def test_every_example_is_its_own(normal, batch):
    x, h, c = normal(*batch, d), normal(*batch, n), normal(*batch, n)
    last = (-1,) * len(batch)
    steps = (
        (lambda x, h, c, *p: rnn_step(x, h, *p[:3]), 1),
        (lambda x, h, c, *p: lstm_step(x, h, c, *p[:3])[1], 4),
        (lambda x, h, c, *p: gru_step(x, h, *p), 3),
    )
    for step, gates in steps:
        weights = parameters(normal, gates)
        whole = step(x, h, c, *weights)
        assert whole.shape == (*batch, n)
        torch.testing.assert_close(whole[last], step(x[last], h[last], c[last], *weights))


def test_gradients_against_differences(normal):
    x, h, c = normal(2, 3), normal(2, 2), normal(2, 2)
    assert torch.autograd.gradcheck(rnn_step, (x, h, normal(2, 3), normal(2, 2), normal(2)))
    assert torch.autograd.gradcheck(lstm_step, (x, h, c, normal(8, 3), normal(8, 2), normal(8)))
    assert torch.autograd.gradcheck(gru_step, (x, h, normal(6, 3), normal(6, 2), normal(6), normal(6)))
