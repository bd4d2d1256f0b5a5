"""Costs of attention counted by hand; a transformer that generates by a given step; errors of random features; recall; text."""

import pytest
import torch

from course_lib.attention import linear_attention_step, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_lib.primitives import favor_features, orthogonalised
from course_tools.notebook.associative_recall import AssociativeRecall, pairs_task
from course_tools.notebook.attention_costs import StepBy, floats_in, peak_mib, work_of_step, work_with_cache, work_with_state
from course_tools.notebook.character_text import character_text, next_character_loss
from course_tools.notebook.random_feature_error import estimated, relative_error


def test_attention_holds_scores_and_weights():
    assert peak_mib(scaled_dot_product_attention, 512) >= 2 * 512 * 512 * 4 / 2**20


def test_the_work_of_a_cache_grows_with_the_text():
    d = 8
    assert work_with_cache(20, d) - work_with_cache(10, d) == 2 * 10 * d


def test_the_work_of_a_state_is_that_of_projections_and_step():
    assert work_with_state(linear_attention_step, 8) >= 4 * 8 * 8


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


def test_estimated_weights_sum_to_one_and_come_nearer_with_more_features():
    truth, guess = estimated(favor_features, orthogonalised, 0.25, 64, seed=0)
    for weights in (truth, guess):
        torch.testing.assert_close(weights.sum(-1), torch.ones(64, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    few, many = (relative_error(favor_features, orthogonalised, 0.25, m, draws=3) for m in (16, 1_024))
    assert many < few / 2


def test_a_recaller_scores_pairs_by_its_projections():
    torch.manual_seed(0)
    part = pairs_task(5).test
    inputs = part.queries[:3], part.keys[:3], part.values[:3]
    model = AssociativeRecall(scaled_dot_product_attention, 10, d_model=16)
    q, k = model.projected(*inputs)
    assert (q.shape, k.shape, model(*inputs).shape) == ((3, 4, 16), (3, 5, 16), (3, 4, 8))


def test_a_text_is_cut_into_pieces_and_a_uniform_model_needs_the_logarithm():
    text = character_text(32, n_held_out=50)
    assert text.held_out.shape == (50, 33)
    assert text.decode(text.encode("The value")[0]) == "The value"
    assert text.decode(text.learn[0]) in text.text
    n = len(text.letters)
    uniform = next_character_loss(lambda tokens: torch.zeros(*tokens.shape, n), (text.held_out,))
    torch.testing.assert_close(uniform, torch.tensor(float(n)).log2())
