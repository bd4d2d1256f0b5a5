"""Adaptive computation time (ACT): each position decides after how many steps it halts.

Graves 2016, *Adaptive Computation Time for Recurrent Neural Networks*, section 2 (https://arxiv.org/abs/1603.08983), per
position as in Dehghani et al. 2019, section 2.2 (https://arxiv.org/abs/1807.03819). A position has a halting value h_n
in 0…1 at each step n, and halts at the first step N at which they sum to 1 - ε:

    h_n = σ(w · s_n + b)        s_n = s_N for n > N
    p_n = h_n for n < N         p_N = R = 1 - Σ_{n<N} h_n        p_n = 0 for n > N        y = Σ_n p_n s_n

    ponder cost  ρ = N + R        (N has no gradient: training can lower only R, by raising the h_n before N)

Every function decides by the same sums, `F.pad(h, (1, 0)).cumsum(-1)`, which positions are still active, so that rounding
cannot make two functions disagree. Each contains the sums, so that it can be read on its own.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.preconditions import requires, values_are_known
from course_lib.shapes import TokenFeatures

__all__ = ["HaltingStep", "adaptive_step", "halting_distribution", "mix_states", "ponder_cost"]


def _require_probabilities(h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01) -> None:
    """Raise a ValueError for numbers outside of 0…1, NaN included, unless a GPU would have to be waited for."""
    if h.device.type == "cpu" and values_are_known(h) and not ((h >= 0) & (h <= 1)).all():
        raise ValueError("probabilities of halting must be in 0…1: look for NaN in the states, or apply a sigmoid to logits.")


@requires(_require_probabilities)
def halting_distribution(h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01) -> Float[Tensor, "*batch n_steps"]:
    """Turn the halting values of the steps into the weight of each step in the result.

    Args:
        h: (*batch, n_steps), each in 0…1; every position halts at the last of the n_steps ≥ 1.
        epsilon: ε, 0 ≤ ε < 1; above 0 it lets a position halt after a single step.

    Returns:
        p (*batch, n_steps), which sums to 1; 0 after the step at which the position halts.

    Raises:
        ValueError: on a CPU, a number is not in 0…1.

    Source: Graves 2016, eqs. 6-8.
    """
    before = F.pad(h, (1, 0)).cumsum(-1)[..., :-1]
    active = before < 1 - epsilon
    stays_active = F.pad(active[..., 1:], (0, 1))
    return torch.where(stays_active, h, torch.where(active, 1 - before, 0.0))


@requires(_require_probabilities)
def ponder_cost(h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01) -> Float[Tensor, "*batch"]:
    """Compute the ponder cost of each position: its number of steps N plus its remainder R.

    Args:
        h: (*batch, n_steps), the halting values of the steps, in 0…1.
        epsilon: as in `halting_distribution`.

    Returns:
        ρ (*batch), from 2 (one step, R = 1) to n_steps + 1; its gradient is that of R alone.

    Source: Graves 2016, section 2 (the ponder cost and its gradient).
    """
    before = F.pad(h, (1, 0)).cumsum(-1)[..., :-1]
    active = before < 1 - epsilon
    N = active.sum(-1)
    R = 1 - before.gather(-1, N[..., None] - 1).squeeze(-1)
    return N + R


class HaltingStep(NamedTuple):
    """One step: the `states` after it (B, T, d_model), and `h` (B, T, n + 1), the halting values of all steps so far."""

    states: TokenFeatures
    h: Float[Tensor, "B T n+1"]


def adaptive_step(
    x: TokenFeatures, y: TokenFeatures, halt: tuple[Tensor, Tensor], h: Float[Tensor, "B T n"], epsilon: float = 0.01
) -> HaltingStep:
    """Update the active positions, keep the halted ones unchanged, and append the halting value of this step.

    Args:
        x: (B, T, d_model), the states before the step.
        y: (B, T, d_model), the output of the block for these states.
        halt: weight and bias of the halting unit, (w (d_model,), b ()).
        h: (B, T, n), the halting values of the n ≥ 0 steps so far, in 0…1.
        epsilon: ε; a position is active while its h sum to less than 1 - ε.

    Returns:
        the states after the step (B, T, d_model), and h (B, T, n + 1) with σ(w · state + b) appended.

    Source: Graves 2016, eqs. 5 and 7; Dehghani et al. 2019, section 2.2.
    """
    active = F.pad(h, (1, 0)).cumsum(-1)[..., -1:] < 1 - epsilon
    x = torch.where(active, y, x)
    w, b = halt
    return HaltingStep(x, torch.cat([h, torch.sigmoid(x @ w + b)[..., None]], dim=-1))


def mix_states(
    states: Float[Tensor, "*batch n_steps d"], h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01
) -> Float[Tensor, "*batch d"]:
    """Average the states of all steps, weighted by the halting distribution.

    Args:
        states: (*batch, n_steps, d), one after each step.
        h: (*batch, n_steps), their halting values, in 0…1.
        epsilon: as in `halting_distribution`.

    Returns:
        (*batch, d); gradients flow to the states and, through the weights, to h.

    Source: Graves 2016, eq. 9.
    """
    weights = halting_distribution(h, epsilon)
    return (weights[..., None, :] @ states).squeeze(-2)
