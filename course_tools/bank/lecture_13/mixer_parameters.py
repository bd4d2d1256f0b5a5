"""Exercise 13.7, mixer_parameters: what students answer, wrong and right."""

import torch

from course_lib.metrics import MIXER_BASE, MIXER_HUGE, MIXER_LARGE, MIXER_SMALL, mixer_parameters
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write down every tensor of a model with one block, each with its shape. Which of them would grow if the images "
        "were larger? And is there any tensor for each channel, or for each position?"
    ),
    (
        "A linear layer from a to b numbers has a·b weights and b biases; a norm over d features has a gain and a bias, "
        "2·d. The layer of the patches and one final norm are outside the n_layers blocks."
    ),
    (
        "In a block, token mixing is one layer from n_patches to d_tokens and one back, channel mixing one from "
        "d_model to d_channels and one back, and there are two norms. Outside are the layer from d_patch to d_model, "
        "the last norm, and the head, a layer from d_model to n_classes. Apply the two formulas of hint 2 to each."
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


@wrong.idea
def gives_each_channel_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the network over the positions once for every channel. All channels share it."""
    more = n_layers * (d_model - 1) * _network(n_patches, d_tokens)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@wrong.idea
def gives_each_place_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the network over the channels once for every position. All positions share it, as in a convolution of 1 ×
    1."""
    more = n_layers * (n_patches - 1) * _network(d_model, d_channels)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@wrong.part
def counts_no_biases(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the matrices and no biases. Every linear layer has a bias for each of its outputs."""
    block = 2 * n_patches * d_tokens + 2 * d_model * d_channels + 4 * d_model
    return d_patch * d_model + n_layers * block + 2 * d_model + d_model * n_classes


@wrong.detail
def counts_no_norms(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You leave out the norms. Each has a gain and a bias for every channel; there are two in a block and one after the
    last."""
    every = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)
    return every - (2 * n_layers + 1) * 2 * d_model


@wrong.detail
def counts_one_norm_in_a_block(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one norm in each block. There are two, one before each network, with their own weights."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - n_layers * 2 * d_model


@wrong.detail
def forgets_the_closing_norm(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You leave out the norm after the last block: 2·d parameters."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - 2 * d_model


@wrong.detail
def counts_positions(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count learned positions, as ViT has them. A Mixer has none."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + n_patches * d_model


@wrong.part
def counts_one_layer_a_network(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one matrix for each network. Each has two: one into the hidden units, one back."""
    block = _linear(n_patches, d_tokens) + _linear(d_model, d_channels) + 4 * d_model
    return _linear(d_patch, d_model) + n_layers * block + 2 * d_model + _linear(d_model, n_classes)


@wrong.idea
def shares_one_block(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count one block, whatever n_layers is. The blocks do not share weights."""
    return _all(d_model, d_tokens, d_channels, 1, n_patches, d_patch, n_classes)


@wrong.detail
def exchanges_the_widths(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You exchange the widths: token mixing has d_tokens hidden units, channel mixing d_channels."""
    return _all(d_model, d_channels, d_tokens, n_layers, n_patches, d_patch, n_classes)


@wrong.part
def reads_all_places_in_the_head(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """The input of your head is all positions, N·d numbers. It is their mean, d numbers."""
    every = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, 0)
    return every + _linear(n_patches * d_model, n_classes)


@wrong.part
def counts_the_stem_for_each_patch(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count the layer that reads a patch once for every patch. All patches go through the same one."""
    more = (n_patches - 1) * _linear(d_patch, d_model)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) + more


@wrong.detail
def counts_half_of_each_norm(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count d parameters for a norm. It has two for each channel, a gain and a bias: 2·d."""
    every = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)
    return every - (2 * n_layers + 1) * d_model


@wrong.case
def counts_no_bias_of_the_patches(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You leave out the bias of the layer that embeds the patches: d parameters."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - d_model


@wrong.detail
def counts_no_biases_in_the_blocks(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count no biases in the two networks of a block. Every linear layer has a bias for each of its outputs."""
    missed = n_layers * (n_patches + d_tokens + d_model + d_channels)
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes) - missed


@wrong.detail
def gives_the_positions_biases_of_the_width(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You give the last layer over the positions a bias of d_model entries. A bias has the size of its layer's output:
    n_patches."""
    right = _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)
    return right + n_layers * (d_model - n_patches)


@wrong.case
def assumes_a_class(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    """You count a head for one class at least. Without classes there is no head."""
    return _all(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, max(n_classes, 1))


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


@stranger
def parameters_of_half_the_layers(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers // 2, n_patches, d_patch, n_classes)


@stranger
def parameters_with_a_class_token(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches + 1, d_patch, n_classes) + d_model


@stranger
def parameters_of_three_colours(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, 3 * d_patch, n_classes)


@stranger
def parameters_that_shrink(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return -mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)


@stranger(makes=[counts_positions])
def parameters_with_a_table_of_positions(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return d_model * n_patches + mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)


@stranger(makes=[shares_one_block, exchanges_the_widths])
def parameters_twice_wrong(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_channels, d_tokens, 1, n_patches, d_patch, n_classes)


def _sizes(draw: Draw, n_layers: int, n_classes: int) -> Call:
    """Sizes of which no two are equal, so that none can be taken for another."""
    d_model, d_tokens, d_channels, n_patches, d_patch = draw.sizes(5)
    return d_model, 2 * d_tokens, 3 * d_channels, n_layers, 7 * n_patches, 5 * d_patch, n_classes


exercise = Exercise(
    id="13.7",
    extra=True,
    title="The number of parameters of a Mixer",
    reference=mixer_parameters,
    properties=(
        runs_on(lambda draw: [_sizes(draw, 2, 3)]),
        has_shape("One number.", lambda draw: [_sizes(draw, 2, 3)]),
        Property(
            "ends",
            "Without blocks and head: the layer of the patches, and the final norm.",
            lambda draw: [_sizes(draw, 0, 0), _sizes(draw, 0, 0)],
        ),
        Property(
            "head",
            "The input of the head is the mean of all positions; it has a bias for each class.",
            lambda draw: [_sizes(draw, 0, 1), _sizes(draw, 0, 10)],
            needs=("ends",),
        ),
        Property(
            "block",
            "A block has a network over the positions, one over the channels, and two norms.",
            lambda draw: [_sizes(draw, 1, 0), _sizes(draw, 1, 0)],
            points=4,
            needs=("ends",),
        ),
        Property(
            "layers",
            "Every block has its own weights.",
            lambda draw: [_sizes(draw, 5, 0), _sizes(draw, 3, 2)],
            needs=("block",),
        ),
        Property(
            "published",
            "The published sizes, small to huge, on images of 224 × 224.",
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
    strangers=stranger,
    hints=HINTS,
)
