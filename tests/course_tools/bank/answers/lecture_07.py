"""Answers to the exercises of lecture 07 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import math

import torch
from torch.nn import functional as F

from course_lib.attention import attend, split_heads
from course_lib.generation import top_k, top_p
from course_lib.losses import next_token_loss
from course_lib.metrics import gpt_parameters


def loss_in_bits(logits, tokens, counts=None):
    return next_token_loss(logits, tokens, counts) / math.log(2)


def loss_with_smoothed_labels(logits, tokens, counts=None):
    predictions, targets = logits[:, :-1], tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.mT, targets, label_smoothing=0.1)
    return F.cross_entropy(predictions[counts[:, 1:]], targets[counts[:, 1:]], label_smoothing=0.1)


def loss_two_ahead(logits, tokens, counts=None):
    return next_token_loss(
        logits[:, 1:], torch.cat([tokens[:, :1], tokens[:, 3:]], 1), None if counts is None else counts[:, 1:-1]
    )


def loss_without_gradient_in_the_normaliser(logits, tokens, counts=None):
    log_p = logits - logits.logsumexp(-1, keepdim=True).detach()
    picked = log_p[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    return -(picked if counts is None else picked[counts[:, 1:]]).mean()


def sum_of_those_asked(logits, tokens, counts=None):
    losses = -logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return losses.sum() if counts is None else (losses * counts[:, 1:]).sum()


def loss_unshifted_and_summed(logits, tokens, counts=None):
    losses = F.cross_entropy(logits.mT, tokens, reduction="none")
    return losses.sum() if counts is None else losses[counts].sum()


def k_by_size(logits, k):
    kept = logits.abs().topk(min(k, logits.shape[-1]), dim=-1).indices
    return torch.full_like(logits, -torch.inf).scatter(-1, kept, logits.gather(-1, kept))


def k_as_the_border(logits, k):
    border = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return torch.where(logits >= border, border, -torch.inf)


def k_of_the_first_row(logits, k):
    kept = logits.reshape(-1, logits.shape[-1])[0].topk(min(k, logits.shape[-1])).indices
    out = torch.full_like(logits, -torch.inf)
    out[..., kept] = logits[..., kept]
    return out


def k_cut_from_the_graph(logits, k):
    return top_k(logits.detach(), k)


def k_by_sorting_upwards(logits, k):
    lowest = logits.sort(dim=-1).values[..., min(k, logits.shape[-1]) - 1, None]
    return torch.where(logits <= lowest, logits, -torch.inf)


def k_probabilities_of_all(logits, k):
    return torch.where(top_k(logits, k - 1 if k > 1 else 1) > -torch.inf, logits.softmax(-1), 0.0)


def nucleus_of_half_the_rest(logits, p):
    return top_p(logits, 1 - p)


def nucleus_at_another_temperature(logits, p):
    return torch.where(top_p(logits / 2, p) > -torch.inf, logits, -torch.inf)


def nucleus_over_a_share_of_the_largest(logits, p):
    q = logits.softmax(-1)
    return torch.where(q >= (1 - p) * q.amax(-1, keepdim=True), logits, -torch.inf)


def nucleus_by_a_sum_without_the_first(logits, p):
    ordered, order = logits.sort(dim=-1, descending=True)
    crossed = (ordered.softmax(-1).cumsum(-1) > p) & (torch.arange(logits.shape[-1]) > 0)
    return torch.full_like(logits, -torch.inf).scatter(-1, order, torch.where(crossed, -torch.inf, ordered))


def nucleus_unsorted_with_zeros(logits, p):
    q = logits.softmax(-1)
    return torch.where(q.cumsum(-1) - q < p, logits, 0.0)


def step(x, keys, values, W_q, W_k, W_v, W_o, scale=None, itself=True):
    q, k, v = (split_heads((x @ W.mT)[:, None], keys.shape[1]) for W in (W_q, W_k, W_v))
    new_keys, new_values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    seen = (new_keys, new_values) if itself else (keys, values)
    context = attend(q @ seen[0].mT / (scale or keys.shape[-1] ** 0.5), seen[1]).context
    return context.transpose(1, 2).flatten(1) @ W_o.mT, new_keys, new_values


def step_of_the_mean(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, 0 * W_q, W_k, W_v, W_o)


def step_scaled_by_d_v(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, scale=values.shape[-1] ** 0.5)


def step_with_a_residual_past(x, keys, values, W_q, W_k, W_v, W_o):
    output, keys, values = step(x, keys, values, W_q, W_k, W_v, W_o)
    return output, keys, values + values.mean(2, keepdim=True)


def step_with_a_frozen_past(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys.detach(), values.detach(), W_q, W_k, W_v, W_o)


def step_without_itself(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, itself=False)


def step_unscaled_with_the_old_cache(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, scale=1.0)[0], keys, values


def count_in_float(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return float(gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end))


def count_a_wider_network(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return gpt_parameters(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end) + n_layers * 8 * d_model**2


def count_positions_in_every_layer(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return gpt_parameters(n_tokens, T_max * (n_layers + 1), d_model, n_layers, n_norms_at_the_end)


def count_without_any_bias(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return (n_tokens + T_max) * d_model + n_layers * (12 * d_model**2 + 4 * d_model) + 2 * n_norms_at_the_end * d_model


def count_matrices_alone(n_tokens, T_max, d_model, n_layers, n_norms_at_the_end=1):
    return n_tokens * d_model + n_layers * 12 * d_model**2


def prompt(shots, question, names, task, room, end=":", line="\n"):
    before, after = f"{task}\n" if task else "", f"{names[0]}: {question}\n{names[1]}{end}"
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}{line}" for given, answer in shots]
    while room is not None and solved and len(before) + sum(map(len, solved)) + len(after) > room:
        solved = solved[1:]
    return before + "".join(solved) + after


def prompt_in_capitals(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, tuple(name.upper() for name in names), task, room)


def prompt_that_answers(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, names, task, room, end=": ?")


def prompt_of_one_shot(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots[-1:], question, names, task, room)


def prompt_with_a_space(shots, question, names=("Input", "Output"), task="", room=None):
    while True:
        whole = prompt(shots, question, names, task, None, end=": ")
        if not shots or room is None or len(whole) <= room:
            return whole
        shots = shots[1:]


def prompt_spaced_and_parted(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, names, task, room, end=": ", line="\n\n")


STRANGERS = {
    "07.1": (loss_in_bits, loss_with_smoothed_labels, loss_two_ahead, loss_without_gradient_in_the_normaliser),
    "07.2": (k_by_size, k_as_the_border, k_of_the_first_row, k_cut_from_the_graph),
    "07.3": (nucleus_of_half_the_rest, nucleus_at_another_temperature, nucleus_over_a_share_of_the_largest),
    "07.4": (step_of_the_mean, step_scaled_by_d_v, step_with_a_residual_past, step_with_a_frozen_past),
    "07.5": (count_in_float, count_a_wider_network, count_positions_in_every_layer),
    "07.6": (prompt_in_capitals, prompt_that_answers, prompt_of_one_shot),
}
"""Wrong in a way that nobody wrote down: refused, whatever is said."""

RELATIVES = (
    ("07.1", sum_of_those_asked, "adds_the_losses_up"),
    ("07.2", k_by_sorting_upwards, "keeps_the_unlikely"),
    ("07.3", nucleus_by_a_sum_without_the_first, "leaves_out_the_word_that_crosses"),
    ("07.4", step_without_itself, "looks_only_at_the_past"),
    ("07.5", count_without_any_bias, "forgets_the_biases"),
    ("07.6", prompt_with_a_space, "leaves_a_space_at_the_end"),
)
"""A mistake of the bank in other words."""

TWO_MISTAKES = (
    ("07.1", loss_unshifted_and_summed, {"asks_for_the_token_just_read", "adds_the_losses_up"}),
    ("07.2", k_probabilities_of_all, {"gives_probabilities", "sets_the_others_to_zero", "keeps_one_too_few"}),
    ("07.3", nucleus_unsorted_with_zeros, {"does_not_sort", "sets_the_others_to_zero"}),
    ("07.4", step_unscaled_with_the_old_cache, {"forgets_the_scale", "returns_the_old_cache"}),
    ("07.5", count_matrices_alone, {"forgets_the_biases", "forgets_the_positions", "forgets_the_norms"}),
    ("07.6", prompt_spaced_and_parted, {"leaves_a_space_at_the_end", "parts_the_shots_by_empty_lines"}),
)
