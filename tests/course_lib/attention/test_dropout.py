"""Attention dropout: equal to torch's with the same seed, unbiased in expectation, and inactive in evaluation."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    AdditiveAttention,
    AttentionDropout,
    MultiHead,
    RotaryAttention,
    causal_attention,
    scaled_dot_product_attention,
)
from course_lib.blocks import Sizes
from course_lib.fast import CachedGPT, fused_scaled_dot_product_attention
from course_lib.models import GPT, Transformer
from course_lib.primitives import causal_mask

B, H, T_q, T_k, d_k, d_v = 2, 3, 5, 7, 11, 13
P = 0.4


def seeded(form, seed=3):
    """The form with the same random draws in each call."""

    def call(*inputs):
        torch.manual_seed(seed)
        return form(*inputs)

    return call


def dropped(mechanism=scaled_dot_product_attention, p=P):
    return AttentionDropout(mechanism, p).train()


def test_with_one_seed_it_drops_what_torch_drops(normal, agree):
    q, k, v = normal(B, H, T_q, d_k), normal(B, H, T_k, d_k), normal(B, H, T_k, d_v)
    ours = seeded(lambda *x: dropped()(*x).context)
    agree(ours, seeded(lambda *x: F.scaled_dot_product_attention(*x, dropout_p=P)), q, k, v)


@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_attention_is_that_of_torch_in_training(normal, agree, causal):
    d_model = H * d_k
    heads = MultiHead(d_model, H, dropped(causal_attention if causal else scaled_dot_product_attention)).double()
    torchs = nn.MultiheadAttention(d_model, H, dropout=P, batch_first=True).double().train()
    torchs.in_proj_weight.data = torch.cat([heads.W_q.weight, heads.W_k.weight, heads.W_v.weight]).data
    torchs.in_proj_bias.data = torch.cat([heads.W_q.bias, heads.W_k.bias, heads.W_v.bias]).data
    torchs.out_proj.weight.data, torchs.out_proj.bias.data = heads.W_o.weight.data, heads.W_o.bias.data
    barred = ~causal_mask(T_k) if causal else None

    def theirs(x):
        return tuple(torchs(x, x, x, attn_mask=barred, average_attn_weights=False))

    agree(seeded(lambda x: tuple(heads(x, x, x))), seeded(theirs), normal(B, T_k, d_model))


def test_a_weight_is_0_or_grows_by_hand(normal):
    """Two equal keys, p = ½: each weight is 0 or ½ / (1 - ½) = 1, and the context is a sum of values, not their mean."""
    q, k, v = torch.zeros(1, 1000, 2), torch.zeros(1, 2, 2), torch.tensor([[[4.0], [8.0]]])
    torch.manual_seed(0)
    context, weights = dropped(p=0.5)(q, k, v)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert set(context.unique().tolist()) == {0.0, 4.0, 8.0, 12.0}
    torch.testing.assert_close(context, weights @ v)


def test_the_expectation_is_the_context_without_dropout(normal):
    q, k, v = (x.detach() for x in (normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v)))
    torch.manual_seed(0)
    n = 20_000
    drawn = dropped()(*(x.expand(n, *x.shape) for x in (q, k, v)))
    exact = scaled_dot_product_attention(q, k, v)
    for mean, x, once in zip((x.mean(0) for x in drawn), exact, drawn, strict=True):
        assert ((mean - x).abs() < 5 * once.std(0) / n**0.5 + 1e-12).all()
    assert (drawn.weights == 0).double().mean().item() == pytest.approx(P, abs=0.01)


@pytest.mark.parametrize("mechanism", [scaled_dot_product_attention, causal_attention, AdditiveAttention(d_k, d_k, 3).double()])
def test_in_evaluation_and_at_p_0_it_is_the_mechanism(normal, agree, mechanism):
    inputs = normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v)
    mask = torch.rand(T_q, T_k, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[2] = False
    for same in (AttentionDropout(mechanism, P).eval(), dropped(mechanism, 0.0)):
        agree(partial(same, mask=mask), partial(mechanism, mask=mask), *inputs)


def test_at_p_1_nothing_is_attended_to(normal):
    attended = dropped(p=1.0)(normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v))
    assert not any(x.any() for x in attended)


def test_what_a_mask_hides_stays_hidden(normal):
    """Masked rows are 0, and NaN at a hidden key, hidden by the mechanism or the mask, has no effect on any context."""
    q, k, v = normal(B, T_k, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v)
    mask = torch.ones(T_k, T_k, dtype=torch.bool)
    mask[3:, 3], mask[2] = False, False  # key 3: by causality from earlier positions, by the mask from its own on
    hurt = torch.where((torch.arange(T_k) == 3)[:, None], torch.nan, v)
    fine, spoiled = (seeded(dropped(causal_attention))(q, k, x, mask) for x in (v, hurt))
    torch.testing.assert_close(spoiled, fine)
    assert not fine.context[:, 2].any()
    gradients = torch.autograd.grad(spoiled.context.sum(), (q, k))
    assert all(g.isfinite().all() for g in gradients)


def test_gradients_against_differences(normal):
    inputs = normal(2, 3, 5), normal(2, 7, 5), normal(2, 7, 2)
    assert torch.autograd.gradcheck(seeded(dropped()), inputs)


@pytest.mark.parametrize("training", [True, False])
def test_a_fused_form_has_no_weights_to_drop(normal, training):
    mechanism = AttentionDropout(fused_scaled_dot_product_attention, P).train(training)
    with pytest.raises(TypeError, match="a fused form never builds them"):
        mechanism(normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v))


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_a_probability_is_between_0_and_1(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        AttentionDropout(scaled_dot_product_attention, p)


SIZES = Sizes(d_model=6, n_heads=3, d_ff=19, n_layers=2)
TOKENS = torch.randint(13, (B, T_k), generator=torch.Generator().manual_seed(0))


def test_a_gpt_drops_in_each_layer_and_is_decoded_in_evaluation():
    torch.manual_seed(0)
    gpt = GPT(13, 17, SIZES, AttentionDropout(causal_attention, P)).double()
    mechanisms = [part for part in gpt.modules() if isinstance(part, AttentionDropout)]
    assert len(mechanisms) == SIZES.n_layers
    assert not torch.equal(gpt(TOKENS), gpt(TOKENS))
    assert set(gpt.state_dict()) == set(GPT(13, 17, SIZES).state_dict())
    with pytest.raises(ValueError, match="cached steps compute causal_attention"):
        CachedGPT(gpt)
    logits, _ = gpt.eval().step(TOKENS[:, -1], gpt.start(TOKENS[:, :-1]))
    torch.testing.assert_close(logits, gpt(TOKENS)[:, -1])


def test_inside_rotary_positions_it_is_decoded_too():
    torch.manual_seed(0)
    gpt = GPT(13, 17, SIZES, RotaryAttention(2, AttentionDropout(causal_attention, P))).double()
    assert not torch.equal(gpt(TOKENS), gpt(TOKENS))
    logits, _ = gpt.eval().step(TOKENS[:, -1], gpt.start(TOKENS[:, :-1]))
    torch.testing.assert_close(logits, gpt(TOKENS)[:, -1])


def test_a_transformer_decodes_step_by_step_without_it():
    torch.manual_seed(0)
    how = {
        "mechanism": AttentionDropout(scaled_dot_product_attention, P),
        "causal": AttentionDropout(causal_attention, P),
    }
    transformer, lengths = Transformer(13, 13, SIZES, **how).double(), torch.tensor([7, 4])
    assert sum(isinstance(part, AttentionDropout) for part in transformer.modules()) == 3 * SIZES.n_layers
    exact = transformer.eval()(TOKENS, lengths, TOKENS)
    state = transformer.start(TOKENS, lengths)
    for t in range(T_k):
        logits, state = transformer.step(TOKENS[:, t], state)
        torch.testing.assert_close(logits, exact[:, t])
