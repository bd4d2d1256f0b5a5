"""Answers to the exercises of lecture 06 that are not in the bank: STRANGERS, RELATIVES and TWO_MISTAKES."""

import torch
from torch.nn import functional as F

from course_lib.blocks import encoder_block
from course_lib.models import shared_encoder, step_encoding
from course_lib.primitives import adaptive_step, halting_distribution, mix_states, ponder_cost, sinusoidal_positions


def encoding_of_half_steps(T, d_model, step, device=None):
    return sinusoidal_positions(T, d_model, device) + sinusoidal_positions(step // 2 + 1, d_model, device)[-1]


def encoding_upside_down(T, d_model, step, device=None):
    return step_encoding(T, d_model, step, device).flip(0)


def encoding_that_takes_the_larger(T, d_model, step, device=None):
    return sinusoidal_positions(T, d_model, device).maximum(sinusoidal_positions(step + 1, d_model, device)[step])


def encoding_of_the_step_before_averaged(T, d_model, step, device=None):
    return (sinusoidal_positions(T, d_model, device) + sinusoidal_positions(step + 1, d_model, device)[step - 1]) / 2


def shares_of_squares(h, epsilon=0.01):
    return halting_distribution(h.square(), epsilon)


def shares_read_backwards(h, epsilon=0.01):
    return halting_distribution(h.flip(-1), epsilon).flip(-1)


def shares_that_are_all_equal(h, epsilon=0.01):
    return torch.full_like(h, 1 / h.shape[-1])


def shares_without_remainder_and_epsilon(h, epsilon=0.01):
    before = F.pad(h, (1, 0)).cumsum(-1)[..., :-1]
    return torch.where(before < 1, h, 0.0)


def cost_times_the_remainder(h, epsilon=0.01):
    cost = ponder_cost(h, epsilon)
    N = cost.ceil() - 1
    return N * (cost - N)


def cost_of_twice_the_remainder(h, epsilon=0.01):
    cost = ponder_cost(h, epsilon)
    return 2 * cost - cost.detach().ceil() + 1


def cost_of_the_largest(h, epsilon=0.01):
    return ponder_cost(h, epsilon).amax().expand(h.shape[:-1])


def cost_from_zero_without_epsilon(h, epsilon=0.01):
    return ponder_cost(h, 0.0) - 1


def encoder_of_half_the_encoding(x, attention, network, norms, n_heads, n_steps, mask=None):
    for step in range(1, n_steps + 1):
        x = encoder_block(x + step_encoding(*x.shape[1:], step) / 2, attention, network, norms, n_heads, mask)
    return x


def encoder_that_turns_the_weights(x, attention, network, norms, n_heads, n_steps, mask=None):
    return shared_encoder(x, (*attention[1:], attention[0]), network, norms, n_heads, n_steps, mask)


def encoder_of_an_average(x, attention, network, norms, n_heads, n_steps, mask=None):
    states = [shared_encoder(x, attention, network, norms, n_heads, n, mask) for n in range(n_steps + 1)]
    return torch.stack(states).mean(0)


def encoder_without_steps_and_mask(x, attention, network, norms, n_heads, n_steps, mask=None):
    for _ in range(n_steps):
        x = encoder_block(x + sinusoidal_positions(*x.shape[1:]), attention, network, norms, n_heads)
    return x


def step_halfway(x, y, halt, h, epsilon=0.01):
    return adaptive_step(x, (x + y) / 2, halt, h, epsilon)


def step_that_asks_twice(x, y, halt, h, epsilon=0.01):
    w, b = halt
    return adaptive_step(x, y, (2 * w, b), h, epsilon)


def step_that_multiplies_what_is_left(x, y, halt, h, epsilon=0.01):
    active = 1 - (1 - h).prod(-1, keepdim=True) < 1 - epsilon
    states = torch.where(active, y, x)
    return states, torch.cat([h, (states @ halt[0] + halt[1]).sigmoid()[..., None]], dim=-1)


def step_of_all_without_sigmoid(x, y, halt, h, epsilon=0.01):
    w, b = halt
    return y, torch.cat([h, (y @ w + b)[..., None]], dim=-1)


def mixture_of_squares(states, h, epsilon=0.01):
    return mix_states(states.square(), h, epsilon)


def mixture_backwards(states, h, epsilon=0.01):
    return mix_states(states.flip(-2), h, epsilon)


def mixture_of_half(states, h, epsilon=0.01):
    return mix_states(states, h, epsilon) / 2


def mixture_by_detached_default_shares(states, h, epsilon=0.01):
    return mix_states(states, h.detach())


STRANGERS = {
    "06.1": (encoding_of_half_steps, encoding_upside_down, encoding_that_takes_the_larger),
    "06.2": (shares_of_squares, shares_read_backwards, shares_that_are_all_equal),
    "06.3": (cost_times_the_remainder, cost_of_twice_the_remainder, cost_of_the_largest),
    "06.4": (encoder_of_half_the_encoding, encoder_that_turns_the_weights, encoder_of_an_average),
    "06.5": (step_halfway, step_that_asks_twice, step_that_multiplies_what_is_left),
    "06.6": (mixture_of_squares, mixture_backwards, mixture_of_half),
}
RELATIVES = ()
TWO_MISTAKES = (
    ("06.1", encoding_of_the_step_before_averaged, {"counts_steps_from_zero", "averages_the_two"}),
    ("06.2", shares_without_remainder_and_epsilon, {"forgets_the_remainder", "forgets_epsilon"}),
    ("06.3", cost_from_zero_without_epsilon, {"counts_from_zero", "forgets_epsilon"}),
    ("06.4", encoder_without_steps_and_mask, {"tells_the_place_only", "forgets_the_mask"}),
    ("06.5", step_of_all_without_sigmoid, {"lets_everyone_think_on", "forgets_the_sigmoid"}),
    ("06.6", mixture_by_detached_default_shares, {"takes_the_shares_from_the_graph", "types_epsilon_in"}),
)
