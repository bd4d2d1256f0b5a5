"""MLP-Mixer: `Block` with token mixing instead of attention; equal to a CNN; independent of a fixed order of patches."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import MixerSizes, channel_mixing_by_convolution, reordered_token_mixing, token_mixing_by_convolution
from course_lib.fast import lean_token_mixing
from course_lib.models import Mixer
from course_lib.primitives import patchify, unpatchify

B, C, P, K = 2, 3, 5, 7
IMAGE = (C, 10, 15)
SIZES = MixerSizes(d_model=11, d_tokens=13, d_channels=17, n_layers=2)


def mixer(*mix):
    generator = torch.Generator().manual_seed(0)
    model = Mixer(K, IMAGE, P, SIZES, *mix).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return model


def weights_of(part):
    return part.W_1.weight, part.W_1.bias, part.W_2.weight, part.W_2.bias


def by_convolutions(model, images):
    """The whole model with only convolutions, norms over channels, and a mean."""
    stem = model.project.weight.view(SIZES.d_model, C, P, P)
    x = F.conv2d(images, stem, model.project.bias, stride=P)

    def normed(norm, x):
        return norm(x.movedim(1, -1)).movedim(-1, 1)

    for block in model.stack.blocks:
        x = x + token_mixing_by_convolution(normed(block.norm_1, x), *weights_of(block.mixer))
        x = x + channel_mixing_by_convolution(normed(block.norm_2, x), *weights_of(block.feed_forward))
    return F.linear(normed(model.stack.closing, x).mean((-2, -1)), model.head.weight, model.head.bias)


def as_the_deck_writes_it(model):
    """CSE 891's code: convolutions of size 1 over the positions, linear layers over the channels, without dropout."""

    class PreNormResidual(nn.Module):
        def __init__(self, norm, fn):
            super().__init__()
            self.norm, self.fn = norm, fn

        def forward(self, x):
            return self.fn(self.norm(x)) + x

    def dense(make, W_1, b_1, W_2, b_2):
        layers = make(W_1), nn.GELU(), make(W_2)
        for layer, W, b in ((layers[0], W_1, b_1), (layers[2], W_2, b_2)):
            layer.weight.data, layer.bias.data = W.reshape(layer.weight.shape), b
        return nn.Sequential(*layers)

    blocks = [
        nn.Sequential(
            PreNormResidual(b.norm_1, dense(lambda W: nn.Conv1d(W.shape[1], W.shape[0], 1), *weights_of(b.mixer))),
            PreNormResidual(b.norm_2, dense(lambda W: nn.Linear(W.shape[1], W.shape[0]), *weights_of(b.feed_forward))),
        )
        for b in model.stack.blocks
    ]
    body = nn.Sequential(model.project, *blocks, model.stack.closing)
    return lambda images: model.head(body(patchify(images, P)).mean(1))


def test_mixer_is_a_cnn_with_1_by_1_and_full_size_depth_wise_convolutions(normal, agree):
    model = mixer()
    agree(model, lambda images: by_convolutions(model, images), normal(B, *IMAGE))


def test_it_is_the_code_of_the_deck(normal, agree):
    model = mixer()
    agree(model, as_the_deck_writes_it(model), normal(B, *IMAGE))


def test_the_lean_form_has_the_outputs_and_gradients_of_the_equations(normal):
    images, labels, results = normal(B, *IMAGE), torch.tensor([0, 6]), []
    for form in ((), (lean_token_mixing,)):
        model = mixer(*form)
        logits = model(images)
        results.append((logits, *torch.autograd.grad(F.cross_entropy(logits, labels), list(model.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_patches_shuffled_in_one_way_need_only_reordered_weights(normal):
    """The model cannot use the order: permuting all images in the same way is undone by the weights."""
    model, images = mixer(), normal(B, *IMAGE)
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    shuffled = unpatchify(patchify(images, P)[:, order], P, *IMAGE[1:])
    before = model(images)
    assert (model(shuffled) - before).abs().max() > 1e-3
    with torch.no_grad():
        for block in model.stack.blocks:
            new = reordered_token_mixing(*weights_of(block.mixer), order)
            for parameter, weights in zip(weights_of(block.mixer), new, strict=True):
                parameter.copy_(weights)
    torch.testing.assert_close(model(shuffled), before)


def test_without_token_mixing_the_image_is_a_bag_of_patches(normal):
    """The control: with a mixer that adds nothing, no position depends on another."""
    model, images = mixer(lambda x, *weights: torch.zeros_like(x)), normal(B, *IMAGE)
    shuffled = unpatchify(patchify(images, P)[:, torch.tensor([3, 5, 0, 1, 4, 2])], P, *IMAGE[1:])
    torch.testing.assert_close(model(shuffled), model(images))


def test_every_pixel_is_heard(normal):
    images = normal(1, *IMAGE)
    (gradient,) = torch.autograd.grad(mixer()(images)[0, 0], images)
    assert (gradient != 0).all()


def test_a_new_model_finds_every_class_as_likely():
    assert (Mixer(K, IMAGE, P, SIZES)(torch.ones(B, *IMAGE)) == 0).all()


@pytest.mark.parametrize(("image", "P"), [((1, 1, 1), 1), ((2, 5, 5), 5), ((1, 1, 7), 1)])
def test_one_pixel_and_one_patch_are_an_image(image, P):
    model = Mixer(K, image, P, SIZES)
    assert model(torch.ones(B, *image)).shape == (B, K)
    assert model(torch.ones(0, *image)).shape == (0, K)


@pytest.mark.parametrize("image", [(C, 15, 15), (C, 15, 10), (C, 5, 30), (1, 10, 15), (C + 1, 10, 15)])
def test_images_of_another_size_or_of_other_channels_are_refused(normal, image):
    """Images of 15 × 10 and of 5 × 30 have as many patches, but at other positions."""
    with pytest.raises(ValueError, match=rf"= \(3, 10, 15\), got {re.escape(str(image))}: resize"):
        mixer()(normal(B, *image))


def test_patches_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="do not divide"):
        Mixer(K, (C, 10, 14), P, SIZES)
