"""The one block: torch's encoder and decoder layers weight for weight, any mixer, and masks applied in the right attention."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.analysis import record
from course_lib.attention import MultiHead
from course_lib.blocks import (
    Block,
    CrossAttention,
    DecoderBlock,
    FeedForward,
    SelfAttention,
    post_norm,
    pre_norm,
)
from course_lib.primitives import causal_mask, padding_mask

B, T, T_K, D, H, D_FF = 2, 5, 7, 6, 3, 11
each_residual = pytest.mark.parametrize("residual", [post_norm, pre_norm])


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoder_block(residual=post_norm, activation=F.relu):
    torch.manual_seed(0)
    block = Block(SelfAttention(MultiHead(D, H)), FeedForward(D, D_FF, activation), D, residual)
    return perturbed(block.double())


def decoder_block(residual=post_norm):
    torch.manual_seed(0)
    own, cross = SelfAttention(MultiHead(D, H)), CrossAttention(MultiHead(D, H))
    return perturbed(DecoderBlock(own, cross, FeedForward(D, D_FF), D, residual).double())


def perturbed(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return module


def copy_attention(ours, theirs):
    parts = (ours.W_q, ours.W_k, ours.W_v)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


def copy_rest(ours, theirs, norms):
    theirs.linear1.load_state_dict(ours.feed_forward.W_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.W_2.state_dict())
    for i in norms:
        getattr(theirs, f"norm{i}").load_state_dict(getattr(ours, f"norm_{i}").state_dict())


@each_residual
def test_a_block_of_self_attention_is_torchs_encoder_layer(residual):
    ours, x, lengths = encoder_block(residual), drawn(B, T, D), torch.tensor([3, 5])
    theirs = nn.TransformerEncoderLayer(D, H, D_FF, 0.0, batch_first=True, norm_first=residual is pre_norm).double()
    copy_attention(ours.mixer.attention, theirs.self_attn)
    copy_rest(ours, theirs, (1, 2))
    mask = padding_mask(lengths, T)
    torch.testing.assert_close(ours(x, mask), theirs(x, src_key_padding_mask=~mask[:, 0]))


@each_residual
def test_a_decoder_block_is_torchs_decoder_layer(residual):
    ours, x, memory = decoder_block(residual), drawn(B, T, D), drawn(B, T_K, D, seed=1)
    theirs = nn.TransformerDecoderLayer(D, H, D_FF, 0.0, batch_first=True, norm_first=residual is pre_norm).double()
    copy_attention(ours.mixer.attention, theirs.self_attn)
    copy_attention(ours.cross.attention, theirs.multihead_attn)
    copy_rest(ours, theirs, (1, 2, 3))
    mask, memory_mask = causal_mask(T), padding_mask(torch.tensor([7, 2]), T_K)
    expected = theirs(x, memory, tgt_mask=~mask, memory_key_padding_mask=~memory_mask[:, 0])
    torch.testing.assert_close(ours(x, memory, mask, memory_mask), expected)


@each_residual
def test_without_a_mask_a_block_does_not_know_the_order(residual):
    block, x, order = encoder_block(residual), drawn(B, T, D), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(block(x[:, order]), block(x)[:, order])


def test_under_a_causal_mask_no_gradient_comes_from_the_future():
    block, x = decoder_block(), drawn(1, T, D).requires_grad_()
    y = block(x, drawn(1, T_K, D, seed=1), causal_mask(T))
    for t in range(T):
        (gradient,) = torch.autograd.grad((y[0, t] * drawn(D, seed=2)).sum(), x, retain_graph=True)
        assert (gradient[0, t + 1 :] == 0).all()
        assert (gradient[0, : t + 1].abs().sum(-1) > 0).all()


def test_any_mixer_will_do():
    class Average(nn.Module):
        def forward(self, x):
            return x.mean(1, keepdim=True).expand_as(x)

    block, x = Block(Average(), nn.Identity(), D, pre_norm, norm=lambda _: nn.Identity()), drawn(B, T, D)
    torch.testing.assert_close(block(x), 2 * (x + x.mean(1, keepdim=True)))


def test_the_norm_is_handed_over():
    wide = partial(nn.LayerNorm, eps=1.0)
    block = Block(SelfAttention(MultiHead(D, H)), FeedForward(D, D_FF), D, norm=wide)
    assert (block.norm_1.eps, block.norm_2.eps) == (1.0, 1.0)


def test_the_attention_inside_can_be_recorded():
    block = decoder_block()
    with record(block) as recorded:
        block(drawn(B, T, D), drawn(B, T_K, D, seed=1))
    assert [attended[0].weights.shape for attended in recorded.values()] == [(B, H, T, T), (B, H, T, T_K)]
