"""Answers to the exercises of lecture 13 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch
import torch.nn.functional as F

from course_lib.blocks import channel_mixing, mixer_block, reordered_token_mixing, token_mixing, token_mixing_kernels
from course_lib.metrics import mixer_parameters
from course_lib.primitives import layer_norm


def places_by_a_softmax(x, W_1, b_1, W_2, b_2):
    return ((x.mT @ W_1.mT + b_1).softmax(-1) @ W_2.mT + b_2).mT


def places_from_the_last_to_the_first(x, W_1, b_1, W_2, b_2):
    return token_mixing(x.flip(1), W_1, b_1, W_2, b_2)


def places_of_the_mean_channel(x, W_1, b_1, W_2, b_2):
    return token_mixing(x.mean(2, keepdim=True).expand_as(x), W_1, b_1, W_2, b_2)


def places_without_gradient_in_the_weights(x, W_1, b_1, W_2, b_2):
    return token_mixing(x, W_1.detach(), b_1, W_2.detach(), b_2)


def places_twice_wrong(x, W_1, b_1, W_2, b_2):
    return (F.relu(x.mT @ W_1.mT + b_1) @ W_2.mT).mT


def channels_by_a_tanh(x, W_3, b_3, W_4, b_4):
    return (x @ W_3.mT + b_3).tanh() @ W_4.mT + b_4


def channels_by_swish(x, W_3, b_3, W_4, b_4):
    return F.silu(x @ W_3.mT + b_3) @ W_4.mT + b_4


def channels_of_the_mean_place(x, W_3, b_3, W_4, b_4):
    return channel_mixing(x.mean(1, keepdim=True).expand_as(x), W_3, b_3, W_4, b_4)


def channels_with_a_dead_image(x, W_3, b_3, W_4, b_4):
    result = channel_mixing(x, W_3, b_3, W_4, b_4)
    return torch.cat([result[:-1], torch.zeros_like(result[-1:])])


def channels_by_linear_layers(x, W_3, b_3, W_4, b_4):
    return F.linear(F.relu(F.linear(x, W_3, b_3)), W_4, b_4)


def channels_twice_wrong(x, W_3, b_3, W_4, b_4):
    return x + F.relu(x @ W_3.mT + b_3) @ W_4.mT + b_4


def block_of_the_places_alone(x, tokens, channels, norms):
    return x + token_mixing(layer_norm(x, *norms[0]), *tokens)


def block_twice_as_loud(x, tokens, channels, norms):
    return 2 * mixer_block(x, tokens, channels, norms) - x


def block_by_the_root_mean_square(x, tokens, channels, norms):
    def normed(x, gain, bias):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + bias

    x = x + token_mixing(normed(x, *norms[0]), *tokens)
    return x + channel_mixing(normed(x, *norms[1]), *channels)


def block_run_twice(x, tokens, channels, norms):
    return mixer_block(mixer_block(x, tokens, channels, norms), tokens, channels, norms)


def block_post_norm_by_hand(x, tokens, channels, norms):
    d = x.shape[2:]
    h = F.layer_norm(x + token_mixing(x, *tokens), d, *norms[0])
    return F.layer_norm(h + channel_mixing(h, *channels), d, *norms[1])


def block_twice_wrong(x, tokens, channels, norms):
    h = token_mixing(layer_norm(x, *norms[0]), *tokens)
    return h + channel_mixing(layer_norm(h, *norms[0]), *channels)


def kernels_of_the_first_channel_only(W_1, b_1, W_2, b_2, d, H, W):
    first, first_bias, second, second_bias = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    first = first * (torch.arange(len(first)) < len(b_1))[:, None, None, None]
    return first, first_bias, second, second_bias


def kernels_mirrored(W_1, b_1, W_2, b_2, d, H, W):
    first, *others = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    return first.flip(-1), *others


def kernels_with_the_hidden_units_turned_round(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(0), b_1, W_2, b_2, d, H, W)


def kernels_without_gradient(W_1, b_1, W_2, b_2, d, H, W):
    return tuple(part.detach() for part in token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W))


def kernels_turned_round_by_hand(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(1), b_1, W_2, b_2, d, H, W)


def kernels_twice_wrong(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(1), 0 * b_1, W_2, 0 * b_2, d, H, W)


def order_turned_round(W_1, b_1, W_2, b_2, order):
    return reordered_token_mixing(W_1, b_1, W_2, b_2, order.flip(0))


def order_moved_by_one(W_1, b_1, W_2, b_2, order):
    return reordered_token_mixing(W_1, b_1, W_2, b_2, (order + 1) % len(order))


def order_of_the_first_two_only(W_1, b_1, W_2, b_2, order):
    order = torch.cat([order[:2].sort().values, order[2:]])
    return reordered_token_mixing(W_1, b_1, W_2, b_2, order)


def order_without_gradient(W_1, b_1, W_2, b_2, order):
    return tuple(part.detach() for part in reordered_token_mixing(W_1, b_1, W_2, b_2, order))


def order_undone_by_a_loop(W_1, b_1, W_2, b_2, order):
    back = torch.tensor([order.tolist().index(i) for i in range(len(order))])
    return W_1[:, back], b_1, W_2[back], b_2[back]


def order_twice_wrong(W_1, b_1, W_2, b_2, order):
    return W_1[:, order.argsort()], b_1, W_2[order], b_2


def parameters_of_half_the_layers(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers // 2, n_patches, d_patch, n_classes)


def parameters_with_a_class_token(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches + 1, d_patch, n_classes) + d_model


def parameters_of_three_colours(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, 3 * d_patch, n_classes)


def parameters_that_shrink(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return -mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)


def parameters_with_a_table_of_positions(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return d_model * n_patches + mixer_parameters(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes)


def parameters_twice_wrong(d_model, d_tokens, d_channels, n_layers, n_patches, d_patch, n_classes):
    return mixer_parameters(d_model, d_channels, d_tokens, 1, n_patches, d_patch, n_classes)


STRANGERS = {
    "13.1": (
        places_by_a_softmax,
        places_from_the_last_to_the_first,
        places_of_the_mean_channel,
        places_without_gradient_in_the_weights,
    ),
    "13.2": (channels_by_a_tanh, channels_by_swish, channels_of_the_mean_place, channels_with_a_dead_image),
    "13.3": (block_of_the_places_alone, block_twice_as_loud, block_by_the_root_mean_square, block_run_twice),
    "13.4": (order_turned_round, order_moved_by_one, order_of_the_first_two_only, order_without_gradient),
    "13.5": (
        kernels_of_the_first_channel_only,
        kernels_mirrored,
        kernels_with_the_hidden_units_turned_round,
        kernels_without_gradient,
    ),
    "13.6": (
        parameters_of_half_the_layers,
        parameters_with_a_class_token,
        parameters_of_three_colours,
        parameters_that_shrink,
    ),
}
RELATIVES = (
    ("13.2", channels_by_linear_layers, "uses_relu"),
    ("13.3", block_post_norm_by_hand, "normalises_the_sums"),
    ("13.4", order_undone_by_a_loop, "uses_the_inverse"),
    ("13.5", kernels_turned_round_by_hand, "turns_the_kernels_round"),
    ("13.6", parameters_with_a_table_of_positions, "counts_positions"),
)
TWO_MISTAKES = (
    ("13.1", places_twice_wrong, {"uses_relu", "forgets_the_outer_bias"}),
    ("13.2", channels_twice_wrong, {"uses_relu", "adds_the_input"}),
    ("13.3", block_twice_wrong, {"uses_one_norm_twice", "forgets_the_first_sum"}),
    ("13.4", order_twice_wrong, {"inverts_only_the_input_side", "forgets_the_outer_bias"}),
    ("13.5", kernels_twice_wrong, {"turns_the_kernels_round", "forgets_the_biases"}),
    ("13.6", parameters_twice_wrong, {"shares_one_block", "exchanges_the_widths"}),
)
