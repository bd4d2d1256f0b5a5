"""Classifiers, Mixers by a function, shuffled images and counts of patches are what they say."""

import math
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import MixerSizes, mixer_block, reordered_token_mixing, token_mixing, token_mixing_kernels
from course_lib.models import Mixer
from course_lib.primitives import patchify, unpatchify
from course_tools.lectures.lecture_13.experiments import (
    PatchWords,
    accuracy_by_counts,
    by_convolutions,
    computed_by,
    first_losses,
    fit,
    gap_to_a_shared_convolution,
    initialised,
    loss_on_unseen,
    mixing_weights_of,
    show_both_orders,
    with_permuted_inputs,
)
from course_tools.notebook import digit_split
from course_tools.notebook.fitting import accuracy_of
from course_tools.notebook.shuffled_patches import random_orders, shuffled

# A classifier learns the digits of its seed, and is judged on those that it has not seen.


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_a_linear_classifier_learns_the_digits_of_its_seed():
    digits = digit_split((0, 1))
    model, accuracy, seconds = fit(linear, digits, 1, steps=150)
    unseen = digits.unseen[1]
    assert accuracy == accuracy_of(model, digits.images[unseen], digits.labels[unseen]) > 0.75
    assert seconds > 0


def test_the_seed_decides_the_weights_and_the_digits():
    digits = digit_split((0, 1))
    first, again, other = (fit(linear, digits, seed, steps=2).model[1].weight for seed in (0, 0, 1))
    torch.testing.assert_close(first, again)
    assert (first - other).abs().max() > 1e-2
    with pytest.raises(KeyError):
        fit(linear, digits, 2, steps=2)


def test_initial_weights_are_those_from_which_a_training_starts():
    digits = digit_split((0, 1))
    trained = fit(linear, digits, 1, steps=1, lr=1e-12).model
    torch.testing.assert_close(initialised(linear, 1)[1].weight, trained[1].weight)


def test_equal_logits_have_the_loss_of_a_uniform_guess():
    model = linear()
    torch.nn.init.zeros_(model[1].weight)
    torch.nn.init.zeros_(model[1].bias)
    assert loss_on_unseen(model, digit_split((1,)), 1) == pytest.approx(math.log(10))


# A Mixer computed by a function for its block, rewired for shuffled patches, and as a CNN: all give the Mixer's logits.


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


# Classifiers trained on images in order and on shuffled ones.


def test_the_first_losses_fall_and_the_same_seed_gives_the_same_ones():
    torch.manual_seed(0)
    images, labels = torch.randn(64, 1, 2, 3), torch.arange(64) % 2
    images[labels == 1] += 3

    def losses(seed):
        torch.manual_seed(1)
        return first_losses(nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), images, labels, seed)

    assert losses(0) == losses(0) != losses(5)
    assert len(losses(0)) == 40
    assert losses(0)[-1] < losses(0)[0]


def test_both_orders_contain_the_same_pixels_and_are_measured_on_the_other_digits():
    given = []

    class Ink(nn.Module):
        def forward(self, images):
            return torch.zeros(len(images), 10).scatter(1, (images.sum((1, 2, 3))[:, None] > 0).long(), 1.0)

    def train_mixer(images, labels, n_classes, n_steps):
        given.append(images)
        return Ink()

    show_both_orders(train_mixer, (0,), "a constant", n_steps=1)
    in_order, moved = given
    assert in_order.shape == moved.shape == (1_297, 1, 8, 8)
    assert not torch.equal(in_order, moved)
    torch.testing.assert_close(in_order.sum((1, 2, 3)), moved.sum((1, 2, 3)))


# Images are counted by their patches, whatever the order of these, and a linear classifier of the counts is tested.


def _strokes(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw n images (n, 1, 8, 8) of 16 patches of 2 × 2: three have a vertical (class 0) or a horizontal stroke (class 1)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    stroke = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])[labels]
    patches = torch.zeros(n, 16, 4)
    for image in range(n):
        patches[image, torch.randperm(16, generator=generator)[:3]] = stroke[image]
    return unpatchify(patches, 2, 8, 8), labels


def test_counts_by_hand_do_not_depend_on_the_order():
    images, labels = _strokes(40, seed=0)
    words = PatchWords(images, 2, n_words=2)
    counts = words.counts(images)
    assert counts.shape == (40, 3)
    assert counts[:, 2].tolist() == [13] * 40, "the empty patch is the last word"
    assert counts[:, :2].sort(-1).values.tolist() == [[0, 3]] * 40
    assert len(counts[labels == 0].unique(dim=0)) == len(counts[labels == 1].unique(dim=0)) == 1
    moved = unpatchify(patchify(images, 2)[:, torch.randperm(16)], 2, 8, 8)
    assert torch.equal(words.counts(moved), counts)


def test_classes_that_differ_in_their_patches_are_told_apart_and_others_are_not():
    known, new = _strokes(60, seed=1), _strokes(30, seed=2)
    assert accuracy_by_counts(known, new, 2, n_words=2) == 1.0
    assert accuracy_by_counts(known, (new[0], 1 - new[1]), 2, n_words=2) == 0.0
