"""The parallel forms of the rules read what the equations read after the last write."""

import torch
import torch.nn.functional as F

from course_lib.attention import delta_attention, gated_linear_attention
from course_tools.lectures.lecture_18 import experiments


def _inputs(n_gates):
    torch.manual_seed(0)
    q, k = torch.randn(3, 1, 5), F.normalize(torch.randn(3, 11, 5), dim=-1)
    return q, k, torch.randn(3, 11, 7), torch.randn(3, 11, n_gates)


def test_a_gate_reads_what_gated_linear_attention_reads_last():
    for n_gates in (1, 5):
        q, k, v, gates = _inputs(n_gates)
        equation = gated_linear_attention(q.expand(-1, 11, -1), k, v, F.logsigmoid(gates))[:, -1:]
        torch.testing.assert_close(experiments.gate_rule(q, k, v, gates), equation, atol=1e-5, rtol=1e-4)


def test_the_delta_rule_reads_what_its_equation_reads_last():
    for n_gates in (1, 2):
        q, k, v, gates = _inputs(n_gates)
        decay = F.logsigmoid(gates[..., 1]) if n_gates == 2 else None
        equation = delta_attention(q.expand(-1, 11, -1), k, v, gates[..., 0].sigmoid(), decay)[:, -1:]
        torch.testing.assert_close(experiments.delta_rule(q, k, v, gates), equation, atol=1e-5, rtol=1e-4)


def test_softmax_prefers_what_is_recent():
    q = k = F.normalize(torch.ones(1, 2, 5), dim=-1)
    read = experiments.RecentSoftmax()(q[:, :1], k, torch.tensor([[[0.0], [1.0]]]), torch.zeros(1, 2, 1))
    assert 0.5 < read.item() < 1
