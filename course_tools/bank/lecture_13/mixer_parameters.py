"""Exercise 13.6, mixer_parameters: what students answer, wrong and right."""

import torch

from course_lib.metrics import MIXER_BASE, MIXER_HUGE, MIXER_LARGE, MIXER_SMALL, mixer_parameters
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Write down every tensor of a model with one block, each with its shape. Which of them would grow if the images were "
        "larger? And is there anything that exists once for each channel, or once for each place?"
    ),
    (
        "A linear layer from a to b numbers has a·b weights and b biases; a norm over d features has a gain and a bias, 2·d. "
        "The patches' layer and one closing norm stand outside the blocks, of which there are n_layers."
    ),
    (
        "A block: 2·N·d_tokens + d_tokens + N for the places, 2·d·d_channels + d_channels + d for the channels, and two norms, "
        "4·d. Outside: (d_patch + 1)·d for the patches, 2·d for the closing norm, (d + 1)·n_classes for the head."
    ),
)


def _linear(n_in, n_out):
    return n_in * n_out + n_out


def _network(n, hidden):
    return _linear(n, hidden) + _linear(hidden, n)


def _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """Count all of them."""
    block = _network(n_patches, d_tokens) + _network(d_model, d_channels) + 4 * d_model
    return _linear(d_patch, d_model) + n_layers * block + 2 * d_model + _linear(d_model, n_classes)


@wrong
def gives_each_channel_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the network over the places once for every channel. All channels share it: that is why a Mixer with more
    channels does not need more of these weights."""
    more = n_layers * (d_model - 1) * _network(n_patches, d_tokens)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@wrong
def gives_each_place_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the network over the channels once for every place. It slides over the places as a convolution of 1 × 1 does,
    with one set of weights."""
    more = n_layers * (n_patches - 1) * _network(d_model, d_channels)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@wrong
def counts_no_biases(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the matrices and no biases. Every linear layer has one number more for each of its outputs: those of the
    patches, of both networks and of the head."""
    block = 2 * n_patches * d_tokens + 2 * d_model * d_channels + 4 * d_model
    return d_patch * d_model + n_layers * block + 2 * d_model + d_model * n_classes


@wrong
def counts_no_norms(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You leave out the norms. Each has a gain and a bias for every channel; there are two in a block and one that closes the
    stack."""
    every = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)
    return every - (2 * n_layers + 1) * 2 * d_model


@wrong
def counts_one_norm_in_a_block(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one norm in each block. There are two, one before each network, with weights of their own."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - n_layers * 2 * d_model


@wrong
def forgets_the_closing_norm(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You forget the norm behind the last block. What runs along the residual path is never normalised within the blocks, so
    one more stands before the head: 2·d parameters."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - 2 * d_model


@wrong
def counts_positions(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count learned positions, as ViT has them. A Mixer needs none: its weights over the places know each place by its
    number."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + n_patches * d_model


@wrong
def counts_one_layer_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one matrix for each network. Each has two: one into the hidden units, one back."""
    block = _linear(n_patches, d_tokens) + _linear(d_model, d_channels) + 4 * d_model
    return _linear(d_patch, d_model) + n_layers * block + 2 * d_model + _linear(d_model, n_classes)


@wrong
def shares_one_block(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one block, however many there are. The blocks look alike but do not share weights, so there are n_layers
    times as many."""
    return _all(d_model, d_tokens, d_channels, 1, n_patches, d_patch, n_classes)


@wrong
def exchanges_the_widths(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You give the places the width d_channels and the channels the width d_tokens. Each width is called after what its
    network mixes."""
    return _all(d_model, d_channels, d_tokens, n_layers, n_patches, d_patch, n_classes)


@wrong
def reads_all_places_in_the_head(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You let the head read all places side by side, N·d numbers. It reads their mean, d numbers, with a weight for each of
    them and each class, and a bias for the class."""
    every = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, 0)
    return every + _linear(n_patches * d_model, n_classes)


@wrong
def counts_the_stem_for_each_patch(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the layer that reads a patch once for every patch. All patches go through the same one."""
    more = (n_patches - 1) * _linear(d_patch, d_model)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@right
def by_a_list_of_shapes(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """Every tensor of the model by its shape, the products added up."""
    pairs = [(n_patches, d_tokens), (d_tokens, n_patches), (d_model, d_channels), (d_channels, d_model)]
    block = [*((a + 1, b) for a, b in pairs), (2, d_model), (2, d_model)]
    shapes = [(d_patch + 1, d_model), *block * n_layers, (2, d_model), (d_model + 1, n_classes)]
    return sum(a * b for a, b in shapes)


@right
def by_building_it(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """All weights and biases made on the meta device, where they take no memory, and their numbers counted."""

    def layer(n_in, n_out):
        return [torch.empty(n_out, n_in, device="meta"), torch.empty(n_out, device="meta")]

    def norm():
        return [torch.empty(d_model, device="meta") for _ in range(2)]

    made = [*layer(d_patch, d_model), *norm(), *layer(d_model, n_classes)]
    for _ in range(n_layers):
        made += [*norm(), *layer(n_patches, d_tokens), *layer(d_tokens, n_patches)]
        made += [*norm(), *layer(d_model, d_channels), *layer(d_channels, d_model)]
    return sum(t.numel() for t in made)


@right
def ordered_by_power(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """What goes with d_model together, then what does not."""
    with_d = d_patch + n_classes + 3 + n_layers * (2 * d_channels + 5)
    return d_model * with_d + n_layers * ((2 * n_patches + 1) * d_tokens + n_patches + d_channels) + n_classes


def _sizes(draw: Draw, n_layers: int, n_classes: int) -> Call:
    """Sizes of which no two are equal, so that none can be taken for another."""
    d_model, d_tokens, d_channels, n_patches, d_patch = draw.sizes(5)
    return d_model, 2 * d_tokens, 3 * d_channels, n_layers, 7 * n_patches, 5 * d_patch, n_classes


exercise = Exercise(
    id="13.6",
    title="How many parameters",
    reference=mixer_parameters,
    properties=(
        runs_on(lambda draw: [_sizes(draw, 2, 3)]),
        has_shape("One number.", lambda draw: [_sizes(draw, 2, 3)]),
        Property(
            "ends",
            "Without a block and a head: one layer for all patches, and the norm that closes the stack.",
            lambda draw: [_sizes(draw, 0, 0), _sizes(draw, 0, 0)],
        ),
        Property(
            "head",
            "The head reads the mean of all places; it has a bias for each class.",
            lambda draw: [_sizes(draw, 0, 1), _sizes(draw, 0, 10)],
            needs=("ends",),
        ),
        Property(
            "block",
            "A block has a network over the places, one over the channels, and two norms.",
            lambda draw: [_sizes(draw, 1, 0), _sizes(draw, 1, 0)],
            points=3,
            needs=("ends",),
        ),
        Property(
            "layers",
            "Every block has weights of its own.",
            lambda draw: [_sizes(draw, 5, 0), _sizes(draw, 3, 2)],
            needs=("block",),
        ),
        Property(
            "published",
            "The published sizes, small to huge, on pictures of 224 × 224.",
            lambda draw: [
                (*sizes, (224 // P) ** 2, 3 * P * P, n_classes)
                for sizes, P in ((MIXER_SMALL, 32), (MIXER_BASE, 16), (MIXER_LARGE, 16), (MIXER_HUGE, 14))
                for n_classes in (0, 1000)
            ],
            points=2,
            needs=("head", "layers"),
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
