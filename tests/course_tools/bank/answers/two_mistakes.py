"""Answers that make two mistakes of the bank at once: the exercise, the answer, the names of the two.

A message about either helps; a message about a third thing would mislead.
"""

import math

import torch
from torch.nn import functional as F

from course_lib.attention import attend, merge_heads, scaled_dot_product_attention, split_heads
from course_lib.primitives import rnn_step
from tests.course_tools.bank.answers import (
    lecture_03,
    lecture_05,
    lecture_06,
    lecture_07,
    lecture_08,
    lecture_09,
    lecture_10,
    lecture_11,
    lecture_12,
    lecture_13,
    lecture_14,
    lecture_15,
    lecture_16,
)


def rnn(x, h, W, U, b):
    return torch.sigmoid(x @ W.mT + h @ U + b)


def bptt(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U.mT, delta.mT @ x / len(x), delta.mT @ h / len(x), delta.mean(0)


def clip(gradients, max_norm):
    return [g * (max_norm / g.norm()) for g in gradients]


def lstm(x, h, c, W, U, b):
    f, i, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * c, c


def carousel(forget_gates):
    return torch.sigmoid(forget_gates[1:]).prod(0)


def additive(q, k, W, U, v):
    return ((q @ W.mT).unsqueeze(-3) + (k @ U.mT).unsqueeze(-2)) @ v


def general(q, k, W):
    return torch.tanh(q @ W @ k.mT / math.sqrt(k.shape[-1]))


def concat(q, k, W, v):
    d_k = k.shape[-1]
    return ((k @ W[:, :d_k].mT).unsqueeze(-3) + (q @ W[:, d_k:].mT).unsqueeze(-2)) @ v


def normalise_and_mix(scores, values, mask=None):
    weights = scores.softmax(-2)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ values, weights


def read(x, lengths, h, W, U, b):
    h, states = torch.zeros_like(h), []
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], rnn_step(x[:, t], h, W, U, b), h)
        states.append(h)
    return torch.stack(states, dim=1), h


def loss(logits, target, padding):
    return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=padding, reduction="sum")


def scaled_dot_product(q, k, v, mask=None):
    return attend(q @ k.mT, v, None if mask is None else ~mask)


def causal(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, device=device).triu(T_k - T_q)


def padded(lengths, T_k):
    return (torch.arange(T_k) >= lengths[:, None]).float()[:, None]


def heads(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).mT


def multihead(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(context) @ W_o.mT, weights.mean(-3)


def over_image(x, W_q, W_k, W_v):
    pixels = x.transpose(2, 3).flatten(2).mT
    context, _ = attend(pixels @ W_q.mT @ (pixels @ W_k.mT).mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, x.shape[2:])


TWO_MISTAKES = (
    ("01.1", rnn, {"squashes_with_the_sigmoid", "transposes_the_recurrent_matrix"}),
    ("01.2", bptt, {"transposes_the_recurrent_matrix", "averages_over_the_batch"}),
    ("01.3", clip, {"clips_each_tensor_alone", "always_rescales"}),
    ("01.4", lstm, {"swaps_input_gate_and_forget_gate", "shows_the_raw_cell_state"}),
    ("01.5", carousel, {"leaves_out_the_first_gate", "squashes_the_gates_again"}),
    ("02.1", additive, {"without_the_tanh", "queries_and_keys_on_swapped_axes"}),
    ("02.2", general, {"tanh_around_the_product", "scaled_by_the_root_of_d_k"}),
    ("02.3", concat, {"key_before_query", "without_the_tanh"}),
    ("02.4", normalise_and_mix, {"softmax_over_the_queries", "mask_after_the_softmax"}),
    ("02.5", read, {"starts_from_zero", "padding_states_not_zeroed"}),
    ("02.6", loss, {"without_the_shift", "sum_instead_of_mean"}),
    *lecture_03.TWO_MISTAKES,
    ("04.1", scaled_dot_product, {"forgets_the_scale", "inverts_the_mask"}),
    ("04.2", causal, {"looks_into_the_future", "returns_ones_and_zeros"}),
    ("04.3", padded, {"marks_the_padding", "returns_ones_and_zeros"}),
    ("04.4", heads, {"takes_every_nth_feature", "leaves_the_heads_after_the_positions"}),
    ("04.5", multihead, {"does_not_give_the_mask_to_the_heads", "averages_the_weights_over_the_heads"}),
    ("04.6", over_image, {"forgets_the_scale", "flattens_column_by_column"}),
    *lecture_05.TWO_MISTAKES,
    *lecture_06.TWO_MISTAKES,
    *lecture_07.TWO_MISTAKES,
    *lecture_08.TWO_MISTAKES,
    *lecture_09.TWO_MISTAKES,
    *lecture_10.TWO_MISTAKES,
    *lecture_11.TWO_MISTAKES,
    *lecture_12.TWO_MISTAKES,
    *lecture_13.TWO_MISTAKES,
    *lecture_14.TWO_MISTAKES,
    *lecture_15.TWO_MISTAKES,
    *lecture_16.TWO_MISTAKES,
)
