"""Layers of self-attention by a function: they project the same tokens and pass on masks and heads."""

import torch
from torch.testing import assert_close

from course_lib.attention import Attended, multi_head_attention, scaled_dot_product_attention
from course_lib.primitives import causal_mask
from course_tools.lectures.lecture_04.experiments import MultiHeadByFunction, SelfAttentionByFunction

B, T, D = 2, 7, 6


def tokens():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


def test_one_head_projects_the_same_tokens_three_times():
    layer, x = SelfAttentionByFunction(scaled_dot_product_attention, D), tokens()
    q, k, v = (x @ W.weight.mT for W in (layer.W_q, layer.W_k, layer.W_v))
    expected = ((q @ k.mT) / D**0.5).softmax(-1)
    assert_close(layer(x).weights, expected)
    assert_close(layer(x).context, expected @ v)


def test_several_heads_use_all_four_matrices_within_their_bound():
    torch.manual_seed(0)
    layer, x = MultiHeadByFunction(multi_head_attention, D, 3), tokens()
    assert_close(layer(x), multi_head_attention(x, x, x, layer.W_q, layer.W_k, layer.W_v, layer.W_o, 3))
    assert layer(x).weights.shape == (B, 3, T, T)
    assert all(p.abs().max() <= D**-0.5 for p in layer.parameters())
    assert len(list(layer.parameters())) == 4


def test_the_mask_reaches_the_function():
    mask, x = causal_mask(T), tokens()
    for layer in (
        SelfAttentionByFunction(scaled_dot_product_attention, D, mask),
        MultiHeadByFunction(multi_head_attention, D, 2, mask),
    ):
        assert not layer(x).weights.triu(1).any()


def test_results_in_float64_become_those_of_the_tokens():
    def doubled(q, k, v, mask):
        return scaled_dot_product_attention(q.double(), k.double(), v.double(), mask)

    found = SelfAttentionByFunction(doubled, D)(tokens())
    assert isinstance(found, Attended)
    assert (found.context.dtype, found.weights.dtype) == (torch.float32, torch.float32)
