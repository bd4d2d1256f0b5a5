"""Mixer = a CNN with kernels of 1 × 1 and depth-wise kernels of the image's size: equal outputs, equal gradients."""

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.blocks import (
    channel_mixing,
    channel_mixing_by_convolution,
    token_mixing,
    token_mixing_by_convolution,
    token_mixing_kernels,
)

B, H, W, d, d_s, d_c = 2, 3, 5, 7, 11, 13
N = H * W


def as_image(mix):
    """Convert a mixer of (B, N, d) to one of images (B, d, H, W)."""

    def mixed(x, *weights):
        H, W = x.shape[-2:]
        y = mix(rearrange(x, "B d H W -> B (H W) d"), *weights)
        return rearrange(y, "B (H W) d -> B d H W", H=H, W=W)

    return mixed


def over_places(normal, N=N):
    return normal(d_s, N), normal(d_s), normal(N, d_s), normal(N)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (3, 5)])
def test_token_mixing_is_a_depth_wise_convolution_of_the_images_size(size, normal, agree):
    x, weights = normal(B, d, *size), over_places(normal, size[0] * size[1])
    agree(token_mixing_by_convolution, as_image(token_mixing), x, *weights)


def test_channel_mixing_is_two_convolutions_of_1_by_1(normal, agree):
    weights = normal(d_c, d), normal(d_c), normal(d, d_c), normal(d)
    agree(channel_mixing_by_convolution, as_image(channel_mixing), normal(B, d, H, W), *weights)


def test_every_group_has_the_same_kernels(normal):
    W_1, b_1, W_2, b_2 = over_places(normal)
    kernels = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    assert [tuple(k.shape) for k in kernels] == [(d * d_s, 1, H, W), (d * d_s,), (d * N, d_s, 1, 1), (d * N,)]
    for c in range(d):
        for j in range(d_s):
            assert kernels.first[c * d_s + j, 0].flatten().equal(W_1[j])
            assert kernels.first_bias[c * d_s + j] == b_1[j]
        for n in range(N):
            assert kernels.second[c * N + n, :, 0, 0].equal(W_2[n])
            assert kernels.second_bias[c * N + n] == b_2[n]


def test_without_the_same_kernels_it_is_no_mixer(normal):
    """The converse does not hold: a depth-wise convolution may treat each channel in its own way."""
    W_1, b_1, W_2, b_2 = over_places(normal)
    kernels = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    own = kernels.first + normal(*kernels.first.shape)
    same = normal(1, 1, H, W).expand(1, d, H, W)
    hidden = F.conv2d(same, own, kernels.first_bias, groups=d).view(d, d_s)
    assert (hidden[0] - hidden[1]).abs().max() > 0.1
    shared = F.conv2d(same, kernels.first, kernels.first_bias, groups=d).view(d, d_s)
    torch.testing.assert_close(shared, shared[:1].expand(d, d_s))


def test_gradients_against_differences(normal):
    weights = [normal(3, 2), normal(3), normal(2, 3), normal(2)]
    assert torch.autograd.gradcheck(token_mixing_by_convolution, [normal(1, 2, 1, 2), *weights])


def test_a_grid_that_the_weights_do_not_fit_is_refused(normal):
    with pytest.raises(ValueError, match="3 × 4 positions need weights for 12"):
        token_mixing_kernels(*over_places(normal), d, 3, 4)
