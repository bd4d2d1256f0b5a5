"""Step by step, a GPT gives the logits of the whole model, and a layer its rows."""

import torch

from course_lib.attention import cached_step
from course_lib.blocks import Sizes
from course_lib.generation import generate
from course_lib.models import GPT
from course_tools.lectures.lecture_07.cached_generation import StepwiseGPT, compare_with_recomputed, one_by_one, recomputed


def test_the_logits_are_those_of_the_whole_model():
    torch.manual_seed(0)
    model, tokens = GPT(11, 7, Sizes(d_model=6, n_heads=3, d_ff=13, n_layers=2)), torch.randint(11, (2, 5))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    stepwise = StepwiseGPT(model, cached_step)
    logits, past = stepwise.step(tokens[:, -1], stepwise.start(tokens[:, :-1]))
    torch.testing.assert_close(logits, model(tokens)[:, -1])
    assert past.n == 5
    argmax = lambda logits: logits.argmax(-1)  # noqa: E731
    assert generate(stepwise, tokens[:, :2], 4, argmax).tolist() == generate(model, tokens[:, :2], 4, argmax).tolist()


def test_a_layer_step_by_step_equals_the_recomputed_rows():
    x, W = torch.randn(2, 5, 6), [torch.randn(6, 6) for _ in range(4)]
    torch.testing.assert_close(one_by_one(x, W, 3, cached_step), recomputed(x, W, 3))


def test_the_cache_saves_more_for_longer_texts():
    saved, difference = compare_with_recomputed(cached_step, [2, 8], seed=0)
    assert 1 < saved[0] < saved[1]
    assert difference < 1e-5
    wrong = lambda *args: cached_step(*args)._replace(output=args[0] * 0)  # noqa: E731
    assert compare_with_recomputed(wrong, [2], seed=0).difference > 0.1
