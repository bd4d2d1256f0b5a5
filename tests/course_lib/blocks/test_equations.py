"""The blocks by their equations: equal to the modules with the same weights, which are compared with torch's own."""

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHead
from course_lib.blocks import (
    Block,
    CrossAttention,
    DecoderBlock,
    FeedForward,
    SelfAttention,
    decoder_block,
    encoder_block,
    post_norm,
    pre_norm,
    pre_norm_encoder_block,
)
from course_lib.primitives import causal_mask, padding_mask

B, T, T_K, D, H, D_FF = 2, 5, 7, 6, 3, 11
each_form = pytest.mark.parametrize(
    ("function", "residual"), [(encoder_block, post_norm), (pre_norm_encoder_block, pre_norm)], ids=["post", "pre"]
)


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def perturbed(module):
    """Make every weight, including those of the norms, different from its initial value."""
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter += 0.1 * drawn(*parameter.shape, seed=parameter.numel())
    return module


def parts_of(block, *attentions):
    """The weights of a block without biases in its attention, in the form of the functions' arguments."""
    four = [tuple(layer.weight for layer in (a.W_q, a.W_k, a.W_v, a.W_o)) for a in attentions]
    W_1, W_2 = block.feed_forward.W_1, block.feed_forward.W_2
    norms = tuple((part.weight, part.bias) for part in block.children() if isinstance(part, nn.LayerNorm))
    return *four, (W_1.weight, W_1.bias, W_2.weight, W_2.bias), norms


def encoder(residual):
    torch.manual_seed(0)
    attention = MultiHead(D, H, bias=False)
    return attention, perturbed(Block(SelfAttention(attention), FeedForward(D, D_FF), D, residual))


@each_form
def test_an_encoder_block_is_the_module(function, residual):
    attention, block = encoder(residual)
    x, mask = drawn(B, T, D), padding_mask(torch.tensor([3, 5]), T)
    torch.testing.assert_close(function(x, *parts_of(block, attention), H, mask), block(x, mask))


def test_a_decoder_block_is_the_module():
    torch.manual_seed(0)
    own, cross = MultiHead(D, H, bias=False), MultiHead(D, H, bias=False)
    block = perturbed(DecoderBlock(SelfAttention(own), CrossAttention(cross), FeedForward(D, D_FF), D))
    x, memory, mask = drawn(B, T, D), drawn(B, T_K, D, seed=1), padding_mask(torch.tensor([7, 2]), T_K)
    expected = block(x, memory, causal_mask(T), mask)
    torch.testing.assert_close(decoder_block(x, memory, *parts_of(block, own, cross), H, mask), expected)


@each_form
def test_gradients_are_right(function, residual):
    attention, block = encoder(residual)
    parts, x = parts_of(block, attention), drawn(1, 3, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: function(y, *parts, H), [x])


@each_form
def test_a_block_of_zeros_hands_on_a_normalised_input(function, residual):
    zero, one, x = torch.zeros(D, D), (torch.ones(D), torch.zeros(D)), torch.tensor([[[1.0, -1.0] * 3]])
    network = (torch.zeros(D_FF, D), torch.zeros(D_FF), torch.zeros(D, D_FF), torch.zeros(D))
    torch.testing.assert_close(function(x, (zero,) * 4, network, (one, one), H), x, rtol=1e-4, atol=1e-4)
