"""A bidirectional GRU mixes tokens from both sides, as torch's own does with the same weights."""

import torch
from torch import nn

from course_lib.models.bigru_encoder import bidirectional_gru
from course_tools.lectures.lecture_04.experiments import BidirectionalGRU


def test_it_is_torchs_bidirectional_layer_with_the_same_weights():
    torch.manual_seed(0)
    layer, of_torch = BidirectionalGRU(5, 3), nn.GRU(5, 3, batch_first=True, bidirectional=True)
    weights = [*layer.forwards.parameters(), *layer.backwards.parameters()]
    for ours, theirs in zip(weights, of_torch.parameters(), strict=True):
        ours.data.copy_(theirs)
    x = torch.randn(2, 7, 5)
    states, last = layer(x)
    wanted, ends = of_torch(x)
    torch.testing.assert_close(states, wanted)
    torch.testing.assert_close(last, torch.cat([*ends], dim=-1))


def test_every_position_depends_on_every_token_and_the_forms_agree():
    torch.manual_seed(0)
    layer, x = BidirectionalGRU(5, 3), torch.randn(1, 7, 5, requires_grad=True)
    states, _ = layer(x)
    for t in range(7):
        (gradient,) = torch.autograd.grad(states[0, t].sum(), x, retain_graph=True)
        assert gradient.abs().sum(-1).min() > 0
    layer.run = bidirectional_gru
    torch.testing.assert_close(layer(x)[0], states)
