"""Answers to the exercises of lecture 05 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import math

import torch
from torch.nn import functional as F

from course_lib.attention import multi_head_attention
from course_lib.blocks import decoder_block, encoder_block, feed_forward, pre_norm_encoder_block
from course_lib.generation import extend_beam
from course_lib.primitives import causal_mask, layer_norm, sinusoidal_positions


def positions_of_a_shorter_wave(T, d_model, device=None):
    return sinusoidal_positions(2 * T, d_model, device)[::2]


def positions_squared(T, d_model, device=None):
    return sinusoidal_positions(T, d_model, device).square()


def positions_all_zero(T, d_model, device=None):
    return torch.zeros(T, d_model, device=device)


def positions_from_one_exchanged(T, d_model, device=None):
    table = sinusoidal_positions(T + 1, d_model + d_model % 2, device)[1:]
    return table.unflatten(1, (-1, 2)).flip(-1).flatten(1)[:, :d_model]


def norm_by_the_largest(x, gain, bias, epsilon=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.abs().amax(-1, keepdim=True) + epsilon) * gain + bias


def norm_by_the_median(x, gain, bias, epsilon=1e-5):
    return layer_norm(x, gain, bias, epsilon) + (x.mean(-1, keepdim=True) - x.median(-1, keepdim=True).values) * gain


def norm_without_gradient(x, gain, bias, epsilon=1e-5):
    return layer_norm(x.detach(), gain, bias, epsilon)


def norm_of_a_sample_without_centring(x, gain, bias, epsilon=1e-5):
    return x / (x.var(-1, keepdim=True) + epsilon).sqrt() * gain + bias


def leaky_network(x, W_1, b_1, W_2, b_2):
    return F.leaky_relu(x @ W_1.mT + b_1) @ W_2.mT + b_2


def network_of_sigmoids(x, W_1, b_1, W_2, b_2):
    return (x @ W_1.mT + b_1).sigmoid() @ W_2.mT + b_2


def network_of_halves(x, W_1, b_1, W_2, b_2):
    return (x @ W_1.mT + b_1).relu() @ W_2.mT / 2 + b_2


def network_without_relu_and_bias(x, W_1, b_1, W_2, b_2):
    return x @ W_1.mT @ W_2.mT + b_2


def _half_weight(block):
    def answer(x, attention, network, norms, n_heads, mask=None):
        *others, W_o = attention
        return block(x, (*others, W_o / 2), network, norms, n_heads, mask)

    return answer


post_with_half_the_attention, pre_with_half_the_attention = _half_weight(encoder_block), _half_weight(pre_norm_encoder_block)
post_with_half_the_attention.__name__ = "post_with_half_the_attention"
pre_with_half_the_attention.__name__ = "pre_with_half_the_attention"


def post_without_network(x, attention, network, norms, n_heads, mask=None):
    return layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])


def post_twice(x, attention, network, norms, n_heads, mask=None):
    return encoder_block(encoder_block(x, attention, network, norms, n_heads, mask), attention, network, norms, n_heads, mask)


def pre_without_network(x, attention, network, norms, n_heads, mask=None):
    seen = layer_norm(x, *norms[0])
    return x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context


def pre_with_a_relu_at_the_end(x, attention, network, norms, n_heads, mask=None):
    return pre_norm_encoder_block(x, attention, network, norms, n_heads, mask).relu()


def post_without_mask_and_sum(x, attention, network, norms, n_heads, mask=None):
    h = layer_norm(multi_head_attention(x, x, x, *attention, n_heads).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


def pre_without_mask_and_second_norm(x, attention, network, norms, n_heads, mask=None):
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads).context
    return x + feed_forward(layer_norm(x, *norms[0]), *network)


def decoder_that_looks_at_itself_alone(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return encoder_block(x, own, network, norms[::2], n_heads, causal_mask(x.shape[1]))


def decoder_of_zero_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return decoder_block(x, 0 * memory, own, cross, network, norms, n_heads, memory_mask)


def decoder_with_the_norms_turned_round(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return decoder_block(x, memory, own, cross, network, norms[::-1], n_heads, memory_mask)


def decoder_without_any_mask(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    h = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    m = layer_norm(h + multi_head_attention(h, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(m + feed_forward(m, *network), *norms[2])


def beam_of_the_worst(log_p, logits, going, length, padding, penalty=0.0):
    return extend_beam(log_p, -logits, going, length, padding, penalty)


def beam_in_bits(log_p, logits, going, length, padding, penalty=0.0):
    scores, log_p, parent, word = extend_beam(log_p, logits, going, length, padding, penalty)
    return scores, log_p / math.log(2), parent, word


def beam_upside_down(log_p, logits, going, length, padding, penalty=0.0):
    return tuple(part.flip(-1) for part in extend_beam(log_p, logits, going, length, padding, penalty))


def beam_that_forgets_and_multiplies(log_p, logits, going, length, padding, penalty=0.0):
    return extend_beam(torch.zeros_like(log_p), logits, going, length, padding, -penalty)


STRANGERS = {
    "05.1": (positions_of_a_shorter_wave, positions_squared, positions_all_zero),
    "05.2": (norm_by_the_largest, norm_by_the_median, norm_without_gradient),
    "05.3": (leaky_network, network_of_sigmoids, network_of_halves),
    "05.4": (post_with_half_the_attention, post_without_network, post_twice),
    "05.5": (pre_with_half_the_attention, pre_without_network, pre_with_a_relu_at_the_end),
    "05.6": (decoder_that_looks_at_itself_alone, decoder_of_zero_memory, decoder_with_the_norms_turned_round),
    "05.7": (beam_of_the_worst, beam_in_bits, beam_upside_down),
}
RELATIVES = ()
TWO_MISTAKES = (
    ("05.1", positions_from_one_exchanged, {"counts_positions_from_one", "exchanges_sine_and_cosine"}),
    ("05.2", norm_of_a_sample_without_centring, {"estimates_the_variance_of_a_sample", "does_not_centre"}),
    ("05.3", network_without_relu_and_bias, {"forgets_the_relu", "forgets_the_first_bias"}),
    ("05.4", post_without_mask_and_sum, {"forgets_the_mask", "adds_nothing_to_the_attention"}),
    ("05.5", pre_without_mask_and_second_norm, {"forgets_the_mask", "uses_the_first_norm_twice"}),
    ("05.6", decoder_without_any_mask, {"looks_into_the_future", "forgets_the_memory_mask"}),
    ("05.7", beam_that_forgets_and_multiplies, {"forgets_what_went_before", "multiplies_by_the_penalty"}),
)
