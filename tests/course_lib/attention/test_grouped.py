"""Grouped queries: head by head, g = h is multi-head, g = 1 is multi-query, and the cache has g heads."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import (
    AttentionDropout,
    GroupedQueryAttention,
    LinearAttention,
    MultiHead,
    RotaryAttention,
    causal_attention,
    grouped_query_attention,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_causal_attention
from course_lib.primitives import padding_mask

B, H, G, T, T_K, d, d_v = 2, 6, 3, 5, 7, 4, 11
D_MODEL = H * d


def drawn(normal, g=G):
    return normal(B, H, T, d), normal(B, g, T_K, d), normal(B, g, T_K, d_v)


@pytest.mark.parametrize("g", [1, 2, 3, 6])
def test_head_by_head(normal, agree, g):
    """An independent form: head i of the queries attends alone to head ⌊i g / h⌋ of the keys."""

    def one_by_one(q, k, v):
        heads = [scaled_dot_product_attention(q[:, i], k[:, i * g // H], v[:, i * g // H]) for i in range(H)]
        return tuple(torch.stack(each, dim=1) for each in zip(*heads, strict=True))

    agree(grouped_query_attention, one_by_one, *drawn(normal, g))


def test_it_is_torchs_own(normal):
    q, k, v = drawn(normal)
    mask = padding_mask(torch.tensor([3, 7]), T_K)[:, None]
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(grouped_query_attention(q, k, v, mask).context, theirs)


def test_with_as_many_groups_as_heads_it_is_multi_head_attention(normal, agree):
    agree(grouped_query_attention, scaled_dot_product_attention, *drawn(normal, H))


def test_with_one_group_every_head_attends_to_the_same_keys(normal):
    q, k, v = drawn(normal, 1)
    shared = scaled_dot_product_attention(q, k.expand(B, H, T_K, d), v.expand(B, H, T_K, d_v))
    torch.testing.assert_close(grouped_query_attention(q, k, v), shared)


def test_a_number_by_hand():
    """Four heads, two groups, two orthogonal keys: a query of √d_k ln 3 along the first key weighs them 3/4 and 1/4."""
    q = math.log(3) * math.sqrt(2) * torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])[:, None]
    k, v = torch.eye(2).expand(2, 2, 2), torch.tensor([[[4.0], [0.0]], [[0.0], [8.0]]])
    context, weights = grouped_query_attention(q, k, v)
    torch.testing.assert_close(weights[:, 0], torch.tensor([[0.75, 0.25], [0.25, 0.75]] * 2))
    torch.testing.assert_close(context.flatten(), torch.tensor([3.0, 1.0, 2.0, 6.0]))


def test_gradients(normal):
    inputs = normal(1, 4, 3, 2), normal(1, 2, 3, 2), normal(1, 2, 3, 2)
    assert torch.autograd.gradcheck(lambda *x: tuple(grouped_query_attention(*x)), inputs)
    assert torch.autograd.gradcheck(lambda *x: tuple(GroupedQueryAttention()(*x)), inputs)


def heads(mechanism, n_groups):
    torch.manual_seed(0)
    return MultiHead(D_MODEL, H, mechanism, n_groups=n_groups).double()


def test_multi_head_attention_with_the_matrices_of_each_group_repeated_is_the_same(normal):
    grouped, full = heads(GroupedQueryAttention(), G), heads(causal_attention, H)
    with torch.no_grad():
        for name, x in grouped.state_dict().items():
            shared = name.startswith(("W_k", "W_v"))
            x = x.unflatten(0, (-1, d)).repeat_interleave(H // G if shared else 1, dim=0).flatten(0, 1)
            full.state_dict()[name].copy_(x)
    x, mask = normal(B, T, D_MODEL), padding_mask(torch.tensor([3, 5]), T)
    torch.testing.assert_close(grouped(x, x, x, mask), full(x, x, x, mask))


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("n_groups", [1, 3, 6])
def test_steps_equal_the_parallel_form_from_a_cache_of_g_heads(normal, mechanism, rotary, n_groups):
    grouped = GroupedQueryAttention(mechanism)
    attention = heads(RotaryAttention(d, grouped) if rotary else grouped, n_groups)
    x = normal(B, T, D_MODEL)
    context, state = attention.read(x[:, :2])
    for t in range(2, T):
        before = [part.clone() for part in state]
        found, later = attention.step(x[:, t : t + 1], state)
        assert all(torch.equal(part, kept) for part, kept in zip(state, before, strict=True))
        context, state = torch.cat([context, found], dim=1), later
    torch.testing.assert_close(context, attention(x, x, x).context)
    assert [part.shape for part in state] == [(B, n_groups, T, d)] * 2


def test_dropout_goes_inside(normal):
    q, k, v = drawn(normal)
    dropped = GroupedQueryAttention(AttentionDropout(causal_attention, 0.5))
    torch.testing.assert_close(dropped.eval()(q, k, v), GroupedQueryAttention()(q, k, v))
    assert (dropped.train()(q, k, v).weights == 0).sum() > (dropped.eval()(q, k, v).weights == 0).sum()


@pytest.mark.parametrize(("h", "g", "g_v"), [(6, 4, 4), (6, 3, 2), (2, 3, 3), (0, 3, 3), (6, 0, 0)])
def test_heads_that_do_not_divide_into_groups_are_refused(normal, unchecked, h, g, g_v):
    with pytest.raises(ValueError, match=rf"equal groups.*queries \(2, {h}, 5, 4\)"):
        grouped_query_attention(normal(B, h, T, d), normal(B, g, T_K, d), normal(B, g_v, T_K, d_v))


def test_inputs_without_heads_are_refused(normal):
    with pytest.raises(ValueError, match="the heads are axis -3"):
        GroupedQueryAttention()(normal(T, d), normal(T_K, d), normal(T_K, d_v))


@pytest.mark.parametrize("n_groups", [0, 4, 12, -1])
def test_a_number_of_groups_that_does_not_divide_the_heads_is_refused(n_groups):
    with pytest.raises(ValueError, match=f"6 heads of queries do not divide into {n_groups} groups"):
        heads(GroupedQueryAttention(), n_groups)


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention, RotaryAttention(d), LinearAttention()])
def test_groups_need_a_mechanism_that_shares_keys(normal, unchecked, mechanism):
    """Fewer heads of keys than of queries do not broadcast."""
    x = normal(B, T, D_MODEL)
    with pytest.raises(RuntimeError, match=r"must match|broadcast"):
        heads(mechanism, G)(x, x, x)
