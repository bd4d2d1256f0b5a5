"""Stacks: torch's own encoder and decoder weight for weight, a final norm if there was none, weights for each block."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from course_lib.attention import GeneralAttention, causal_attention
from course_lib.blocks import Sizes, Stack, decoder_stack, encoder_stack, post_norm, pre_norm
from course_lib.blocks.block import closing_norm
from course_lib.primitives import causal_mask, padding_mask
from tests.course_lib.models.peers import take_stack

B, T, T_K = 2, 5, 7
SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=3)
LENGTHS = torch.tensor([7, 4])
each_residual = pytest.mark.parametrize("residual", [post_norm, pre_norm])


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def torchs_layer(kind, residual):
    return kind(SIZES.d_model, SIZES.n_heads, SIZES.d_ff, 0.0, batch_first=True, norm_first=residual is pre_norm).double()


@each_residual
def test_an_encoder_is_torchs(residual):
    torch.manual_seed(0)
    layers = [torchs_layer(nn.TransformerEncoderLayer, residual) for _ in range(SIZES.n_layers)]
    ours = encoder_stack(SIZES, residual=residual).double()
    take_stack(ours, layers)
    x = expected = drawn(B, T_K, 6)
    for layer in layers:
        expected = layer(expected, src_key_padding_mask=torch.arange(T_K) >= LENGTHS[:, None])
    if residual is pre_norm:
        expected = nn.functional.layer_norm(expected, (6,))
    torch.testing.assert_close(ours(x, padding_mask(LENGTHS, T_K)), expected)


@each_residual
def test_a_decoder_is_torchs(residual):
    torch.manual_seed(0)
    layers = [torchs_layer(nn.TransformerDecoderLayer, residual) for _ in range(SIZES.n_layers)]
    ours = decoder_stack(SIZES, residual=residual).double()
    take_stack(ours, layers)
    memory = drawn(B, T_K, 6, seed=1)
    x = expected = drawn(B, T, 6)
    later, hidden = ~causal_mask(T), torch.arange(T_K) >= LENGTHS[:, None]
    for layer in layers:
        expected = layer(expected, memory, tgt_mask=later, memory_key_padding_mask=hidden)
    if residual is pre_norm:
        expected = nn.functional.layer_norm(expected, (6,))
    torch.testing.assert_close(ours(x, memory, causal_mask(T), padding_mask(LENGTHS, T_K)), expected)


@each_residual
@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_dropout_falls_on_the_outputs_of_the_sublayers_as_torchs(kind, residual):
    """Torch's layer also drops attention weights and hidden features: with those two off, the same seed drops the same.

    One sequence, as torch draws in the order of memory, in which its attention has time before the batch.
    """
    torch.manual_seed(0)
    decodes = kind is nn.TransformerDecoderLayer
    layer = torchs_layer(kind, residual)
    drops = [layer.dropout1, layer.dropout2, *([layer.dropout3] if decodes else [])]
    for dropout in drops:
        dropout.p = 0.4
    sizes = SIZES._replace(n_layers=1)
    ours = (decoder_stack if decodes else encoder_stack)(sizes, residual=residual, dropout=0.4).double()
    take_stack(ours, [layer])
    inputs = (drawn(1, T, 6), drawn(1, T_K, 6, seed=1))[: 1 + decodes]
    ours.closing = nn.Identity()
    for training in (True, False):
        got, expected = (torch.manual_seed(3) and model.train(training)(*inputs) for model in (ours, layer))
        torch.testing.assert_close(got, expected)
    assert not torch.allclose(ours.train()(*inputs), ours.eval()(*inputs))


def test_pre_norm_is_closed_by_a_norm_and_post_norm_is_closed_already():
    assert isinstance(closing_norm(post_norm, 6), nn.Identity)
    assert closing_norm(pre_norm, 6).normalized_shape == (6,)
    states = encoder_stack(SIZES, residual=pre_norm).double()(100 * drawn(B, T, 6))
    torch.testing.assert_close(states.mean(-1), torch.zeros(B, T, dtype=torch.float64))
    torch.testing.assert_close(states.var(-1, correction=0), torch.ones(B, T, dtype=torch.float64), atol=1e-3, rtol=0)


def test_each_block_has_weights_of_its_own():
    one, three = (sum(p.numel() for p in encoder_stack(SIZES._replace(n_layers=n)).parameters()) for n in (1, 3))
    assert three == 3 * one


def test_a_stack_of_nothing_gives_back_what_it_got():
    x = drawn(B, T, 6)
    assert torch.equal(Stack([], nn.Identity())(x), x)


def test_a_decoder_may_look_at_itself_by_another_mechanism_than_at_the_memory():
    torch.manual_seed(0)
    looks_back = decoder_stack(SIZES, own=causal_attention).double()
    torch.manual_seed(0)
    masked = decoder_stack(SIZES).double()
    x, memory = drawn(B, T, 6), drawn(B, T_K, 6, seed=1)
    torch.testing.assert_close(looks_back(x, memory), masked(x, memory, causal_mask(T)))


def test_a_causal_mechanism_makes_a_decoder_of_an_encoder():
    torch.manual_seed(0)
    looks_back = encoder_stack(SIZES, causal_attention).double()
    torch.manual_seed(0)
    masked = encoder_stack(SIZES).double()
    x = drawn(B, T, 6)
    torch.testing.assert_close(looks_back(x), masked(x, causal_mask(T)))


@pytest.mark.parametrize("stack", [encoder_stack, decoder_stack])
def test_sizes_that_do_not_fit_are_refused(stack):
    with pytest.raises(ValueError, match="does not divide into 3 heads"):
        stack(Sizes(7, 3, 11, 1))


@pytest.mark.parametrize("stack", [encoder_stack, decoder_stack])
def test_each_layer_owns_the_parameters_of_its_mechanism(stack):
    """A module passed once is copied for each attention: no two layers train the same weights."""
    shared = GeneralAttention(5, 5)
    sizes = Sizes(15, 3, 7, 4)
    owned = [module.W for module in stack(sizes, shared).modules() if isinstance(module, GeneralAttention)]
    assert len(owned) == (4 if stack is encoder_stack else 8)
    assert len({weights.data_ptr() for weights in [*owned, shared.W]}) == len(owned) + 1


@pytest.mark.parametrize("stack", [encoder_stack, decoder_stack])
def test_each_layer_owns_the_parameters_of_its_activation(stack):
    given = nn.PReLU()
    owned = [module.weight for module in stack(SIZES, activation=given).modules() if isinstance(module, nn.PReLU)]
    assert len({weight.data_ptr() for weight in [*owned, given.weight]}) == SIZES.n_layers + 1


def test_the_closing_norm_follows_from_the_residual_and_not_from_its_identity():
    assert isinstance(closing_norm(deepcopy(post_norm), 6), nn.Identity)
    assert isinstance(closing_norm(deepcopy(pre_norm), 6), nn.LayerNorm)
