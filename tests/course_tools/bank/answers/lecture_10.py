"""Answers to the exercises of lecture 10 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch

from course_lib.attention import Attended, local_attention, relative_logits
from course_lib.metrics import OperationCount, local_attention_cost
from course_lib.primitives import local_windows, window_mask


def windows_with_an_empty_middle(x, size, stride=1):
    windows = local_windows(x, size, stride)
    keep = torch.arange(size**2) != size**2 // 2
    return windows * keep[:, None]


def windows_of_differences(x, size, stride=1):
    return local_windows(x, size, stride) - x[..., ::stride, ::stride, None, :]


def windows_without_gradient(x, size, stride=1):
    return local_windows(x.detach(), size, stride)


def windows_of_the_first_picture(x, size, stride=1):
    windows = local_windows(x, size, stride)
    return windows[:1].expand_as(windows) if x.dim() > 3 else windows


def windows_stepping_by_one_and_turned(x, size, stride=1):
    return local_windows(x, size).flip(-2)


def mask_that_allows_everything(H, W, size, stride=1):
    return torch.ones_like(window_mask(H, W, size, stride))


def mask_of_a_cross(H, W, size, stride=1):
    place = torch.arange(size**2)
    return window_mask(H, W, size, stride) & ((place // size == size // 2) | (place % size == size // 2))


def mask_without_the_middle(H, W, size, stride=1):
    return window_mask(H, W, size, stride) & (torch.arange(size**2) != size**2 // 2)


def mask_inverted_and_column_by_column(H, W, size, stride=1):
    return ~window_mask(H, W, size, stride).unflatten(-1, (size, size)).mT.flatten(-2)


def logits_twice_as_large(q, rows, columns):
    return 2 * relative_logits(q, rows, columns)


def logits_of_distances(q, rows, columns):
    return relative_logits(q, rows.abs(), columns.abs())


def logits_without_gradient(q, rows, columns):
    return relative_logits(q.detach(), rows, columns)


def logits_centred(q, rows, columns):
    logits = relative_logits(q, rows, columns)
    return logits - logits.mean(-1, keepdim=True)


def logits_turned_round_and_scaled(q, rows, columns):
    return relative_logits(q, rows.flip(-2), columns) / q.shape[-1] ** 0.5


def attention_at_half_the_temperature(q, k, v, rows, columns, stride=1):
    return local_attention(2 * q, k, v, rows, columns, stride)


def attention_without_the_pixel_itself(q, k, v, rows, columns, stride=1):
    size = rows.shape[-2]
    scores = (local_windows(k, size, stride) @ q.unsqueeze(-1)).squeeze(-1) + relative_logits(q, rows, columns)
    mask = window_mask(*k.shape[-3:-1], size, stride) & (torch.arange(size**2) != size**2 // 2)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return Attended((weights.unsqueeze(-2) @ local_windows(v, size, stride)).squeeze(-2), weights)


def attention_to_the_best_place(q, k, v, rows, columns, stride=1):
    weights = local_attention(q, k, v, rows, columns, stride).weights
    best = (weights == weights.amax(-1, keepdim=True)).to(weights)
    windows = local_windows(v, rows.shape[-2], stride)
    return Attended((best.unsqueeze(-2) @ windows).squeeze(-2), best)


def attention_that_adds_the_pixel(q, k, v, rows, columns, stride=1):
    context, weights = local_attention(q, k, v, rows, columns, stride)
    return Attended(context + v[..., ::stride, ::stride, :], weights)


def attention_scaled_without_places(q, k, v, rows, columns, stride=1):
    nothing = torch.zeros_like(rows), torch.zeros_like(columns)
    return local_attention(q / q.shape[-1] ** 0.5, k, v, *nothing, stride)


def cost_with_biases(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters + 3 * d_out, work)


def cost_of_one_pixel(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters, work // (H * W))


def cost_of_two_matrices(d_in, d_out, size, H, W, stride=1):
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters - d_in * d_out, work - H * W * d_in * d_out)


def cost_doubled_without_places(d_in, d_out, size, H, W, stride=1):
    n_queries = -(-H // stride) * -(-W // stride)
    parameters, work = local_attention_cost(d_in, d_out, size, H, W, stride)
    return OperationCount(parameters - size * d_out, 2 * (work - n_queries * size * d_out))


STRANGERS = {
    "10.1": (
        windows_with_an_empty_middle,
        windows_of_differences,
        windows_without_gradient,
        windows_of_the_first_picture,
    ),
    "10.2": (mask_that_allows_everything, mask_of_a_cross, mask_without_the_middle),
    "10.3": (logits_twice_as_large, logits_of_distances, logits_without_gradient, logits_centred),
    "10.4": (
        attention_at_half_the_temperature,
        attention_without_the_pixel_itself,
        attention_to_the_best_place,
        attention_that_adds_the_pixel,
    ),
    "10.5": (cost_with_biases, cost_of_one_pixel, cost_of_two_matrices),
}
RELATIVES = ()
TWO_MISTAKES = (
    ("10.1", windows_stepping_by_one_and_turned, {"steps_by_one", "turns_the_window_round"}),
    ("10.2", mask_inverted_and_column_by_column, {"says_what_is_outside", "counts_column_by_column"}),
    ("10.3", logits_turned_round_and_scaled, {"turns_the_rows_round", "divides_by_the_root"}),
    ("10.4", attention_scaled_without_places, {"divides_by_the_root", "forgets_the_places"}),
    ("10.5", cost_doubled_without_places, {"counts_every_operation", "forgets_the_places"}),
)
