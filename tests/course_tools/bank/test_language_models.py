"""The evidence of a recurrence's gates: a GRU, a plain RNN and an LSTM are told apart in whatever form they are written."""

import pytest
import torch
from torch import nn

from course_tools.bank import language_models
from course_tools.checks.attention_probe import probe
from course_tools.checks.training_record import Measured

D = 8


def lstm_by_hand(sigmoid, last):
    """An LSTM whose gates are computed by `sigmoid` and whose cell is read through `last`."""
    gates = nn.Linear(2 * D, 4 * D)

    def model(x):
        h = c = torch.zeros(len(x), D)
        states = []
        for one in x.unbind(1):
            i, f, g, o = gates(torch.cat([one, h], -1)).chunk(4, -1)
            c = sigmoid(f) * c + sigmoid(i) * g.tanh()
            h = sigmoid(o) * last(c)
            states.append(h)
        return torch.stack(states, 1)

    return model


def of(layer):
    return lambda x: layer(x)[0]


def by_exp(x):
    return 1 / (1 + (-x).exp())


MODELS = {
    "lstm": (of(nn.LSTM(D, D, batch_first=True)), set()),
    "lstm by hand": (lstm_by_hand(torch.sigmoid, torch.tanh), set()),
    "sigmoid by hand": (lstm_by_hand(by_exp, torch.tanh), set()),
    "without the last tanh": (lstm_by_hand(torch.sigmoid, lambda c: c), set()),
    "gru": (of(nn.GRU(D, D, batch_first=True)), {"gru"}),
    "rnn": (of(nn.RNN(D, D, batch_first=True)), {"rnn"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_recurrence_is_told_by_its_gates(name):
    torch.manual_seed(0)
    model, expected = MODELS[name]
    x = torch.randn(3, language_models.T, D)
    probes = [part for n in (language_models.T, language_models.SHORT) for part in probe(model, (x[:, :n],))]
    measured = Measured(*[None] * len(Measured._fields))._replace(probes=probes)
    assert language_models.steps_from_token_to_token(measured, {})
    shown = {"gru": language_models.has_the_gates_of_a_gru, "rnn": language_models.has_no_gates}
    assert {kind for kind, shows in shown.items() if shows(measured, {})} == expected
