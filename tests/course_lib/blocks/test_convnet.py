"""The small backbone: sizes and strides, its equation, and a choice of normalisation."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.analysis import record
from course_lib.attention import LocalAttention, NonLocal, NonLocalBlock
from course_lib.blocks import ContextOf, ConvNet

B, H, W = 2, 13, 17


@pytest.mark.parametrize(("widths", "strides"), [((5, 7, 11), (2, 1, 2)), ((3,), (1,)), ((2, 3), (3, 2))])
def test_each_layer_divides_the_sides_by_its_stride_rounded_up(widths, strides):
    net = ConvNet(3, widths, strides)
    factor = math.prod(strides)
    assert net(torch.randn(B, 3, H, W)).shape == (B, widths[-1], math.ceil(H / factor), math.ceil(W / factor))
    assert net.d_out == widths[-1]


def test_it_is_convolution_normalisation_and_relu_by_torchs_functions():
    torch.manual_seed(0)
    net = ConvNet(3, (5, 7), (2, 1)).double()
    images = torch.randn(B, 3, H, W, dtype=torch.float64)
    x = images
    for convolution, stride in ((net.layers[0], 2), (net.layers[3], 1)):
        x = F.conv2d(x, convolution.weight, stride=stride, padding=1)
        mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
        x = ((x - mean) / (variance + 1e-5).sqrt()).clamp_min(0)
    torch.testing.assert_close(net(images), x)


def test_with_group_normalisation_an_image_does_not_see_the_batch():
    net = ConvNet(1, (6, 8), (2, 2), norm=lambda width: nn.GroupNorm(2, width))
    images = torch.randn(B, 1, H, W)
    torch.testing.assert_close(net(images)[:1], net(images[:1]))


def test_gradients_reach_every_weight():
    net = ConvNet(3, (5, 7), (2, 1))
    net(torch.randn(B, 3, H, W)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_widths_and_strides_must_be_as_many():
    with pytest.raises(ValueError, match="the same length, at least 1; got 2 and 1"):
        ConvNet(3, (5, 7), (2,))
    with pytest.raises(ValueError, match="got 0 and 0"):
        ConvNet(3, (), ())


def attentive(d_in, d_out, stride):
    return ContextOf(LocalAttention(d_in, d_out, n_heads=2, size=3, stride=stride))


def test_local_attention_may_stand_in_the_place_of_the_convolution():
    torch.manual_seed(0)
    net = ConvNet(3, (8, 12), (2, 1), layer=attentive).double()
    images = torch.randn(B, 3, H, W, dtype=torch.float64)
    x = images
    for attention, norm in ((net.layers[0].attention, net.layers[1]), (net.layers[3].attention, net.layers[4])):
        x = norm(attention(x).context).relu()
    torch.testing.assert_close(net(images), x)
    assert net(images).shape == (B, 12, 7, 9)


def test_its_attention_is_recorded_under_its_name():
    net = ConvNet(3, (8, 12), (2, 1), layer=attentive)
    with record(net) as seen:
        net(torch.randn(B, 3, H, W))
    assert {name: tuple(found[0].weights.shape) for name, found in seen.items()} == {
        "layers.0.attention": (B, 2, 7, 9, 9),
        "layers.3.attention": (B, 2, 7, 9, 9),
    }


def test_a_non_local_block_between_two_nets_changes_nothing_at_the_start():
    first, second = ConvNet(3, (8,), (2,)).eval(), ConvNet(8, (5,), (1,)).eval()
    block = NonLocalBlock(8, NonLocal(8)).eval()
    images = torch.randn(B, 3, H, W)
    torch.testing.assert_close(nn.Sequential(first, block, second)(images), second(first(images)))
