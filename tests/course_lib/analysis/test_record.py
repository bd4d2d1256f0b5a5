"""Recording attention collects the results of sub-modules, changes nothing, and removes its hooks."""

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.attention.additive import AdditiveAttention
from course_lib.attention.multihead import MultiHead
from course_lib.fast import fused_scaled_dot_product_attention

B, T, d_model, H = 2, 5, 6, 3


class Two(nn.Module):
    """Two layers of attention, the second over the first; a Linear between them returns no Attended."""

    def __init__(self, mechanism=None):
        super().__init__()
        self.first = MultiHead(d_model, H) if mechanism is None else MultiHead(d_model, H, mechanism)
        self.between = nn.Linear(d_model, d_model)
        self.second = MultiHead(d_model, 1)

    def forward(self, x):
        x = self.between(self.first(x, x, x).context)
        return self.second(x, x, x).context


def hooks(module):
    return sum(len(part._forward_hooks) for part in module.modules())


def test_every_attention_is_kept_under_its_name_in_order_and_detached():
    model, x = Two(), torch.randn(B, T, d_model)
    with record(model) as seen:
        assert torch.equal(model(x), model(x))
    assert {name: len(calls) for name, calls in seen.items()} == {"first": 2, "second": 2}
    kept = seen["first"][0]
    assert torch.equal(kept.weights, model.first(x, x, x).weights)
    assert kept.weights.shape == (B, H, T, T)
    assert not kept.weights.requires_grad
    assert not kept.context.requires_grad


def test_gradients_flow_as_if_nobody_watched():
    model, x = Two(), torch.randn(B, T, d_model)
    model(x).square().sum().backward()
    alone = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with record(model):
        model(x).square().sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(alone, model.parameters(), strict=True))


def test_hooks_are_gone_after_the_block_also_after_an_exception():
    model = Two()
    with record(model):
        assert hooks(model) > 0
    assert hooks(model) == 0
    with pytest.raises(RuntimeError, match="inside"), record(model):
        raise RuntimeError("inside")
    assert hooks(model) == 0


def test_nothing_is_collected_after_the_block():
    model, x = Two(), torch.randn(B, T, d_model)
    with record(model) as seen:
        pass
    model(x)
    assert seen == {}


def test_a_mechanism_that_is_a_module_appears_beside_the_layer_that_owns_it():
    model, x = Two(AdditiveAttention(2, 2, 7)), torch.randn(B, T, d_model)
    with record(model) as seen:
        model(x)
    assert list(seen) == ["first.mechanism", "first", "second"]


def test_a_fused_form_has_no_weights_to_keep_and_the_module_itself_has_the_empty_name():
    layer, x = MultiHead(d_model, H, fused_scaled_dot_product_attention), torch.randn(B, T, d_model)
    with record(layer) as seen:
        layer(x, x, x)
    assert seen[""][0].weights is None
    assert seen[""][0].context.shape == (B, T, d_model)
