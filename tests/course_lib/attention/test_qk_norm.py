"""QK-norm: a score depends on the directions of query and key, is bounded, and steps equal the parallel form."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHead,
    QKNorm,
    RotaryAttention,
    causal_attention,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_causal_attention

B, H, T, T_K, d, d_v = 2, 3, 5, 7, 4, 11


def drawn(normal):
    return normal(B, H, T, d), normal(B, H, T_K, d), normal(B, H, T_K, d_v)


def with_gains(mechanism, **rest):
    """With gains of query and key that differ, and from feature to feature."""
    module = QKNorm(d, mechanism, **rest).double()
    with torch.no_grad():
        module.norm_q.weight.copy_(torch.tensor([1.0, 2.0, 0.5, -1.0]))
        module.norm_k.weight.copy_(torch.tensor([2.0, 1.0, 3.0, 0.5]))
    return module


def test_the_length_of_a_query_or_key_does_not_matter(normal):
    q, k, v = drawn(normal)
    attention = with_gains(scaled_dot_product_attention, norm=lambda d_k: nn.RMSNorm(d_k, eps=1e-12))
    torch.testing.assert_close(attention(q * 1e3, k * 1e5, v), attention(q, k, v), rtol=1e-6, atol=1e-6)
    assert not torch.allclose(attention(q, k, 2 * v).context, attention(q, k, v).context)


def test_without_gains_a_score_is_at_most_the_root_of_d_k(normal):
    """So that of two keys, one gets at most e^(2 √d_k) times the weight of the other."""
    q, k, v = drawn(normal)
    weights = QKNorm(d, scaled_dot_product_attention).double()(q * 1e4, k * 1e4, v).weights
    assert (weights.amax(-1) / weights.amin(-1)).max() <= math.exp(2 * math.sqrt(d))


def test_it_is_the_equation_written_out(normal, agree):
    """An independent form: each query and key divided by its root mean square, times the gains."""
    attention = with_gains(scaled_dot_product_attention)

    def by_hand(q, k, v):
        q, k = (x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
        weights = (q * attention.norm_q.weight @ (k * attention.norm_k.weight).mT / math.sqrt(d)).softmax(-1)
        return weights @ v, weights

    agree(lambda *x: tuple(attention(*x)), by_hand, *drawn(normal))


def test_it_takes_another_norm(normal):
    q, k, v = drawn(normal)
    attention = with_gains(scaled_dot_product_attention, norm=nn.LayerNorm)
    found, gains = attention(q, k, v), (attention.norm_q.weight, attention.norm_k.weight)
    q, k = (F.layer_norm(x, (d,), gain) for x, gain in zip((q, k), gains, strict=True))
    torch.testing.assert_close(found, scaled_dot_product_attention(q, k, v))


def test_a_number_by_hand():
    """Two features: (3, 4) / √12.5 and (±7, ±7) / 7 have the product ±7 / √12.5, and the score ±7 / 5."""
    q, k, v = torch.tensor([[3.0, 4.0]]), torch.tensor([[7.0, 7.0], [-7.0, -7.0]]), torch.tensor([[1.0], [0.0]])
    context, _ = QKNorm(2, scaled_dot_product_attention)(q, k, v)
    torch.testing.assert_close(context, torch.tensor([[1 / (1 + math.exp(-2.8))]]))


def test_gradients(normal):
    attention = with_gains(scaled_dot_product_attention)
    assert torch.autograd.gradcheck(lambda *x: tuple(attention(*x)), (normal(3, d), normal(2, d), normal(2, 3)))


PLACES = {
    "alone": lambda: with_gains(GroupedQueryAttention()),
    "fused": lambda: with_gains(GroupedQueryAttention(fused_causal_attention)),
    "around the rotation": lambda: with_gains(RotaryAttention(d, GroupedQueryAttention())),
    "inside of it": lambda: RotaryAttention(d, GroupedQueryAttention(with_gains(causal_attention))),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n_groups", [1, 3])
def test_steps_equal_the_parallel_form(normal, place, n_groups):
    torch.manual_seed(0)
    attention = MultiHead(H * d, H, PLACES[place](), n_groups=n_groups).double()
    x = normal(B, T, H * d)
    context, state = attention.read(x[:, :2])
    for t in range(2, T):
        found, state = attention.step(x[:, t : t + 1], state)
        context = torch.cat([context, found], dim=1)
    torch.testing.assert_close(context, attention(x, x, x).context)
    assert [part.shape for part in state] == [(B, n_groups, T, d)] * 2


def test_around_the_rotation_and_inside_of_it_gains_make_a_difference(normal):
    q, k, v = normal(B, T, d), normal(B, T, d), normal(B, T, d_v)
    around, inside = with_gains(RotaryAttention(d)), RotaryAttention(d, with_gains(causal_attention))
    assert not torch.allclose(around(q, k, v).context, inside(q, k, v).context, atol=0.01)
    for attention in (around, inside.mechanism):
        torch.nn.init.ones_(attention.norm_q.weight)
        torch.nn.init.ones_(attention.norm_k.weight)
    torch.testing.assert_close(around(q, k, v), inside(q, k, v))


def test_steps_of_a_mechanism_that_is_not_causal_are_refused(normal):
    with pytest.raises(ValueError, match="steps compute causal attention"):
        QKNorm(d, scaled_dot_product_attention).double().start(normal(B, T, d), normal(B, T, d))
