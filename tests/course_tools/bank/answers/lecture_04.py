"""Answers to the exercises of lecture 04 that are not in the bank. The tables are those of lecture_01.py."""

import math

import torch
from torch.nn import functional as F

from course_lib.attention import attend, merge_heads, scaled_dot_product_attention, split_heads
from course_lib.attention.multihead import mask_per_head


def sdpa_scales_by_the_number_of_queries(q, k, v, mask=None):
    return attend(q @ k.mT / math.sqrt(q.shape[-2]), v, mask)


def sdpa_bounds_the_scores(q, k, v, mask=None):
    return attend((q @ k.mT / math.sqrt(k.shape[-1])).clamp(-20, 20), v, mask)


def sdpa_cuts_the_weights_off(q, k, v, mask=None):
    _, weights = attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)
    return weights.detach() @ v, weights


def sdpa_takes_the_mask_of_the_first_sentence(q, k, v, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask[:1].expand_as(mask)
    return scaled_dot_product_attention(q, k, v, mask)


def sdpa_masks_by_an_index(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores[~mask] = -torch.inf
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


def causal_sees_only_a_window(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    mask = torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q)
    return mask & ~mask.tril(T_k - T_q - 4)


def causal_opens_everything_when_cached(T_q, T_k=None, device=None):
    if T_k is not None and T_k != T_q:
        return torch.ones(T_q, T_k, dtype=torch.bool, device=device)
    return torch.ones(T_q, T_q, dtype=torch.bool, device=device).tril()


def causal_shifts_as_for_one_query(T_q, T_k=None, device=None):
    T_k, shift = (T_q, 0) if T_k is None else (T_k, T_k - 1)
    return torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(shift)


def padding_takes_the_longest_for_all(lengths, T_k):
    return (torch.arange(T_k) < lengths.max()).expand(len(lengths), 1, T_k)


def padding_sorts_the_sentences(lengths, T_k):
    return (torch.arange(T_k) < lengths.sort().values[:, None])[:, None, :]


def padding_writes_every_query_out(lengths, T_k):
    return (torch.arange(T_k) < lengths[:, None])[:, None, :].expand(-1, T_k, -1)


def padding_counts_the_lengths_down(lengths, T_k):
    columns = []
    for _ in range(T_k):
        columns.append(lengths > 0)
        lengths -= 1
    return torch.stack(columns, -1)[:, None]


def heads_in_reverse(x, n_heads):
    return split_heads(x, n_heads).flip(-3)


def heads_without_an_axis_when_there_is_one(x, n_heads):
    return x if n_heads == 1 else split_heads(x, n_heads)


def heads_cut_from_the_graph(x, n_heads):
    return torch.tensor(split_heads(x, n_heads).tolist())


def heads_of_the_first_axis_only(x, n_heads):
    B, T = x.shape[0], x.shape[-2]
    return x.reshape(B, T, n_heads, -1).transpose(1, 2)


def _project(queries, keys, values, W_q, W_k, W_v, n_heads):
    return (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))


def multihead_gives_the_mask_to_the_first_head(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    if mask is not None:
        first = torch.arange(n_heads)[:, None, None] == 0
        mask = mask_per_head(mask) | ~first
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(context) @ W_o.mT, weights


def multihead_normalises_over_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask_per_head(mask), -1e9)
    weights = scores.softmax(-3)
    return merge_heads(weights @ v) @ W_o.mT, weights


def multihead_adds_the_queries_back(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    context = merge_heads(context) @ W_o.mT
    return context + queries if queries.shape == context.shape else context, weights


def multihead_interleaves_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    return context.movedim(-3, -1).flatten(-2) @ W_o.mT, weights


def image_with_rows_and_columns_swapped(x, W_q, W_k, W_v):
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.reshape(len(x), -1, x.shape[3], x.shape[2]).mT


def image_with_a_residual(x, W_q, W_k, W_v):
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    out = context.mT.unflatten(-1, x.shape[2:])
    return out + x if out.shape == x.shape else out


def image_looks_at_neighbours_only(x, W_q, W_k, W_v):
    H, W = x.shape[2:]
    pixels = x.flatten(2).mT
    row, column = torch.arange(H * W) // W, torch.arange(H * W) % W
    near = ((row[:, None] - row).abs() <= 1) & ((column[:, None] - column).abs() <= 1)
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT, near)
    return context.mT.unflatten(-1, (H, W))


STRANGERS = {
    "04.1": (
        sdpa_scales_by_the_number_of_queries,
        sdpa_bounds_the_scores,
        sdpa_cuts_the_weights_off,
        sdpa_takes_the_mask_of_the_first_sentence,
        sdpa_masks_by_an_index,
    ),
    "04.2": (causal_sees_only_a_window, causal_opens_everything_when_cached, causal_shifts_as_for_one_query),
    "04.3": (
        padding_takes_the_longest_for_all,
        padding_sorts_the_sentences,
        padding_writes_every_query_out,
        padding_counts_the_lengths_down,
    ),
    "04.4": (
        heads_in_reverse,
        heads_without_an_axis_when_there_is_one,
        heads_cut_from_the_graph,
        heads_of_the_first_axis_only,
    ),
    "04.5": (
        multihead_gives_the_mask_to_the_first_head,
        multihead_normalises_over_the_heads,
        multihead_adds_the_queries_back,
        multihead_interleaves_the_heads,
    ),
    "04.6": (image_with_rows_and_columns_swapped, image_with_a_residual, image_looks_at_neighbours_only),
}


def sdpa_by_einsum_without_the_scale(q, k, v, mask=None):
    scores = torch.einsum("...id,...jd->...ij", q, k)
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("...ij,...jd->...id", weights, v), weights


def causal_in_loops_without_the_shift(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    return torch.tensor([[j <= i for j in range(T_k)] for i in range(T_q)], device=device)


def padding_in_loops_inverted(lengths, T_k):
    return torch.tensor([[[j >= int(n) for j in range(T_k)]] for n in lengths])


def heads_by_one_view(x, n_heads):
    *batch, T, features = x.shape
    return x.view(*batch, n_heads, T, features // n_heads)


def multihead_by_loops_with_the_scale_of_the_model(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    contexts, weights = [], []
    for Q, K, V in zip(W_q.chunk(n_heads), W_k.chunk(n_heads), W_v.chunk(n_heads), strict=True):
        scores = torch.einsum("...id,...jd->...ij", queries @ Q.T, keys @ K.T) * len(W_o) ** -0.5
        head = attend(scores, values @ V.T, mask)
        contexts.append(head.context)
        weights.append(head.weights)
    return F.linear(torch.cat(contexts, -1), W_o), torch.stack(weights, -3)


def image_by_convolutions_without_the_scale(x, W_q, W_k, W_v):
    q, k, v = (F.conv2d(x, W[..., None, None]).flatten(2) for W in (W_q, W_k, W_v))
    return (v @ (q.mT @ k).softmax(-1).mT).unflatten(-1, x.shape[2:])


def scaled_dot_product_with_two_mistakes(q, k, v, mask=None):
    return attend(q @ k.mT, v, None if mask is None else ~mask)


def causal_with_two_mistakes(T_q, T_k=None, device=None):
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, device=device).triu(T_k - T_q)


def padded_with_two_mistakes(lengths, T_k):
    return (torch.arange(T_k) >= lengths[:, None]).float()[:, None]


def heads_with_two_mistakes(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).mT


def multihead_with_two_mistakes(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(context) @ W_o.mT, weights.mean(-3)


def over_image_with_two_mistakes(x, W_q, W_k, W_v):
    pixels = x.transpose(2, 3).flatten(2).mT
    context, _ = attend(pixels @ W_q.mT @ (pixels @ W_k.mT).mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, x.shape[2:])


RELATIVES = (
    ("04.1", sdpa_by_einsum_without_the_scale, "forgets_the_scale"),
    ("04.2", causal_in_loops_without_the_shift, "aligns_the_first_query_with_the_first_key"),
    ("04.3", padding_in_loops_inverted, "marks_the_padding"),
    ("04.4", heads_by_one_view, "views_instead_of_transposing"),
    ("04.5", multihead_by_loops_with_the_scale_of_the_model, "scales_by_d_model"),
    ("04.6", image_by_convolutions_without_the_scale, "forgets_the_scale"),
)
TWO_MISTAKES = (
    ("04.1", scaled_dot_product_with_two_mistakes, {"forgets_the_scale", "inverts_the_mask"}),
    ("04.2", causal_with_two_mistakes, {"looks_into_the_future", "returns_ones_and_zeros"}),
    ("04.3", padded_with_two_mistakes, {"marks_the_padding", "returns_ones_and_zeros"}),
    ("04.4", heads_with_two_mistakes, {"takes_every_nth_feature", "leaves_the_heads_after_the_positions"}),
    ("04.5", multihead_with_two_mistakes, {"does_not_give_the_mask_to_the_heads", "averages_the_weights_over_the_heads"}),
    ("04.6", over_image_with_two_mistakes, {"forgets_the_scale", "flattens_column_by_column"}),
)
