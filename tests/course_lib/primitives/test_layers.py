"""RNN, LSTM and GRU as modules: torch's own, weight for weight, in outputs and gradients."""

import pytest
import torch
from torch import nn

from course_lib.fast import fused_gru, fused_lstm, hoisted_rnn
from course_lib.primitives import GRU, LSTM, RNN

B, T, d, n = 5, 7, 3, 11

PAIRS = [(RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)]
FORMS = [(RNN, {}), (RNN, {"run": hoisted_rnn}), (LSTM, {}), (LSTM, {"run": fused_lstm}), (GRU, {}), (GRU, {"run": fused_gru})]
FORM_NAMES = [f"{kind.__name__} {form['run'].__name__ if form else 'equation'}" for kind, form in FORMS]
each_form = pytest.mark.parametrize(("kind", "form"), FORMS, ids=FORM_NAMES)


def torchs(kind):
    return dict(PAIRS)[kind](d, n, batch_first=True).double()


@each_form
@pytest.mark.parametrize("with_state", [False, True])
def test_it_is_torchs_own_with_its_weights(normal, kind, form, with_state):
    ours, theirs = kind(d, n, **form).double(), torchs(kind)
    ours.load_state_dict(theirs.state_dict())
    inputs = [normal(B, T, d)]
    state = tuple(normal(B, n) for _ in range(kind.n_states)) if with_state else None
    hx = None if state is None else tuple(s[None] for s in state)

    outputs, last = ours(inputs[0], state)
    their_outputs, their_last = theirs(inputs[0], hx if hx is None or len(hx) > 1 else hx[0])
    their_last = tuple(s[0] for s in (their_last if isinstance(their_last, tuple) else (their_last,)))
    torch.testing.assert_close((outputs, *last), (their_outputs, *their_last), atol=1e-10, rtol=1e-10)

    pulls = [normal(*t.shape).detach() for t in (outputs, *last)]
    wanted = [*inputs, *(state or ())]
    ours_back = torch.autograd.grad((outputs, *last), [*ours.parameters(), *wanted], pulls)
    theirs_back = torch.autograd.grad((their_outputs, *their_last), [*theirs.parameters(), *wanted], pulls)
    torch.testing.assert_close(ours_back, theirs_back, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("kind", "their_kind"), PAIRS)
def test_its_parameters_have_torchs_names_and_shapes(kind, their_kind):
    def shapes(module):
        return {name: tuple(p.shape) for name, p in module.named_parameters()}

    assert shapes(kind(d, n)) == shapes(their_kind(d, n))


@pytest.mark.parametrize(("kind", "their_kind"), PAIRS)
def test_it_starts_from_the_weights_that_torch_draws(kind, their_kind):
    weights = [torch.cat([p.flatten() for p in make(61, 67).parameters()]) for make in (kind, their_kind)]
    bound = 67**-0.5
    for drawn in weights:
        assert drawn.abs().max().item() == pytest.approx(bound, rel=1e-2)
        assert drawn.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


@each_form
def test_a_padded_batch_ends_where_its_sequences_end(normal, kind, form):
    module = kind(d, n, **form).double()
    x = normal(B, T, d)
    lengths = [7, 3, 0, 1, 7]
    outputs, last = module(x, lengths=torch.tensor(lengths))
    for b, length in enumerate(lengths):
        assert not outputs[b, length:].any()
        expected = outputs[b, length - 1] if length else torch.zeros(n, dtype=torch.float64)
        torch.testing.assert_close(last[0][b], expected)


@each_form
def test_every_parameter_is_trained(normal, kind, form):
    module = kind(d, n, **form).double()
    module(normal(B, T, d))[0].square().sum().backward()
    assert all(p.grad.all() for p in module.parameters())


def test_forget_bias_sets_the_sum_of_the_two_biases_of_the_forget_gate():
    torch.manual_seed(0)
    plain = LSTM(d, n)
    torch.manual_seed(0)
    biased = LSTM(d, n, forget_bias=4.0)
    forget = torch.arange(4 * n).view(4, n)[1]
    both = biased.bias_ih_l0 + biased.bias_hh_l0
    assert (both[forget] == 4).all()
    others = torch.ones(4 * n, dtype=torch.bool)
    others[forget] = False
    assert (both[others] == (plain.bias_ih_l0 + plain.bias_hh_l0)[others]).all()
    assert (biased.weight_ih_l0 == plain.weight_ih_l0).all()


def test_an_open_forget_gate_remembers_for_longer(normal):
    """The fraction of the first cell state that is left after T steps grows with the bias."""

    def left(bias):
        torch.manual_seed(0)
        module = LSTM(d, n, forget_bias=bias).double()
        c_0 = normal(B, n)
        _, (_, c) = module(torch.zeros(B, 50, d, dtype=torch.float64), (torch.zeros(B, n, dtype=torch.float64), c_0))
        (gradient,) = torch.autograd.grad(c.sum(), c_0)
        return gradient.norm().item()

    assert left(0.0) < 1e-3 * left(2.0) < 1e-3 * left(4.0)
