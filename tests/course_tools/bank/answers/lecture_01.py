"""Answers to the exercises of lecture 01 that are not in the bank.

STRANGERS are wrong in ways of their own. RELATIVES make a mistake of the bank in other words: each stands beside the name of
the wrong answer whose misconception it shares. TWO_MISTAKES make two mistakes of the bank at once: a message about either of
them helps, a message about a third thing would mislead.
"""

import torch
from torch.nn import functional as F


def rnn_keeps_the_old_state_beside(x, h, W, U, b):
    return h + torch.tanh(x @ W.mT + h @ U.mT + b)


def rnn_detaches_the_weights(x, h, W, U, b):
    return torch.tanh(F.linear(x, W.data) + h @ U.mT + b)


def rnn_squeezes_a_batch_of_one(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT + b).squeeze(0)


def rnn_softsign(x, h, W, U, b):
    return F.softsign(x @ W.mT + h @ U.mT + b)


def bptt_takes_the_bias_before_the_slope(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, grad_h_new.sum(0)


def bptt_squares_the_whole_slope(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new) ** 2
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


def bptt_lets_the_gradient_pass_beside(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U + grad_h_new, delta.mT @ x, delta.mT @ h, delta.sum(0)


def bptt_takes_the_first_example_only(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, torch.outer(delta[0], x[0]), torch.outer(delta[0], h[0]), delta[0]


def clip_leaves_the_last_tensor_out_of_the_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients[:-1] or gradients]).norm()
    return [g * min(1.0, max_norm / float(norm + 1e-12)) for g in gradients]


def clip_by_the_root_mean_square(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).square().mean().sqrt()
    return [g * torch.clamp(max_norm / norm, max=1.0) for g in gradients]


def clip_scales_only_the_long_tensors(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * max_norm / norm if g.norm() > max_norm else g.clone() for g in gradients]


def clip_puts_the_results_into_the_list(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for i, g in enumerate(gradients):
        gradients[i] = g * torch.clamp(max_norm / norm, max=1.0)
    return gradients


def clip_empties_the_list(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [gradients.pop(0) * torch.clamp(max_norm / norm, max=1.0) for _ in range(len(gradients))]


def lstm_couples_the_gates(x, h, c, W, U, b):
    _, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_opens_the_forget_gate_by_one(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = (f + 1).sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_cuts_the_carousel(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c.detach() + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_looks_through_a_peephole(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return (o + c).sigmoid() * c.tanh(), c


def carousel_leaves_out_the_last_gate(forget_gates):
    return forget_gates[:-1].prod(0)


def carousel_by_logarithms(forget_gates):
    return forget_gates.log().sum(0).exp()


def carousel_never_closes(forget_gates):
    return forget_gates.clamp(min=1e-3).prod(0)


def carousel_takes_the_weakest_gate(forget_gates):
    return forget_gates.amin(0) if len(forget_gates) else forget_gates.new_ones(forget_gates.shape[1:])


STRANGERS = {
    "01.1": (
        rnn_keeps_the_old_state_beside,
        rnn_detaches_the_weights,
        rnn_squeezes_a_batch_of_one,
        rnn_softsign,
    ),
    "01.2": (
        bptt_takes_the_bias_before_the_slope,
        bptt_squares_the_whole_slope,
        bptt_lets_the_gradient_pass_beside,
        bptt_takes_the_first_example_only,
    ),
    "01.3": (
        clip_leaves_the_last_tensor_out_of_the_norm,
        clip_by_the_root_mean_square,
        clip_scales_only_the_long_tensors,
        clip_puts_the_results_into_the_list,
        clip_empties_the_list,
    ),
    "01.4": (
        lstm_couples_the_gates,
        lstm_opens_the_forget_gate_by_one,
        lstm_cuts_the_carousel,
        lstm_looks_through_a_peephole,
    ),
    "01.5": (
        carousel_leaves_out_the_last_gate,
        carousel_by_logarithms,
        carousel_never_closes,
        carousel_takes_the_weakest_gate,
    ),
}


def rnn_by_einsum_with_swapped_indices(x, h, W, U, b):
    return (torch.einsum("...d,nd->...n", x, W) + torch.einsum("...m,mn->...n", h, U) + b).tanh()


def rnn_with_two_layers_and_two_biases(x, h, W, U, b):
    return (F.linear(x, W, b) + F.linear(h, U, b)).tanh()


def bptt_by_einsum_on_the_new_state(grad_h_new, x, h, h_new, W, U):
    d = grad_h_new - grad_h_new * h_new.square()
    return d @ W, d @ U, d.T @ x, torch.einsum("bn,bm->nm", d, h_new), d.sum(dim=0)


def bptt_with_mean_in_a_loop(grad_h_new, x, h, h_new, W, U):
    d = grad_h_new * (1 - h_new * h_new)
    rows = range(len(x))
    grad_W = sum(torch.outer(d[k], x[k]) for k in rows) / len(x)
    grad_U = sum(torch.outer(d[k], h[k]) for k in rows) / len(x)
    return d @ W, d @ U, grad_W, grad_U, d.mean(0)


def clip_one_by_one_in_a_loop(gradients, max_norm):
    clipped = []
    for g in gradients:
        norm = g.pow(2).sum().sqrt()
        clipped.append(g * max_norm / norm if norm > max_norm else g)
    return clipped


def clip_by_the_sum_of_squares(gradients, max_norm):
    total = torch.cat([g.flatten() for g in gradients]).pow(2).sum()
    return [g if total <= max_norm else g * (max_norm / total) for g in gradients]


def lstm_split_in_the_wrong_order(x, h, c, W, U, b):
    gates, n = F.linear(x, W, b) + F.linear(h, U), h.shape[-1]
    i, f, o, g = gates[..., :n], gates[..., n : 2 * n], gates[..., 2 * n : 3 * n], gates[..., 3 * n :]
    new = c * f.sigmoid() + i.sigmoid() * g.tanh()
    return new.tanh() * o.sigmoid(), new


def lstm_without_the_last_tanh(x, h, c, W, U, b):
    i, f, g, o = torch.split(F.linear(x, W, b) + F.linear(h, U), len(b) // 4, dim=-1)
    new = c * f.sigmoid() + i.sigmoid() * g.tanh()
    return new * o.sigmoid(), new


def carousel_starts_from_the_first_gate(forget_gates):
    product = forget_gates[0]
    for f in forget_gates[1:]:
        product = product * f
    return product


def carousel_adds_in_a_loop(forget_gates):
    total = torch.zeros_like(forget_gates.sum(0))
    for f in forget_gates:
        total = total + f
    return total


def rnn_with_two_mistakes(x, h, W, U, b):
    return torch.sigmoid(x @ W.mT + h @ U + b)


def bptt_with_two_mistakes(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U.mT, delta.mT @ x / len(x), delta.mT @ h / len(x), delta.mean(0)


def clip_with_two_mistakes(gradients, max_norm):
    return [g * (max_norm / g.norm()) for g in gradients]


def lstm_with_two_mistakes(x, h, c, W, U, b):
    f, i, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * c, c


def carousel_with_two_mistakes(forget_gates):
    return torch.sigmoid(forget_gates[1:]).prod(0)


RELATIVES = (
    ("01.1", rnn_by_einsum_with_swapped_indices, "transposes_the_recurrent_matrix"),
    ("01.1", rnn_with_two_layers_and_two_biases, "adds_the_bias_twice"),
    ("01.2", bptt_by_einsum_on_the_new_state, "multiplies_by_the_new_state"),
    ("01.2", bptt_with_mean_in_a_loop, "averages_over_the_batch"),
    ("01.3", clip_one_by_one_in_a_loop, "clips_each_tensor_alone"),
    ("01.3", clip_by_the_sum_of_squares, "forgets_the_root"),
    ("01.4", lstm_split_in_the_wrong_order, "reads_the_gates_in_the_order_of_the_formula"),
    ("01.4", lstm_without_the_last_tanh, "shows_the_raw_cell_state"),
    ("01.5", carousel_starts_from_the_first_gate, "fails_without_steps"),
    ("01.5", carousel_adds_in_a_loop, "adds_the_gates_up"),
)
TWO_MISTAKES = (
    ("01.1", rnn_with_two_mistakes, {"squashes_with_the_sigmoid", "transposes_the_recurrent_matrix"}),
    ("01.2", bptt_with_two_mistakes, {"transposes_the_recurrent_matrix", "averages_over_the_batch"}),
    ("01.3", clip_with_two_mistakes, {"clips_each_tensor_alone", "always_rescales"}),
    ("01.4", lstm_with_two_mistakes, {"swaps_input_gate_and_forget_gate", "shows_the_raw_cell_state"}),
    ("01.5", carousel_with_two_mistakes, {"leaves_out_the_first_gate", "squashes_the_gates_again"}),
)
