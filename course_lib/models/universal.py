"""The Universal Transformer: one shared block, applied for a number of steps that each position chooses.

Dehghani et al. 2019, *Universal Transformers*, section 2.1, eqs. 4-7 (https://arxiv.org/abs/1807.03819):

    H^t = Block(H^{t-1} + P^t)        P^t[i, 2j] = sin(i / 10000^(2j/d)) + sin(t / 10000^(2j/d)), cosines at 2j + 1

`primitives.halting` has the halting rule (section 2.2). `shared_encoder` is `SharedSteps` of `encoder_block`, written out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.blocks import AttentionWeights, FeedForwardWeights, NormWeights, encoder_block
from course_lib.primitives import padding_mask, sinusoidal_positions
from course_lib.primitives.halting import adaptive_step, halting_distribution, mix_states, ponder_cost
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Lengths, Mask, TokenFeatures, Tokens

__all__ = ["AdaptiveSteps", "SeparateSteps", "SharedSteps", "Universal", "shared_encoder", "step_encoding"]


def step_encoding(T: int, d_model: int, step: int, device: torch.device | str | None = None) -> Float[Tensor, "T d_model"]:
    """Encode position and step: the sinusoids of the position, plus those of the step.

    Args:
        T: number of positions.
        d_model: number of features.
        step: t, from 1.
        device: of the encoding.

    Returns:
        P^t (T, d_model), values in -2…2. Position i at step t and position t at step i are equal.

    Source: Dehghani et al. 2019, eqs. 6-7.
    """
    of_step = sinusoidal_positions(step + 1, d_model, device=device)[step]
    return sinusoidal_positions(T, d_model, device=device) + of_step


def shared_encoder(
    x: TokenFeatures,
    attention: AttentionWeights,
    network: FeedForwardWeights,
    norms: tuple[NormWeights, NormWeights],
    n_heads: int,
    n_steps: int,
    mask: Mask | None = None,
) -> TokenFeatures:
    """Apply one encoder block n_steps times, adding the encoding of position and step before each.

    Args:
        x: (B, T, d_model).
        attention: (W_q, W_k, W_v, W_o), the same at every step, like all weights.
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: (gain, bias) of the norm after the attention, and of the one after the network.
        n_heads: number of heads.
        n_steps: number of steps, counted from 1; with 0, x is returned.
        mask: bool, broadcastable to (B, T, T); True = may attend.

    Returns:
        (B, T, d_model).

    Source: Dehghani et al. 2019, eqs. 4-7, with the order of norms of Vaswani et al. 2017, section 3.1.
    """
    for step in range(1, n_steps + 1):
        encoding = step_encoding(x.shape[1], x.shape[2], step, device=x.device)
        x = encoder_block(x + encoding.to(x.dtype), attention, network, norms, n_heads, mask)
    return x


class UniversalOutput(NamedTuple):
    """`states` (B, T, d_model), `halting` probabilities of the steps (B, T, n_steps), and the ponder `cost` ρ (B, T)."""

    states: Float[Tensor, "B T d_model"]
    halting: Float[Tensor, "B T n_steps"]
    cost: Float[Tensor, "B T"]


def _fixed_steps(x: TokenFeatures, blocks: Sequence[nn.Module], mask: Mask | None) -> UniversalOutput:
    """Apply one block after the other, adding the encoding of position and step before each; each costs 1."""
    _require_a_step(len(blocks))
    for step, block in enumerate(blocks, start=1):
        x = block(x + step_encoding(x.shape[1], x.shape[2], step, device=x.device).to(x.dtype), mask)
    last = F.one_hot(torch.tensor(len(blocks) - 1, device=x.device), len(blocks)).to(x)
    return UniversalOutput(x, last.expand(*x.shape[:-1], -1), x.new_full(x.shape[:-1], len(blocks)))


def _require_a_step(n_steps: int) -> None:
    if n_steps < 1:
        raise ValueError(f"a model needs at least one step, got n_steps = {n_steps}.")


class SharedSteps(nn.Module):
    """One block, applied `n_steps` times; the number may be changed at any time."""

    def __init__(self, block: nn.Module, n_steps: int) -> None:
        """Set the block, `(x (B, T, d_model), mask) -> (B, T, d_model)`."""
        super().__init__()
        self.block, self.n_steps = block, n_steps

    def forward(self, x: TokenFeatures, mask: Mask | None = None) -> UniversalOutput:
        """Apply the steps to x (B, T, d_model); ValueError if there are none."""
        return _fixed_steps(x, [self.block] * self.n_steps, mask)


class SeparateSteps(nn.Module):
    """Steps with a separate block for each: an ordinary transformer, for comparison."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        """Set the blocks, in order."""
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: TokenFeatures, mask: Mask | None = None) -> UniversalOutput:
        """Apply the blocks to x (B, T, d_model); ValueError if there are none."""
        return _fixed_steps(x, [*self.blocks], mask)


class AdaptiveSteps(nn.Module):
    """One block, applied until a position halts; its state is then constant, and other positions still attend to it."""

    def __init__(self, block: nn.Module, d_model: int, n_steps: int, epsilon: float = 0.01) -> None:
        """Set the block and the largest number of steps. Halting starts at probability σ(-1) = 0.27, three or four steps."""
        super().__init__()
        self.block, self.n_steps, self.epsilon = block, n_steps, epsilon
        self.halt = nn.Linear(d_model, 1)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, -1.0)

    def forward(self, x: TokenFeatures, mask: Mask | None = None) -> UniversalOutput:
        """Apply to each position of x (B, T, d_model) the number of steps that it chooses; ValueError if none is allowed."""
        _require_a_step(self.n_steps)
        halt = self.halt.weight[0], self.halt.bias[0]
        states, h = [], x.new_zeros(*x.shape[:-1], 0)
        for step in range(1, self.n_steps + 1):
            y = self.block(x + step_encoding(x.shape[1], x.shape[2], step, device=x.device).to(x.dtype), mask)
            x, h = adaptive_step(x, y, halt, h, self.epsilon)
            states.append(x)
        mixed = mix_states(torch.stack(states, dim=-2), h, self.epsilon)
        return UniversalOutput(mixed, halting_distribution(h, self.epsilon), ponder_cost(h, self.epsilon))


class Universal(nn.Module):
    """Token classifier: embedding, steps, readout."""

    def __init__(self, n_tokens: int, n_classes: int, d_model: int, steps: nn.Module) -> None:
        """Set up for `steps`: `SharedSteps`, `AdaptiveSteps`, or `SeparateSteps` for comparison."""
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.steps = steps
        self.readout = nn.Linear(d_model, n_classes)

    @shape_checked()
    def forward(
        self, tokens: Tokens, lengths: Lengths | None = None, mask: Mask | None = None
    ) -> tuple[Float[Tensor, "B T n_classes"], UniversalOutput]:
        """Read tokens (B, T) of the given lengths (B,), each attending where `mask`, broadcastable to (B, T, T), is True.

        Returns:
            logits (B, T, n_classes) for each token, and the output of the steps: states, halting probabilities and ponder cost.

        Raises:
            ValueError: there is not one length for each sequence, or one is not in 0…T.
        """
        if lengths is not None:
            real = padding_mask(lengths, tokens.shape[1])
            mask = real if mask is None else real & mask
        pondered = self.steps(self.tokens(tokens), mask)
        return self.readout(pondered.states), pondered
