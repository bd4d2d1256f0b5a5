"""A Mixer computed by a function for its block, rewired for shuffled patches, and as a CNN: all give the Mixer's logits."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import MixerSizes, mixer_block, reordered_token_mixing, token_mixing, token_mixing_kernels
from course_lib.models import Mixer
from course_tools.lectures.lecture_13.experiments import (
    by_convolutions,
    computed_by,
    gap_to_a_shared_convolution,
    mixing_weights_of,
    with_permuted_inputs,
)
from course_tools.notebook.shuffled_patches import random_orders, shuffled


def random_mixer():
    torch.manual_seed(0)
    model = Mixer(7, (1, 15, 15), 3, MixerSizes(11, 13, 17, 2)).eval()
    nn.init.normal_(model.head.weight)
    return model, torch.randn(5, 1, 15, 15)


def test_mixer_block_computes_the_librarys_mixer_with_its_weights():
    model, images = random_mixer()
    by_function = computed_by(mixer_block, deepcopy(model))
    torch.testing.assert_close(by_function(images), model(images))
    assert by_function.state_dict().keys() == model.state_dict().keys()


def test_another_function_computes_another_mixer():
    model, images = random_mixer()
    without_mixing = computed_by(lambda x, tokens, channels, norms: x, deepcopy(model))
    assert (without_mixing(images) - model(images)).abs().max() > 1e-2


def test_a_rewired_mixer_computes_the_same_logits_from_shuffled_images():
    model, images = random_mixer()
    order, inner = random_orders(25, 9, seed=3)
    moved = shuffled(images, 3, order, inner)
    torch.testing.assert_close(with_permuted_inputs(model, reordered_token_mixing, order, inner)(moved), model(images))
    assert (model(moved) - model(images)).abs().max() > 1e-2


def test_convolutions_with_the_weights_of_a_mixer_give_its_logits():
    model, images = random_mixer()
    torch.testing.assert_close(by_convolutions(model, images, token_mixing_kernels), model(images))


def test_token_mixing_computes_a_convolution_that_all_channels_share():
    torch.manual_seed(1)
    x, kernel = torch.randn(2, 3, 5, 5), torch.randn(1, 1, 3, 3)
    mixed = token_mixing(x.flatten(2).mT, *mixing_weights_of(kernel, 5)).mT.view_as(x)
    torch.testing.assert_close(mixed, F.conv2d(x, kernel.expand(3, 1, 3, 3), padding=1, groups=3))
    assert gap_to_a_shared_convolution(token_mixing) < 1e-5
    assert gap_to_a_shared_convolution(lambda *inputs: token_mixing(*inputs) + 1) > 0.5
