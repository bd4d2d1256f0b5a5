"""A cell run over a sequence: torch's own layers, the fast forms, and padding that is never read."""

import itertools
import math

import pytest
import torch
from torch import nn

from course_lib.fast import fused_gru, fused_lstm, hoisted_rnn, recurrent
from course_lib.primitives import encode, gru, lstm, rnn, rnn_step

B, T, d, n = 5, 7, 3, 11
LENGTHS = [7, 3, 0, 1, 7]

EQUATIONS = {rnn: (1, 1), lstm: (4, 2), gru: (3, 1)}
"""For each equation form, its numbers of gates and states."""
FAST = {hoisted_rnn: rnn, fused_lstm: lstm, fused_gru: gru}
TORCHS = {rnn: nn.RNN, lstm: nn.LSTM, gru: nn.GRU}

every_form = pytest.mark.parametrize("run", [*EQUATIONS, *FAST], ids=lambda f: f.__name__)
padded_or_not = pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "padded"])


def inputs(normal, run, B=B, T=T):
    """One call's tensors: x, the states, W, U and the biases; unpack them with `flat`."""
    gates, n_states = EQUATIONS[FAST.get(run, run)]
    states = tuple(normal(B, n) for _ in range(n_states))
    return (
        normal(B, T, d),
        *states,
        normal(gates * n, d),
        normal(gates * n, n, scale=n**-0.5),
        normal(gates * n),
        normal(gates * n),
    )


def flat(run, lengths=None):
    """The form as a function of tensors alone, which returns the outputs and the last states."""
    lengths = None if lengths is None else torch.tensor(lengths, dtype=torch.int64)

    def call(x, *rest):
        states, last = run(x, rest[:-4], *rest[-4:], lengths=lengths)
        return states, *last

    return call


def test_two_steps_of_an_rnn_by_hand():
    """tanh(½ ln 3) = ½ at the first step; then 2·½ + ln 3 - 1 = ln 3, and tanh(ln 3) = ⅘."""
    x = torch.tensor([[[0.5 * math.log(3)], [math.log(3) - 1]]])
    one, zero = torch.ones(1, 1), torch.zeros(1)
    states, (last,) = rnn(x, (0 * one,), one, 2 * one, zero, zero)
    torch.testing.assert_close(states, torch.tensor([[[0.5], [0.8]]]))
    torch.testing.assert_close(last, torch.tensor([[0.8]]))


def test_three_steps_of_a_carousel_by_hand():
    """With gates i, f = 1, ½ and candidates near 1 the cell holds 1, 1½, 1¾; o = ½ lets half of its tanh out."""
    b = torch.tensor([100.0, 0.0, 100.0, 0.0])
    zeros = torch.zeros(4, 1)
    states, (h, c) = lstm(torch.zeros(1, 3, 1), (torch.zeros(1, 1),) * 2, zeros, zeros, b, 0 * b)
    torch.testing.assert_close(states.flatten(), torch.tensor([1.0, 1.5, 1.75]).tanh() / 2)
    torch.testing.assert_close((h.item(), c.item()), (math.tanh(1.75) / 2, 1.75))


def test_a_gru_that_moves_halfway_by_hand():
    """With z = ½ and candidates near 1 the state goes 0, ½, ¾, ⅞."""
    b = torch.tensor([0.0, 0.0, 100.0])
    zeros = torch.zeros(3, 1)
    states, _ = gru(torch.zeros(1, 3, 1), (torch.zeros(1, 1),), zeros, zeros, b, 0 * b)
    torch.testing.assert_close(states.flatten(), torch.tensor([0.5, 0.75, 0.875]))


@pytest.mark.parametrize("run", EQUATIONS, ids=lambda f: f.__name__)
def test_it_is_torchs_own_layer(normal, agree, run):
    layer = TORCHS[run](d, n, batch_first=True).double()

    def torchs(x, *rest):
        *states, W, U, b_W, b_U = rest
        hx = tuple(s[None] for s in states)
        weights = {"weight_ih_l0": W, "weight_hh_l0": U, "bias_ih_l0": b_W, "bias_hh_l0": b_U}
        outputs, last = torch.func.functional_call(layer, weights, (x, hx if len(hx) > 1 else hx[0]))
        return outputs, *(s[0] for s in (last if isinstance(last, tuple) else (last,)))

    agree(flat(run), torchs, *inputs(normal, run))


@padded_or_not
@pytest.mark.parametrize("fast", FAST, ids=lambda f: f.__name__)
def test_the_fast_form_computes_the_same_values_and_gradients(normal, agree, fast, lengths):
    agree(flat(fast, lengths), flat(FAST[fast], lengths), *inputs(normal, fast))


@padded_or_not
@pytest.mark.parametrize("fast", FAST, ids=lambda f: f.__name__)
def test_the_fast_form_takes_what_does_not_lie_side_by_side_in_memory(normal, agree, fast, lengths):
    x, *rest = inputs(normal, fast, B=T, T=B)
    strided = lambda form: lambda x, *rest: form(x.transpose(0, 1)[..., ::2], *rest)  # noqa: E731
    *states, W, U, b_W, b_U = rest
    rest = *(normal(B, n) for _ in states), normal(len(W), 2), U, b_W, b_U
    agree(strided(flat(fast, lengths)), strided(flat(FAST[fast], lengths)), x, *rest)


@every_form
def test_gradients_against_differences(normal, run):
    gates, n_states = EQUATIONS[FAST.get(run, run)]
    states = (normal(2, 2) for _ in range(n_states))
    small = normal(2, 3, 5), *states, normal(2 * gates, 5), normal(2 * gates, 2), normal(2 * gates), normal(2 * gates)
    assert torch.autograd.gradcheck(flat(run, [3, 1]), small)


@every_form
def test_padding_is_never_read(normal, run):
    """Numbers after the end have no effect, and no gradient reaches them."""
    x, *rest = inputs(normal, run)
    results = flat(run, LENGTHS)(x, *rest)
    noisy = x.detach().clone()
    for b, length in enumerate(LENGTHS):
        noisy[b, length:] = 1e3
    torch.testing.assert_close(flat(run, LENGTHS)(noisy, *rest), results, atol=0, rtol=0)
    sum(r.square().sum() for r in results).backward()
    for b, length in enumerate(LENGTHS):
        assert not x.grad[b, length:].any()
        assert x.grad[b, :length].all()


@every_form
def test_each_sequence_of_a_padded_batch_is_read_as_if_alone(normal, run):
    """Its outputs are 0 after its end, and its last state is that of its last real token, or the first one of all."""
    x, *rest = inputs(normal, run)
    *states, W, U, b_W, b_U = rest
    outputs, *last = flat(run, LENGTHS)(x, *rest)
    for b, length in enumerate(LENGTHS):
        alone, *end = flat(run)(x[b : b + 1, :length], *(s[b : b + 1] for s in states), W, U, b_W, b_U)
        torch.testing.assert_close(outputs[b, :length], alone[0])
        assert not outputs[b, length:].any()
        torch.testing.assert_close([s[b] for s in last], [s[0] for s in end])


@every_form
def test_full_lengths_are_no_lengths(normal, run):
    tensors = inputs(normal, run)
    torch.testing.assert_close(flat(run, [T] * B)(*tensors), flat(run)(*tensors))


@every_form
def test_two_halves_are_the_whole(normal, run):
    """The last state carries all that the second half needs of the first."""
    x, *rest = inputs(normal, run)
    weights = rest[-4:]
    whole, *end = flat(run)(x, *rest)
    first, *middle = flat(run)(x[:, :3], *rest)
    second, *last = flat(run)(x[:, 3:], *middle, *weights)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(last, end)


@every_form
def test_no_state_depends_on_a_later_input(normal, run):
    x, *rest = inputs(normal, run)
    outputs, *_ = flat(run)(x, *rest)
    for t in range(T):
        (gradient,) = torch.autograd.grad(outputs[:, t].sum(), x, retain_graph=True)
        assert not gradient[:, t + 1 :].any()
        assert gradient[:, : t + 1].all()


@padded_or_not
@every_form
def test_an_empty_sequence_leaves_the_state_as_it_is(normal, run, lengths):
    x, *rest = inputs(normal, run, T=0)
    outputs, *last = flat(run, lengths and [0] * B)(x, *rest)
    assert outputs.shape == (B, 0, n)
    for before, after in zip(rest[:-4], last, strict=True):
        assert (before == after).all()


@padded_or_not
@every_form
def test_no_sequence_gives_no_output(normal, run, lengths):
    outputs, *last = flat(run, lengths and [])(*inputs(normal, run, B=0))
    assert outputs.shape == (0, T, n)
    assert all(s.shape == (0, n) for s in last)


def encoder_inputs(normal, T=T):
    return normal(B, T, d), normal(B, n), normal(n, d), normal(n, n, scale=n**-0.5), normal(n)


def test_encoding_is_an_rnn_over_a_padded_batch(normal, agree):
    lengths = torch.tensor(LENGTHS)

    def by_rnn(x, h, W, U, b):
        states, (last,) = rnn(x, (h,), W, U, b, torch.zeros_like(b), lengths)
        return states, last

    agree(lambda x, h, W, U, b: encode(x, lengths, h, W, U, b), by_rnn, *encoder_inputs(normal))


def test_encoding_takes_each_sequence_step_by_step(normal, agree):
    def by_loop(x, h, W, U, b):
        rows, last = [], []
        for i, length in enumerate(LENGTHS):
            state, row = h[i], []
            for t in range(length):
                state = rnn_step(x[i, t], state, W, U, b)
                row.append(state)
            rows.append(torch.stack([*row, *itertools.repeat(torch.zeros_like(state), T - length)]))
            last.append(state)
        return torch.stack(rows), torch.stack(last)

    lengths = torch.tensor(LENGTHS)
    agree(lambda x, h, W, U, b: encode(x, lengths, h, W, U, b), by_loop, *encoder_inputs(normal))


def test_encoding_by_hand():
    """tanh(½ ln 3) = ½, tanh(ln 3) = ⅘; the second sentence is one token long, followed by a 9."""
    x = torch.tensor([[[0.5 * math.log(3)], [math.log(3) - 1]], [[math.log(3)], [9.0]]])
    one = torch.ones(1, 1)
    states, last = encode(x, torch.tensor([2, 1]), torch.zeros(2, 1), one, 2 * one, torch.zeros(1))
    torch.testing.assert_close(states, torch.tensor([[[0.5], [0.8]], [[0.8], [0.0]]]))
    torch.testing.assert_close(last, torch.tensor([[0.8], [0.8]]))


def test_encoding_an_empty_batch_leaves_the_state_as_it_is(normal):
    x, h, W, U, b = encoder_inputs(normal, T=0)
    states, last = encode(x, torch.zeros(B, dtype=torch.int64), h, W, U, b)
    assert states.shape == (B, 0, n)
    assert (last == h).all()


def test_encoding_against_differences(normal):
    small = normal(2, 3, 5), normal(2, 2), normal(2, 5), normal(2, 2), normal(2)
    assert torch.autograd.gradcheck(lambda x, *rest: encode(x, torch.tensor([3, 1]), *rest), small)


@pytest.mark.parametrize("run", [fused_lstm, fused_gru])
@padded_or_not
def test_a_kernel_is_told_to_train_if_gradients_may_be_asked_for(run, lengths, normal, monkeypatch):
    """A CPU needs no such flag; without it cuDNN has no backward pass."""
    flags = []

    def observed(kernel, *rest):
        flags.append(rest[[isinstance(argument, float) for argument in rest].index(True) + 1])  # after the dropout
        return call(kernel, *rest)

    call = recurrent._call
    monkeypatch.setattr(recurrent, "_call", observed)
    flat(run, lengths)(*inputs(normal, run))
    with torch.no_grad():
        flat(run, lengths)(*inputs(normal, run))
    assert flags == [True, False]
