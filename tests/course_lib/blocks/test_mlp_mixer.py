"""Token mixing combines all positions of one channel, channel mixing all channels of one position; the block is `Block`."""

import jaxtyping
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import (
    Block,
    FeedForward,
    TokenMixing,
    channel_mixing,
    mixer_block,
    post_norm,
    pre_norm,
    reordered_token_mixing,
    token_mixing,
)
from course_lib.fast import lean_token_mixing

B, N, d, d_s, d_c = 2, 5, 7, 11, 13
each_form = pytest.mark.parametrize("form", [token_mixing, lean_token_mixing])


def over_places(normal):
    return normal(d_s, N), normal(d_s), normal(N, d_s), normal(N)


def over_channels(normal):
    return normal(d_c, d), normal(d_c), normal(d, d_c), normal(d)


def norms(normal):
    return (normal(d), normal(d)), (normal(d), normal(d))


@each_form
def test_each_channel_is_mixed_by_itself_by_the_same_network(form, normal, agree):
    def by_channels(x, W_1, b_1, W_2, b_2):
        mixed = [[W_2 @ F.gelu(W_1 @ x[i, :, c] + b_1) + b_2 for c in range(d)] for i in range(B)]
        return torch.stack([torch.stack(channels, dim=-1) for channels in mixed])

    agree(form, by_channels, normal(B, N, d), *over_places(normal))


@each_form
def test_no_channel_hears_of_another_and_every_place_of_every_other(form, normal):
    weights, x = over_places(normal), normal(1, N, d)
    jacobian = torch.autograd.functional.jacobian(lambda x: form(x, *weights), x)[0, :, :, 0]
    for c in range(d):
        assert (jacobian[:, c, :, c] != 0).all()
        assert not jacobian[:, c, :, [k for k in range(d) if k != c]].any()


def test_no_place_hears_of_another_when_channels_are_mixed(normal):
    weights, x = over_channels(normal), normal(1, N, d)
    jacobian = torch.autograd.functional.jacobian(lambda x: channel_mixing(x, *weights), x)[0, :, :, 0]
    for n in range(N):
        assert (jacobian[n, :, n] != 0).all()
        assert not jacobian[n, :, [k for k in range(N) if k != n]].any()


def test_channel_mixing_is_two_linear_layers_of_torch(normal, agree):
    agree(
        channel_mixing,
        lambda x, W_3, b_3, W_4, b_4: F.linear(F.gelu(F.linear(x, W_3, b_3)), W_4, b_4),
        normal(B, N, d),
        *over_channels(normal),
    )


def test_channel_mixing_is_token_mixing_of_the_transposed(normal, agree):
    agree(channel_mixing, lambda x, *weights: token_mixing(x.mT, *weights).mT, normal(B, N, d), *over_channels(normal))


def test_two_places_by_hand():
    """One hidden unit sums both positions, where the GELU is the identity, and passes the sum to the second position."""
    x = torch.tensor([[[30.0, 40.0], [10.0, 5.0]]])
    mixed = token_mixing(x, torch.ones(1, 2), torch.zeros(1), torch.tensor([[0.0], [1.0]]), torch.tensor([7.0, 0.0]))
    assert mixed.tolist() == [[[7.0, 7.0], [40.0, 45.0]]]


def test_the_block_is_the_one_of_all_transformers(normal):
    """`Block` with token mixing instead of attention, pre-norm, and GELU in its network."""
    block = Block(TokenMixing(N, d_s), FeedForward(d, d_c, F.gelu), d, pre_norm).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(normal(*parameter.shape))
    mixer, network = block.mixer, block.feed_forward
    tokens, channels = ((part.W_1.weight, part.W_1.bias, part.W_2.weight, part.W_2.bias) for part in (mixer, network))
    pairs = tuple((norm.weight, norm.bias) for norm in (block.norm_1, block.norm_2))
    x = normal(B, N, d)
    torch.testing.assert_close(mixer_block(x, tokens, channels, pairs), block(x))
    block.residual = post_norm
    assert (mixer_block(x, tokens, channels, pairs) - block(x)).abs().max() > 0.1


def test_a_block_of_zeros_changes_nothing(normal):
    x = normal(B, N, d)
    zeros = [tuple(torch.zeros_like(w) for w in weights) for weights in (over_places(normal), over_channels(normal))]
    assert mixer_block(x, *zeros, norms(normal)).equal(x)


@each_form
def test_shuffled_places_with_reordered_weights_give_the_shuffled_result(form, normal):
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    x, weights = normal(B, N, d), over_places(normal)
    shuffled = form(x[:, order], *reordered_token_mixing(*weights, order))
    torch.testing.assert_close(shuffled, form(x, *weights)[:, order])
    assert (form(x[:, order], *weights) - form(x, *weights)[:, order]).abs().max() > 0.1


def test_the_lean_form_is_the_equation(normal, agree):
    agree(lean_token_mixing, token_mixing, normal(B, N, d), *over_places(normal))


@each_form
def test_gradients_against_differences(form, normal):
    assert torch.autograd.gradcheck(form, [normal(1, 2, 3), normal(4, 2), normal(4), normal(2, 4), normal(2)])
    assert torch.autograd.gradcheck(channel_mixing, [normal(1, 2, 3), normal(4, 3), normal(4), normal(3, 4), normal(3)])


@each_form
@pytest.mark.parametrize("shape", [(0, 3, 2), (1, 1, 1), (4, 1, 3), (2, 3, 0)])
def test_few_images_places_and_channels(form, shape, normal):
    x = normal(*shape)
    places = shape[1]
    assert form(x, normal(d_s, places), normal(d_s), normal(places, d_s), normal(places)).shape == shape


@each_form
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_other_numbers_stay_what_they_are(form, dtype, scale, normal):
    exact = normal(B, N, d, scale=scale), *over_places(normal)
    mixed = form(*(tensor.to(dtype) for tensor in exact))
    assert mixed.dtype == dtype
    expected = token_mixing(*exact)
    torch.testing.assert_close(mixed.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps * expected.abs().max().item())


def test_a_module_starts_as_torch_starts_linear_layers():
    torch.manual_seed(0)
    module = TokenMixing(N, d_s)
    torch.manual_seed(0)
    first, second = nn.Linear(N, d_s), nn.Linear(d_s, N)
    assert module.W_1.weight.equal(first.weight)
    assert module.W_2.bias.equal(second.bias)


def test_another_number_of_places_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(RuntimeError):
        TokenMixing(N, d_s)(torch.zeros(B, N + 1, d))
