"""Costs of layers: counted from their sizes, by torch's own counter, and against the paper's table."""

import pytest
import torch
from torch import nn

from course_lib.attention import LocalAttention
from course_lib.metrics import OperationCount, convolution_cost, count_operations, local_attention_cost

d_in, H, W = 5, 7, 11
each_layer = pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (5, 2), (7, 3)])


def test_by_hand():
    """2 features in and 4 out, windows of 3 × 3, one image of 2 × 5 positions."""
    assert convolution_cost(2, 4, 3, 2, 5) == (72, 720)
    assert local_attention_cost(2, 4, 3, 2, 5) == (24 + 12, 10 * (24 + 72 + 12))


@each_layer
def test_a_convolution_is_what_torch_counts(size, stride):
    layer = nn.Conv2d(d_in, 8, size, stride, padding=size // 2, bias=False)
    assert convolution_cost(d_in, 8, size, H, W, stride) == count_operations(layer, lambda: layer(torch.randn(1, d_in, H, W)))


@each_layer
@pytest.mark.parametrize("n_heads", [1, 2])
def test_local_attention_is_what_torch_counts(size, stride, n_heads):
    layer = LocalAttention(d_in, 8, n_heads, size, stride)
    counted = count_operations(layer, lambda: layer(torch.randn(1, d_in, H, W)))
    assert local_attention_cost(d_in, 8, size, H, W, stride) == counted


def test_parameters_of_attention_hardly_grow_with_the_window():
    small, large = (local_attention_cost(64, 64, size, 8, 8) for size in (3, 11))
    assert large.parameters - small.parameters == 8 * 64
    assert convolution_cost(64, 64, 11, 8, 8).parameters > 13 * convolution_cost(64, 64, 3, 8, 8).parameters


def test_two_images_cost_twice_the_work():
    layer = nn.Conv2d(d_in, 8, 3)
    one, two = (count_operations(layer, lambda n=n: layer(torch.randn(n, d_in, H, W))) for n in (1, 2))
    assert two == OperationCount(one.parameters, 2 * one.multiply_adds)


def test_resnet_50_with_attention_has_the_published_parameters():
    """Ramachandran et al. 2019, table 1: 25.6 million, and 18.0 million if attention of 7 × 7 replaces the 3 × 3."""
    widths = [width for width, n in ((64, 3), (128, 4), (256, 6), (512, 3)) for _ in range(n)]
    convolutions = sum(convolution_cost(width, width, 3, 1, 1).parameters for width in widths)
    attention = sum(local_attention_cost(width, width, 7, 1, 1).parameters for width in widths)
    resnet_50 = 25_557_032
    assert round(resnet_50 / 1e6, 1) == 25.6
    assert round((resnet_50 - convolutions + attention) / 1e6, 1) == 18.0
