"""Non-local attention in four forms, over images and videos; the block that starts as the identity."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    AttentionLayer2d,
    NonLocal,
    NonLocalBlock,
    associative_dot_product,
    concat_scores,
    dot_attention,
    non_local_block,
    non_local_concatenation,
    non_local_dot_product,
    non_local_embedded_gaussian,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_dot_attention, fused_embedded_gaussian

B, N_q, N, C, d_k, d = 2, 5, 7, 11, 3, 13
T, H, W = 3, 5, 7
each_form = pytest.mark.parametrize("form", [non_local_embedded_gaussian, fused_embedded_gaussian])
each_map = pytest.mark.parametrize("places", [(H, W), (T, H, W), (N,), (1, 1), (H, 1)])


def embedded(normal, *batch):
    return normal(*batch, N, C), normal(d_k, C), normal(d_k, C), normal(d, C)


def projected(normal, *batch):
    return normal(*batch, N_q, d_k), normal(*batch, N, d_k), normal(*batch, N, d)


def weights_of_block(normal):
    return normal(d_k, C), normal(d_k, C), normal(d, C), normal(C, d)


@each_form
def test_the_embedded_form_by_hand(form):
    """Features 0 and 1, θ = ln 3 · x, φ = x, g = 8 x."""
    one = torch.ones(1, 1)
    context = form(torch.tensor([[0.0], [1.0]]), math.log(3) * one, one, 8 * one).context
    torch.testing.assert_close(context, torch.tensor([[4.0], [6.0]]))


@pytest.mark.parametrize("form", [non_local_dot_product, associative_dot_product])
def test_the_dot_product_by_hand(form):
    """θ = 2, φ = 1 and -3: weights 2/2 and -6/2 of 5 and 4, so 5 - 12."""
    context = form(torch.tensor([[2.0]]), torch.tensor([[1.0], [-3.0]]), torch.tensor([[5.0], [4.0]])).context
    assert context.tolist() == [[-7.0]]


def test_concatenation_by_hand():
    """w_f = (1, 10): 2 + 10 and 2 - 10, after the ReLU 12 and 0; half of 12 · 5."""
    theta, phi, g = torch.tensor([[2.0]]), torch.tensor([[1.0], [-1.0]]), torch.tensor([[5.0], [4.0]])
    context, weights = non_local_concatenation(theta, phi, g, torch.tensor([1.0, 10.0]))
    assert (context.tolist(), weights.tolist()) == ([[30.0]], [[6.0, 0.0]])


@each_form
@pytest.mark.parametrize("batch", [(), (B,), (B, 3)])
def test_embedded_gaussian_is_scaled_dot_product_attention_up_to_the_scale(normal, agree, form, batch):
    def scaled(x, W_theta, W_phi, W_g):
        return scaled_dot_product_attention(math.sqrt(d_k) * x @ W_theta.T, x @ W_phi.T, x @ W_g.T).context

    agree(lambda *x: form(*x).context, scaled, *embedded(normal, *batch))


def test_over_an_image_it_is_the_attention_layer_up_to_the_scale(normal, agree):
    layer, ours = AttentionLayer2d(C, d_k, d_k).double(), NonLocal(C, d_k).double()
    with torch.no_grad():
        for mine, theirs in zip(ours.parameters(), layer.parameters(), strict=True):
            mine.copy_(theirs)
        ours.W_theta.weight.mul_(d_k**-0.5)
    agree(ours, layer, normal(B, C, H, W))


@pytest.mark.parametrize("batch", [(), (B,), (B, 3)])
def test_from_the_right_is_the_dot_product_form(normal, agree, batch):
    inputs = projected(normal, *batch)
    agree(lambda *x: associative_dot_product(*x).context, lambda *x: non_local_dot_product(*x).context, *inputs)
    assert associative_dot_product(*inputs).weights is None


def test_a_loop_over_places_takes_the_same_mean_of_products(normal, agree):
    def by_loop(theta, phi, g):
        return torch.stack([sum((theta[i] @ phi[j]) * g[j] for j in range(N)) / N for i in range(N_q)])

    agree(lambda *x: non_local_dot_product(*x).context, by_loop, *projected(normal))


def test_concatenation_is_luongs_concat_with_relu_over_n(normal, agree):
    """Luong's score with a W that passes both unchanged, without tanh: compared where tanh is nearly the identity."""
    theta, phi, g = projected(normal, B)
    w_f = normal(2 * d_k)
    tiny = 1e-5
    raw = concat_scores(tiny * theta, tiny * phi, torch.eye(2 * d_k).double(), w_f) / tiny
    torch.testing.assert_close(non_local_concatenation(theta, phi, g, w_f).weights, raw.relu() / N, atol=1e-8, rtol=1e-6)


def test_concatenation_in_a_loop_over_pairs(normal, agree):
    def by_loop(theta, phi, g, w_f):
        pairs = [[F.relu(torch.cat([q, k]) @ w_f) / N for k in phi] for q in theta]
        return torch.stack([sum(f * value for f, value in zip(row, g, strict=True)) for row in pairs])

    agree(lambda *x: non_local_concatenation(*x).context, by_loop, *projected(normal), normal(2 * d_k))


def test_without_a_softmax_weights_need_not_sum_to_one(normal):
    theta, phi, g = projected(normal, B)
    context, weights = non_local_dot_product(theta, phi, g)
    assert weights.shape == (B, N_q, N)
    assert not torch.allclose(weights.sum(-1), torch.ones(B, N_q).double(), atol=0.1)
    torch.testing.assert_close(weights @ g, context)


def test_gradients_against_differences(normal):
    small = normal(2, 3, 2), normal(2, 5, 2), normal(2, 5, 3)
    assert torch.autograd.gradcheck(non_local_dot_product, small)
    assert torch.autograd.gradcheck(lambda *x: associative_dot_product(*x).context, small)
    assert torch.autograd.gradcheck(non_local_concatenation, (*small, normal(4)))
    assert torch.autograd.gradcheck(non_local_embedded_gaussian, (normal(5, 3), normal(2, 3), normal(2, 3), normal(2, 3)))


def by_convolutions(x, W_theta, W_phi, W_g, W_z):
    """Figure 2 of the paper: 1 × 1 (× 1) convolutions, the product of all positions with all positions, softmax, residual."""
    places = x.shape[2:]
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(places)]
    one = (1,) * len(places)
    theta, phi, g = (convolve(x, W.reshape(*W.shape, *one)).flatten(2) for W in (W_theta, W_phi, W_g))
    f = torch.softmax(torch.einsum("bdi,bdj->bij", theta, phi), dim=-1)
    y = torch.einsum("bij,bdj->bdi", f, g).reshape(len(x), len(W_g), *places)
    return convolve(y, W_z.reshape(*W_z.shape, *one)) + x


@each_map
def test_the_block_is_that_of_figure_2_over_pictures_and_films(normal, agree, places):
    agree(non_local_block, by_convolutions, normal(B, C, *places), *weights_of_block(normal))


def test_every_time_and_place_of_a_film_reaches_every_other(normal):
    x = normal(B, C, T, H, W)
    non_local_block(x, *weights_of_block(normal))[0, :, 0, 0, 0].square().sum().backward()
    assert x.grad[0].any(dim=0).all()
    assert not x.grad[1].any()


def test_exchanging_the_times_of_a_film_exchanges_them_in_the_result(normal):
    x, weights = normal(B, C, T, H, W), weights_of_block(normal)
    order = [2, 0, 1]
    torch.testing.assert_close(non_local_block(x[:, :, order], *weights), non_local_block(x, *weights)[:, :, order])


@each_map
@pytest.mark.parametrize("train", [True, False])
def test_the_block_starts_as_the_identity(places, train):
    block = NonLocalBlock(C, NonLocal(C)).train(train)
    x = torch.randn(B, C, *places)
    assert torch.equal(block(x), x)


def test_the_gain_of_its_norm_alone_learns_first(normal):
    block = NonLocalBlock(C, NonLocal(C)).double()
    block(normal(B, C, H, W)).square().sum().backward()
    learning = {name for name, p in block.named_parameters() if p.grad is not None and p.grad.any()}
    assert learning == {"norm.weight", "norm.bias"}


def test_with_its_gain_at_one_the_block_is_the_function_and_a_norm(normal, agree):
    block = NonLocalBlock(C, NonLocal(C, d)).double()
    nn.init.ones_(block.norm.weight)
    own = [block.attention.W_theta.weight, block.attention.W_phi.weight, block.attention.W_g.weight, block.W_z.weight]

    def spelled_out(x):
        added = non_local_block(x, *own) - x
        mean, variance = added.mean((0, 2, 3), keepdim=True), added.var((0, 2, 3), unbiased=False, keepdim=True)
        return x + (added - mean) / (variance + 1e-5).sqrt()

    agree(block, spelled_out, normal(B, C, H, W))


@pytest.mark.parametrize(
    ("mechanism", "embed"),
    [
        (dot_attention, nn.Identity),
        (fused_dot_attention, partial(nn.Linear, bias=False)),
        (non_local_dot_product, partial(nn.Linear, bias=False)),
        (associative_dot_product, partial(nn.Linear, bias=False)),
    ],
)
@pytest.mark.parametrize("places", [(H, W), (T, H, W)])
def test_every_form_serves_pictures_and_films(mechanism, embed, places):
    layer = NonLocal(C, d, mechanism, embed)
    context, weights = layer(torch.randn(B, C, *places))
    assert context.shape == (B, d, *places)
    assert weights is None or weights.shape == (B, math.prod(places), math.prod(places))


def test_the_bottleneck_is_half_of_the_features():
    assert [NonLocal(n).d_out for n in (12, 11, 1)] == [6, 5, 1]
