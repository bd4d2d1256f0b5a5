"""Heads with uniform weights have the statistics of uniform weights, and the map starts at the best previous-token head."""

import inspect

import torch
from torch import nn

from course_lib.analysis import head_statistics
from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.models import BERT
from course_tools.lectures.lecture_08.experiments import Inspected
from course_tools.lectures.lecture_08.figures import attention_heads, head_map

TOKENS = torch.tensor([[1, 5, 2, 6, 2], [1, 7, 2, 0, 0]])


def heads_of(bert):
    shown = Inspected(bert, TOKENS, TOKENS * 0, torch.tensor([5, 3]), TOKENS == 2, tuple("PCSabcdefgh"))
    return attention_heads(shown, "a BERT", head_statistics)


def test_uniform_heads():
    bert = BERT(11, 5, Sizes(d_model=6, n_heads=3, d_ff=7, n_layers=2), scaled_dot_product_attention).eval()
    for block in bert.stack.blocks:
        nn.init.zeros_(block.mixer.attention.W_q.weight)
        nn.init.zeros_(block.mixer.attention.W_q.bias)
    heads = heads_of(bert)
    assert heads.statistics.current.shape == (6,)
    torch.testing.assert_close(heads.statistics.current, torch.full((6,), (5 * 1 / 5 + 3 * 1 / 3) / 8))


def test_the_map_starts_at_the_head_with_the_most_weight_on_the_previous_token(capsys):
    torch.manual_seed(0)
    heads = heads_of(BERT(11, 5, Sizes(d_model=6, n_heads=3, d_ff=7, n_layers=2), scaled_dot_product_attention).eval())
    draw = head_map(heads)
    start = {name: given.default for name, given in inspect.signature(draw).parameters.items()}
    assert (start["layer"] - 1) * 3 + start["head"] - 1 == heads.statistics.previous.argmax()
    draw(text=2)
    assert "3 queries by 3 keys" in capsys.readouterr().out
