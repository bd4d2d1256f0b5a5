"""Costs of attention counted by hand, and a transformer that generates by a given step."""

import pytest
import torch

from course_lib.attention import linear_attention_step, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import LinearTransformer
from course_tools.notebook.attention_costs import (
    StepBy,
    floats_in,
    peak_mib,
    show_costs,
)
from course_tools.notebook.layer_costs import exponent


def test_attention_holds_scores_and_weights():
    assert peak_mib(scaled_dot_product_attention, 512) >= 2 * 512 * 512 * 4 / 2**20


def test_lengths_are_doubled_up_to_the_longest_and_stored_weights_grow_quadratically(capsys):
    forms = {"stored": (scaled_dot_product_attention, 512), "fused": (fused_scaled_dot_product_attention, 1024)}
    costs = show_costs(forms, shortest=128, d=8)
    assert {name: lengths for name, (lengths, _) in costs.memory.items()} == {
        "stored": [128, 256, 512],
        "fused": [128, 256, 512, 1024],
    }
    assert exponent(*costs.memory["stored"]) == pytest.approx(2, abs=0.1)
    assert min(costs.times["stored"][1]) > 0
    assert "Peak memory in MiB against the number of tokens" in capsys.readouterr().out


def test_the_state_of_a_linear_transformer_does_not_grow():
    torch.manual_seed(0)
    model = LinearTransformer(11, Sizes(12, 3, 24, 2)).eval()
    stepwise, tokens = StepBy(model, linear_attention_step), torch.randint(11, (1, 9))
    with torch.no_grad():
        states = [stepwise.start(tokens[:, :n]) for n in (3, 8)]
        assert [floats_in(state) for state in states] == [2 * 3 * (4 * 4 + 4)] * 2
        logits, _ = stepwise.step(tokens[:, 8], states[1])
        torch.testing.assert_close(logits, model(tokens)[:, -1], rtol=1e-4, atol=1e-5)


def test_another_form_of_the_step_is_called():
    def refused(*inputs):
        raise ZeroDivisionError

    stepwise = StepBy(LinearTransformer(11, Sizes(12, 3, 24, 2)), refused)
    with pytest.raises(ZeroDivisionError):
        stepwise.step(torch.zeros(1, dtype=torch.long), stepwise.start(torch.zeros(1, 3, dtype=torch.long)))
