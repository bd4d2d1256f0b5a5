"""Attention over an image is attention over its pixels: positions have no effect, and the result has the image's shape."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import AttentionLayer2d, attention_over_image, dot_attention, scaled_dot_product_attention
from course_lib.fast import fused_scaled_dot_product_attention

B, C, HEIGHT, WIDTH, d_k, d_v = 2, 3, 5, 7, 11, 13


def inputs(normal):
    return normal(B, C, HEIGHT, WIDTH), normal(d_k, C), normal(d_k, C), normal(d_v, C)


def by_convolutions(x, W_q, W_k, W_v):
    """EE-559's layer: three 1×1 convolutions, and the product of all pixels with all pixels."""
    q, k, v = (F.conv2d(x, W[:, :, None, None]).flatten(2) for W in (W_q, W_k, W_v))
    weights = torch.softmax(torch.einsum("bdi,bdj->bij", q, k) / math.sqrt(d_k), dim=2)
    return torch.einsum("bdj,bij->bdi", v, weights).unflatten(2, (HEIGHT, WIDTH))


def test_two_pixels_by_hand():
    """Pixels 0 and 1 with W_q = ln 3: the first has query 0 and averages, the second has weights 1 : 3."""
    x = torch.tensor([0.0, 1.0]).view(1, 1, 2, 1)
    y = attention_over_image(x, torch.tensor([[math.log(3)]]), torch.tensor([[1.0]]), torch.tensor([[8.0]]))
    torch.testing.assert_close(y, torch.tensor([4.0, 6.0]).view(1, 1, 2, 1))


def test_it_is_three_convolutions_and_a_product_of_all_pixels(normal, agree):
    agree(attention_over_image, by_convolutions, *inputs(normal))


def test_it_is_scaled_dot_product_attention_over_pixels(normal, agree):
    def over_pixels(x, W_q, W_k, W_v):
        pixels = torch.stack([x[:, :, i, j] for i in range(HEIGHT) for j in range(WIDTH)], dim=1)
        context = scaled_dot_product_attention(pixels @ W_q.T, pixels @ W_k.T, pixels @ W_v.T).context
        rows = [context[:, i * WIDTH : (i + 1) * WIDTH] for i in range(HEIGHT)]
        return torch.stack(rows, dim=1).permute(0, 3, 1, 2)

    agree(attention_over_image, over_pixels, *inputs(normal))


def test_moving_the_pixels_moves_the_result_and_changes_nothing_else(normal):
    x, *weights = inputs(normal)
    order = torch.randperm(HEIGHT * WIDTH, generator=torch.Generator().manual_seed(3))
    moved = lambda image: image.flatten(2)[..., order].unflatten(2, (HEIGHT, WIDTH))  # noqa: E731
    torch.testing.assert_close(attention_over_image(moved(x), *weights), moved(attention_over_image(x, *weights)))
    turned = attention_over_image(x.mT, *weights)
    torch.testing.assert_close(turned, attention_over_image(x, *weights).mT)


def test_every_pixel_reaches_every_pixel(normal):
    x, *weights = inputs(normal)
    attention_over_image(x, *weights)[0, :, 0, 0].square().sum().backward()
    assert x.grad[0].any(dim=0).all()
    assert not x.grad[1].any()


def test_a_picture_of_one_colour_keeps_one_colour(normal):
    x, W_q, W_k, W_v = inputs(normal)
    flat = x[:, :, :1, :1].expand_as(x)
    y = attention_over_image(flat, W_q, W_k, W_v)
    torch.testing.assert_close(y, F.conv2d(flat, W_v[:, :, None, None]))


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(attention_over_image, (normal(2, 3, 2, 5), normal(7, 3), normal(7, 3), normal(2, 3)))


def test_the_layer_is_the_function_with_its_weights(normal, agree):
    layer = AttentionLayer2d(C, d_k, d_v).double()
    x, *_ = inputs(normal)
    weights = layer.W_q.weight, layer.W_k.weight, layer.W_v.weight
    agree(lambda x: layer(x).context, lambda x: attention_over_image(x, *weights), x)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "W_q.weight": (d_k, C),
        "W_k.weight": (d_k, C),
        "W_v.weight": (d_v, C),
    }


def test_the_layer_returns_a_share_for_each_pair_of_pixels(normal):
    weights = AttentionLayer2d(C, d_k, d_v).double()(inputs(normal)[0]).weights
    assert weights.shape == (B, HEIGHT * WIDTH, HEIGHT * WIDTH)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, HEIGHT * WIDTH, dtype=torch.float64))


@pytest.mark.parametrize("mechanism", [dot_attention, fused_scaled_dot_product_attention])
def test_any_mechanism_may_look_over_the_picture(normal, agree, mechanism):
    layer = AttentionLayer2d(C, d_k, d_v, mechanism).double()

    def spelled_out(x):
        pixels = x.flatten(2).mT
        return mechanism(layer.W_q(pixels), layer.W_k(pixels), layer.W_v(pixels)).context.mT.unflatten(2, (HEIGHT, WIDTH))

    agree(lambda x: layer(x).context, spelled_out, inputs(normal)[0])


def test_a_picture_without_pixels_stays_one(normal):
    x, *weights = inputs(normal)
    assert attention_over_image(x[:, :, :0], *weights).shape == (B, d_v, 0, WIDTH)
