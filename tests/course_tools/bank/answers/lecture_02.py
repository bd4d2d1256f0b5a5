"""Answers to the exercises of lecture 02 that are not in the bank. The tables are those of lecture_01.py."""

import math

import torch
from torch.nn import functional as F

from course_lib.primitives import rnn_step


def additive_multiplies_the_projections(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) * (k @ U.mT).unsqueeze(-3)) @ v


def additive_subtracts_the_key(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) - (k @ U.mT).unsqueeze(-3)) @ v


def additive_divides_by_the_root_of_d_a(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v / math.sqrt(len(v))


def additive_normalises_v(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ (v / v.norm())


def general_makes_the_matrix_symmetric(q, k, W):
    W = (W + W.mT) / 2 if W.shape[0] == W.shape[1] else W
    return q @ W @ k.mT


def general_normalises_the_queries(q, k, W):
    return F.normalize(q, dim=-1) @ W @ k.mT


def general_adds_the_dot_product(q, k, W):
    scores = q @ W @ k.mT
    return scores + q @ k.mT if q.shape[-1] == k.shape[-1] else scores


def general_subtracts_the_largest_score(q, k, W):
    scores = q @ W @ k.mT
    return scores - scores.amax(-1, keepdim=True)


def concat_averages_the_hidden_units(q, k, W, v):
    hidden = torch.tanh((q @ W[:, : q.shape[-1]].mT).unsqueeze(-2) + (k @ W[:, q.shape[-1] :].mT).unsqueeze(-3))
    return (hidden * v).mean(-1)


def concat_splits_at_the_size_of_the_keys(q, k, W, v):
    for_k, for_q = W.split([k.shape[-1], q.shape[-1]], dim=-1)
    return torch.tanh((q @ for_q.mT).unsqueeze(-2) + (k @ for_k.mT).unsqueeze(-3)) @ v


def concat_forgets_the_keys(q, k, W, v):
    hidden = torch.tanh(q @ W[:, : q.shape[-1]].mT) @ v
    return hidden.unsqueeze(-1).expand(*q.shape[:-1], k.shape[-2]).clone()


def attend_at_half_the_temperature(scores, values, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = (2 * scores).softmax(-1).nan_to_num(0.0)
    return weights @ values, weights


def attend_renormalises_what_is_left(scores, values, mask=None):
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ values, weights


def attend_returns_the_weights_first(scores, values, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights, weights @ values


def attend_masks_by_an_index(scores, values, mask=None):
    scores = scores.clone()
    if mask is not None:
        scores[~mask] = -torch.inf
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ values, weights


def attend_shows_other_weights_than_it_uses(scores, values, mask=None):
    masked = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return masked.softmax(-1).nan_to_num(0.0) @ values, scores.softmax(-1)


def encode_reads_backwards(x, lengths, h, W, U, b):
    states = []
    for t in reversed(range(x.shape[1])):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states[::-1], dim=1), h


def encode_records_the_state_before_the_step(x, lengths, h, W, U, b):
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        states.append(torch.where(real, h, 0.0))
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
    return torch.stack(states, dim=1), h


def encode_leaves_the_batch_sorted(x, lengths, h, W, U, b):
    order = lengths.argsort(descending=True)
    x, h, lengths, states = x[order], h[order], lengths[order], []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


def encode_counts_the_lengths_down(x, lengths, h, W, U, b):
    states = []
    for t in range(x.shape[1]):
        real = (lengths > 0)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
        lengths -= 1
    return torch.stack(states, dim=1), h


def loss_as_perplexity(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding).exp()


def loss_in_bits(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding) / math.log(2)


def loss_with_smooth_labels(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, label_smoothing=0.1)


def loss_with_the_padding_written_in(logits, target, padding):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=4)


def loss_a_sentence(logits, target, padding):
    total = F.cross_entropy(logits[:, :-1].transpose(1, 2), target[:, 1:], ignore_index=padding, reduction="sum")
    return total / len(logits)


STRANGERS = {
    "02.1": (
        additive_multiplies_the_projections,
        additive_subtracts_the_key,
        additive_divides_by_the_root_of_d_a,
        additive_normalises_v,
    ),
    "02.2": (
        general_makes_the_matrix_symmetric,
        general_normalises_the_queries,
        general_adds_the_dot_product,
        general_subtracts_the_largest_score,
    ),
    "02.3": (concat_averages_the_hidden_units, concat_splits_at_the_size_of_the_keys, concat_forgets_the_keys),
    "02.4": (
        attend_at_half_the_temperature,
        attend_renormalises_what_is_left,
        attend_returns_the_weights_first,
        attend_masks_by_an_index,
        attend_shows_other_weights_than_it_uses,
    ),
    "02.5": (
        encode_reads_backwards,
        encode_records_the_state_before_the_step,
        encode_leaves_the_batch_sorted,
        encode_counts_the_lengths_down,
    ),
    "02.6": (
        loss_as_perplexity,
        loss_in_bits,
        loss_with_smooth_labels,
        loss_with_the_padding_written_in,
        loss_a_sentence,
    ),
}


def additive_in_loops_without_tanh(q, k, W, U, v):
    rows = [[(q[..., i, :] @ W.T + k[..., j, :] @ U.T) @ v for j in range(k.shape[-2])] for i in range(q.shape[-2])]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def general_by_linear_the_wrong_way(q, k, W):
    return F.linear(q, W) @ k.transpose(-2, -1)


def concat_in_loops_with_the_key_first(q, k, W, v):
    columns = []
    for j in range(k.shape[-2]):
        key = k[..., j : j + 1, :].expand(*q.shape[:-1], k.shape[-1])
        columns.append(F.linear(torch.cat([key, q], -1), W).tanh() @ v)
    return torch.stack(columns, -1)


def attend_by_hand_over_the_wrong_axis(scores, values, mask=None):
    allowed = torch.ones_like(scores).bool() if mask is None else mask.broadcast_to(scores.shape)
    shares = torch.where(allowed, (scores - scores.amax(-2, keepdim=True)).exp(), 0.0)
    weights = shares / shares.sum(-2, keepdim=True).clamp(min=1e-30)
    return weights @ values, weights


def attend_with_an_additive_mask(scores, values, mask=None):
    if mask is not None:
        scores = scores + torch.zeros(mask.shape).masked_fill(mask.logical_not(), float("-inf"))
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = shares / shares.sum(-1, keepdim=True)
    return weights @ values, weights


def encode_takes_the_last_column(x, lengths, h, W, U, b):
    states = [h]
    for t in range(x.shape[1]):
        states.append(torch.tanh(x[:, t] @ W.T + states[-1] @ U.T + b))
    after = torch.stack(states[1:], 1)
    return after * (torch.arange(x.shape[1]) < lengths[:, None])[..., None], states[-1]


def loss_by_hand_without_the_shift(logits, target, padding):
    log_p = logits.log_softmax(-1).gather(-1, target[..., None])[..., 0]
    real = target != padding
    return -(log_p * real).sum() / real.sum()


def additive_with_two_mistakes(q, k, W, U, v):
    return ((q @ W.mT).unsqueeze(-3) + (k @ U.mT).unsqueeze(-2)) @ v


def general_with_two_mistakes(q, k, W):
    return torch.tanh(q @ W @ k.mT / math.sqrt(k.shape[-1]))


def concat_with_two_mistakes(q, k, W, v):
    d_k = k.shape[-1]
    return ((k @ W[:, :d_k].mT).unsqueeze(-3) + (q @ W[:, d_k:].mT).unsqueeze(-2)) @ v


def normalise_and_mix_with_two_mistakes(scores, values, mask=None):
    weights = scores.softmax(-2)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ values, weights


def read_with_two_mistakes(x, lengths, h, W, U, b):
    h, states = torch.zeros_like(h), []
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], rnn_step(x[:, t], h, W, U, b), h)
        states.append(h)
    return torch.stack(states, dim=1), h


def loss_with_two_mistakes(logits, target, padding):
    return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=padding, reduction="sum")


RELATIVES = (
    ("02.1", additive_in_loops_without_tanh, "without_the_tanh"),
    ("02.2", general_by_linear_the_wrong_way, "matrix_transposed"),
    ("02.3", concat_in_loops_with_the_key_first, "key_before_query"),
    ("02.4", attend_by_hand_over_the_wrong_axis, "softmax_over_the_queries"),
    ("02.4", attend_with_an_additive_mask, "nan_for_a_row_masked_whole"),
    ("02.5", encode_takes_the_last_column, "state_walks_on_over_the_padding"),
    ("02.6", loss_by_hand_without_the_shift, "without_the_shift"),
)
TWO_MISTAKES = (
    ("02.1", additive_with_two_mistakes, {"without_the_tanh", "queries_and_keys_on_swapped_axes"}),
    ("02.2", general_with_two_mistakes, {"tanh_around_the_product", "scaled_by_the_root_of_d_k"}),
    ("02.3", concat_with_two_mistakes, {"key_before_query", "without_the_tanh"}),
    ("02.4", normalise_and_mix_with_two_mistakes, {"softmax_over_the_queries", "mask_after_the_softmax"}),
    ("02.5", read_with_two_mistakes, {"starts_from_zero", "padding_states_not_zeroed"}),
    ("02.6", loss_with_two_mistakes, {"without_the_shift", "sum_instead_of_mean"}),
)
