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
    graph_attention_mib,
    peak_mib,
    show_costs,
    show_kept_numbers,
    step_by_products,
    work_of_step,
    work_with_cache,
)
from course_tools.notebook.layer_costs import exponent, multiply_adds


def test_attention_holds_scores_and_weights():
    assert peak_mib(scaled_dot_product_attention, 512) >= 2 * 512 * 512 * 4 / 2**20


def test_graph_attention_holds_a_message_for_each_edge():
    n_edges, d = 10_007, 7
    assert graph_attention_mib(101, torch.randint(101, (2, n_edges)), d) >= n_edges * d * 4 / 2**20


def test_the_work_of_a_cache_grows_with_the_text():
    d = 8
    assert work_with_cache(20, d) - work_with_cache(10, d) == 2 * 10 * d


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


def test_a_cache_grows_by_a_key_and_a_value_for_each_token(capsys):
    show_kept_numbers([3, 1_000], d=8)
    assert "from 48 at 3 tokens to 16,000 at 1,000; the state has 72 throughout" in capsys.readouterr().out


def test_the_state_of_a_linear_transformer_does_not_grow():
    torch.manual_seed(0)
    model = LinearTransformer(11, Sizes(12, 3, 24, 2)).eval()
    stepwise, tokens = StepBy(model, linear_attention_step), torch.randint(11, (1, 9))
    with torch.no_grad():
        states = [stepwise.start(tokens[:, :n]) for n in (3, 8)]
        assert [floats_in(state) for state in states] == [2 * 3 * (4 * 4 + 4)] * 2
        logits, _ = stepwise.step(tokens[:, 8], states[1])
        torch.testing.assert_close(logits, model(tokens)[:, -1], rtol=1e-4, atol=1e-5)
    assert work_of_step(stepwise, 3) == work_of_step(stepwise, 8)


def test_another_form_of_the_step_is_called():
    def refused(*inputs):
        raise ZeroDivisionError

    stepwise = StepBy(LinearTransformer(11, Sizes(12, 3, 24, 2)), refused)
    with pytest.raises(ZeroDivisionError):
        stepwise.step(torch.zeros(1, dtype=torch.long), stepwise.start(torch.zeros(1, 3, dtype=torch.long)))


def test_the_step_by_products_is_the_step_and_all_of_its_work_is_counted():
    """For f = 5 and d_v = 3: 15 multiply-adds for the outer product, 5 · 4 to read S and z."""
    drawn = [torch.rand(2, *shape, dtype=torch.float64) for shape in ((5, 3), (5,), (5,), (5,), (3,))]
    for ours, theirs in zip(step_by_products(*drawn), linear_attention_step(*drawn), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert multiply_adds(step_by_products, *(x[:1] for x in drawn)) == 15 + 20
