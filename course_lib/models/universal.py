"""The Universal Transformer: one block, applied again and again, for as many steps as each position wants.

Dehghani et al. 2019, *Universal Transformers*, section 2.1, eqs. 4-7 (https://arxiv.org/abs/1807.03819):

    H^t = Block(H^{t-1} + P^t)        P^t[i, 2j] = sin(i / 10000^(2j/d)) + sin(t / 10000^(2j/d)), cosines at 2j + 1

and section 2.2, adaptive computation time, after Graves 2016, eqs. 6-9, 13 (https://arxiv.org/abs/1603.08983). A position
gives a probability h_n of halting at each step n, and halts at the first step N at which they sum to 1 - ε:

    p_n = h_n for n < N        p_N = R = 1 - Σ_{n<N} h_n        p_n = 0 for n > N        y = Σ_n p_n H^n

    ponder cost  ρ = N + R        (N has no gradient: what learning can lower is R, by raising the h_n before N)
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives import padding_mask, sinusoidal_positions
from course_lib.shapes import Lengths, Mask, Sequence, Tokens


def step_encoding(T: int, d_model: int, step: int, device: torch.device | str | None = None) -> Float[Tensor, "T d_model"]:
    """Say where a token stands and which step it is: the sinusoids of the position, plus those of the step.

    Args:
        T: number of positions.
        d_model: number of features.
        step: t, from 1.
        device: where the encoding lives.

    Returns:
        P^t (T, d_model), values in -2…2. Place i at step t gets what place t gets at step i.

    Source: Dehghani et al. 2019, eqs. 6-7.
    """
    of_step = sinusoidal_positions(step + 1, d_model, device=device)[step]
    return sinusoidal_positions(T, d_model, device=device) + of_step


def halting_distribution(h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01) -> Float[Tensor, "*batch n_steps"]:
    """Turn the probabilities of halting at each step into the share that each step has in the result.

    Args:
        h: (*batch, n_steps), each in 0…1; at the last of the n_steps ≥ 1 everyone halts.
        epsilon: ε, 0 ≤ ε < 1; above 0 it lets a position halt after a single step.

    Returns:
        p (*batch, n_steps), of sum 1; 0 behind the step at which the position halts.

    Source: Graves 2016, eqs. 6-8.
    """
    before = F.pad(h.cumsum(-1)[..., :-1], (1, 0))
    thinks = before < 1 - epsilon
    thinks_on = F.pad(thinks[..., 1:], (0, 1))
    return torch.where(thinks_on, h, torch.where(thinks, 1 - before, 0.0))


def ponder_cost(h: Float[Tensor, "*batch n_steps"], epsilon: float = 0.01) -> Float[Tensor, "*batch"]:
    """Count what a position thought for: its number of steps N, and its remainder R.

    Args:
        h: (*batch, n_steps), the probabilities of halting at each step, in 0…1.
        epsilon: as in `halting_distribution`.

    Returns:
        ρ (*batch), from 2 (one step, R = 1) to n_steps + 1; its gradient is that of R alone.

    Source: Graves 2016, eqs. 9, 13.
    """
    before = F.pad(h.cumsum(-1)[..., :-1], (1, 0))
    thinks = before < 1 - epsilon
    N = thinks.sum(-1)
    R = 1 - before.gather(-1, N[..., None] - 1).squeeze(-1)
    return N + R


def repeat_block(
    x: Sequence, block: Callable[[Sequence, Mask | None], Sequence], n_steps: int, mask: Mask | None = None
) -> Sequence:
    """Apply one block n_steps times, telling it before each where every token stands and which step it is.

    Args:
        x: (B, T, d_model).
        block: `(x, mask) -> (B, T, d_model)`, the same at every step.
        n_steps: how often; 0 gives x back.
        mask: bool, broadcastable to (B, T, T), handed to the block; True = may look.

    Returns:
        (B, T, d_model).

    Source: Dehghani et al. 2019, eqs. 4-7.
    """
    for step in range(1, n_steps + 1):
        x = block(x + step_encoding(x.shape[1], x.shape[2], step, device=x.device).to(x.dtype), mask)
    return x


class Pondered(NamedTuple):
    """What came of thinking: `states` (B, T, d_model), the `shares` of the steps (B, T, n_steps), and the `cost` ρ (B, T)."""

    states: Float[Tensor, "B T d_model"]
    shares: Float[Tensor, "B T n_steps"]
    cost: Float[Tensor, "B T"]


class SharedSteps(nn.Module):
    """One block, applied `n_steps` times; the number may be changed at any time."""

    def __init__(self, block: nn.Module, n_steps: int) -> None:
        """Take a block `(x (B, T, d_model), mask) -> (B, T, d_model)`."""
        super().__init__()
        self.block, self.n_steps = block, n_steps

    def forward(self, x: Sequence, mask: Mask | None = None) -> Pondered:
        """Take x (B, T, d_model) through the steps; each of them costs 1. ValueError where there is none."""
        return _always(repeat_block(x, self.block, self.n_steps, mask), self.n_steps)


class SeparateSteps(nn.Module):
    """The same number of steps with a block for each: an ordinary transformer, to compare with."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        """Take the blocks in their order."""
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Pondered:
        """Take x (B, T, d_model) through the blocks; each of them costs 1. ValueError where there is none."""
        for step, block in enumerate(self.blocks, start=1):
            x = block(x + step_encoding(*x.shape[1:], step, device=x.device).to(x.dtype), mask)
        return _always(x, len(self.blocks))


class AdaptiveSteps(nn.Module):
    """One block, applied until a position halts; then its state stands still, and others may still look at it."""

    def __init__(self, block: nn.Module, d_model: int, n_steps: int, epsilon: float = 0.01) -> None:
        """Take the block and the largest number of steps. Halting starts at probability σ(-1) = 0.27, three or four steps."""
        super().__init__()
        self.block, self.n_steps, self.epsilon = block, n_steps, epsilon
        self.halt = nn.Linear(d_model, 1)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, -1.0)

    def forward(self, x: Sequence, mask: Mask | None = None) -> Pondered:
        """Take x (B, T, d_model) through as many steps as each position asks for; ValueError where none is allowed."""
        _require_a_step(self.n_steps)
        states, probabilities = [], []
        total = x.new_zeros(x.shape[:-1])
        for step in range(1, self.n_steps + 1):
            thinks = total < 1 - self.epsilon
            y = self.block(x + step_encoding(*x.shape[1:], step, device=x.device).to(x.dtype), mask)
            x = torch.where(thinks[..., None], y, x)
            states.append(x)
            probabilities.append(self.halt(x).squeeze(-1).sigmoid())
            total = total + probabilities[-1]
        h = torch.stack(probabilities, dim=-1)
        shares = halting_distribution(h, self.epsilon)
        mixed = (shares[..., None, :] @ torch.stack(states, dim=-2)).squeeze(-2)
        return Pondered(mixed, shares, ponder_cost(h, self.epsilon))


def _require_a_step(n_steps: int) -> None:
    if n_steps < 1:
        raise ValueError(f"a model that thinks takes at least one step, got n_steps = {n_steps}.")


def _always(x: Sequence, n_steps: int) -> Pondered:
    _require_a_step(n_steps)
    last = F.one_hot(torch.tensor(n_steps - 1, device=x.device), n_steps).to(x)
    return Pondered(x, last.expand(*x.shape[:-1], -1), x.new_full(x.shape[:-1], n_steps))


class Universal(nn.Module):
    """A model that says something about each token of a sequence: embedding, steps, readout."""

    def __init__(self, n_tokens: int, n_classes: int, d_model: int, steps: nn.Module) -> None:
        """Set up for `steps`: `SharedSteps`, `AdaptiveSteps`, or `SeparateSteps` to compare with."""
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.steps = steps
        self.readout = nn.Linear(d_model, n_classes)

    def forward(self, tokens: Tokens, lengths: Lengths | None = None) -> tuple[Float[Tensor, "B T n_classes"], Pondered]:
        """Read tokens (B, T) of these lengths (B,): logits (B, T, n_classes) for each token, and what thinking took."""
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        pondered = self.steps(self.tokens(tokens), mask)
        return self.readout(pondered.states), pondered
