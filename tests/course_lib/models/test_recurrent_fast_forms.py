"""Every fast form of a recurrent layer, of the bidirectional encoder and of Bahdanau's decoder agrees with its equation."""

import pytest
import torch
from torch import nn

from course_lib.attention import AdditiveAttention
from course_lib.fast import (
    fused_bidirectional_gru,
    fused_gru,
    fused_lstm,
    hoisted_bahdanau_steps,
    hoisted_rnn,
    stacked_bidirectional_gru,
)
from course_lib.models import bahdanau_steps, bidirectional_gru
from course_lib.models.bigru_encoder import Encoded
from course_lib.primitives import GRU, LSTM, RNN, gru, lstm, padding_mask, rnn

B, T, T_k, d, d_k, d_v, d_a, n = 5, 7, 11, 3, 13, 17, 19, 2
LENGTHS = torch.tensor([7, 3, 0, 1, 7])


class Layer(nn.Module):
    """A recurrent layer as a function of its input and its lengths."""

    def __init__(self, run):
        super().__init__()
        kind = {rnn: RNN, hoisted_rnn: RNN, lstm: LSTM, fused_lstm: LSTM, gru: GRU, fused_gru: GRU}[run]
        self.cell = kind(d, n, run)

    def forward(self, x, lengths):
        states, last = self.cell(x, lengths=lengths)
        return states, *last


class BothWays(nn.Module):
    """The bidirectional encoder as a function of its input and its lengths."""

    def __init__(self, run):
        super().__init__()
        self.run, self.forwards, self.backwards = run, GRU(d, n), GRU(d, n)

    def forward(self, x, lengths):
        return self.run(x, lengths, self.forwards, self.backwards)


class Decoder(nn.Module):
    """Bahdanau's decoder as a function of the source's annotations, x (B, T, d), and their lengths."""

    def __init__(self, run):
        super().__init__()
        self.run, self.attention, self.cell = run, AdditiveAttention(n, d, d_a), GRU(d_k + d, n)
        self.words, self.state = nn.Parameter(torch.randn(B, T_k, d_k)), nn.Parameter(torch.randn(B, n))

    def forward(self, x, lengths):
        encoded = Encoded(x, x, x.new_zeros(B, d), padding_mask(lengths, x.shape[1]))
        states, attended = self.run(self.words[: len(x)], self.state[: len(x)], encoded, self.attention, self.cell)
        return states, *attended


PAIRS = {
    "hoisted RNN": (Layer, hoisted_rnn, rnn),
    "fused LSTM": (Layer, fused_lstm, lstm),
    "fused GRU": (Layer, fused_gru, gru),
    "fused both ways": (BothWays, fused_bidirectional_gru, bidirectional_gru),
    "stacked both ways": (BothWays, stacked_bidirectional_gru, bidirectional_gru),
    "hoisted Bahdanau": (Decoder, hoisted_bahdanau_steps, bahdanau_steps),
}
each_pair = pytest.mark.parametrize("pair", PAIRS)


def both(pair):
    make, fast, equation = PAIRS[pair]
    torch.manual_seed(0)
    slow, quick = make(equation).double(), make(fast).double()
    quick.load_state_dict(slow.state_dict())
    return quick, slow


def values_and_gradients(form, x, lengths):
    x = x.detach().clone().requires_grad_()
    out = form(x, lengths)
    total = sum(each.square().sum() for each in out)
    return out, torch.autograd.grad(total, [x, *form.parameters()])


@each_pair
@pytest.mark.parametrize("length", [1, T])
def test_values_and_gradients_agree(normal, pair, length):
    x, lengths = normal(B, length, d), LENGTHS.clamp(max=length)
    found, wanted = (values_and_gradients(form, x, lengths) for form in both(pair))
    torch.testing.assert_close(found, wanted)


@each_pair
def test_strided_and_expanded_inputs_agree(normal, pair):
    x = normal(B, T, d).detach()
    quick, slow = both(pair)
    torch.testing.assert_close(quick(x.mT.contiguous().mT, LENGTHS), slow(x, LENGTHS))
    expanded = x[:1].expand(B, T, d)
    torch.testing.assert_close(quick(expanded, LENGTHS), slow(expanded.contiguous(), LENGTHS))


@each_pair
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_padding_that_holds_nan_or_infinity_has_no_effect(normal, pair, poison):
    """On no output of either form, and on no gradient of the fast one."""
    x = normal(B, T, d).detach()
    poisoned = x.clone()
    poisoned[torch.arange(T) >= LENGTHS[:, None]] = poison
    quick, slow = both(pair)
    for form in (quick, slow):
        torch.testing.assert_close(form(poisoned, LENGTHS), form(x, LENGTHS))
    torch.testing.assert_close(values_and_gradients(quick, poisoned, LENGTHS), values_and_gradients(quick, x, LENGTHS))


@pytest.mark.parametrize("run", [rnn, lstm, gru])
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_padding_has_no_effect_on_the_gradients_of_an_equation(normal, run, poison):
    x = normal(B, T, d).detach()
    poisoned = x.clone()
    poisoned[torch.arange(T) >= LENGTHS[:, None]] = poison
    layer = Layer(run).double()
    torch.testing.assert_close(values_and_gradients(layer, poisoned, LENGTHS), values_and_gradients(layer, x, LENGTHS))


@each_pair
def test_second_derivatives_agree(normal, pair):
    found, drawn = [], normal(B, T, d).detach()
    for form in both(pair):
        x = drawn.clone().requires_grad_()
        leaves = [x, *form.parameters()]
        first = torch.autograd.grad(sum(each.square().sum() for each in form(x, LENGTHS)), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
    torch.testing.assert_close(*found)


@each_pair
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_and_no_more(normal, pair, dtype):
    """States are in -1…1, and each of the 7 steps rounds a few times: four units of rounding for each."""
    quick, slow = both(pair)
    x = normal(B, T, d).detach().to(dtype)
    quick, slow = quick.to(dtype), slow.to(dtype).double()
    for half, exact in zip(quick(x, LENGTHS), slow(x.double(), LENGTHS), strict=True):
        assert half.dtype == dtype
        torch.testing.assert_close(half.double(), exact, rtol=0, atol=28 * torch.finfo(dtype).eps)
