"""Rotary position embedding (RoPE): queries and keys are rotated by angles proportional to their positions.

Su et al. 2021, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, eqs. 12-16, 34
(https://arxiv.org/abs/2104.09864). Feature pair i of position m, read as a complex number, turns by the angle m θ_i:

    (R_m x)_2i + 𝑖 (R_m x)_2i+1 = (x_2i + 𝑖 x_2i+1) e^(𝑖 m θ_i)        θ_i = base^(-2i / d_k),  i = 0 … d_k/2 - 1

    ⟨R_m q, R_n k⟩ = ⟨q, R_(n-m) k⟩

So a score depends on the distance n - m alone, and no position has parameters. Pairs are neighbours, (x_0, x_1), (x_2, x_3), …,
as in the paper and in Meta's weights of Llama. Llama's checkpoints at Hugging Face pair feature i with feature i + d_k/2:
`x.unflatten(-1, (2, -1)).mT.flatten(-2)` puts such features into the order used here.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import AnyMechanism, Attended, ContextOnly, LayerState, require_mechanism, shown
from course_lib.attention.dot_product import causal_attention
from course_lib.attention.multihead import KeysValues
from course_lib.primitives.preconditions import of_tensors, requires
from course_lib.shapes import GroupKeys, GroupValues, Mask, Queries

__all__ = ["RotaryAttention", "StretchedBase", "rotary_speeds", "rotate", "windowed_cache"]


class StretchedBase(NamedTuple):
    """The base of Llama 3.1, whose slow rotations are slowed further, for texts longer than those of its training.

    A speed θ makes r = T_old θ / 2π turns in the `T_old` tokens of that training; it becomes θ (s + (1 - s) / factor), where s
    rises from 0 at `low` turns to 1 at `high`. Source: `apply_scaling` in https://github.com/meta-llama/llama-models.
    """

    base: float
    factor: float
    low: float
    high: float
    T_old: float

    def slowed(self, speeds: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
        """Slow the speeds that turn fewer than `high` times."""
        turns = self.T_old * speeds / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return speeds * (kept + (1 - kept) / self.factor)


def rotary_speeds(
    d_k: int, base: float | StretchedBase = 10_000.0, device: torch.device | str | None = None
) -> Float[Tensor, "pairs"]:
    """Return the angle θ_i in radians by which each pair of features turns from one position to the next.

    Args:
        d_k: number of features of a query or key; even.
        base: 10,000 in the paper; longer contexts take a larger one, such as 500,000 in Llama 3, or a `StretchedBase`.
        device: of the speeds.

    Returns:
        (d_k / 2,) in float32, from 1 down to base^(2 / d_k - 1).

    Raises:
        ValueError: d_k is odd or not positive, or base is not positive.

    Source: Su et al. 2021, eq. 15.
    """
    if d_k < 2 or d_k % 2:
        raise ValueError(f"rotary positions turn pairs of features, so d_k must be even and at least 2, got {d_k}.")
    plain = base.base if isinstance(base, StretchedBase) else base
    if plain <= 0:
        raise ValueError(f"base must be positive, such as 10,000, got {plain}.")
    speeds = plain ** (-torch.arange(0, d_k, 2, dtype=torch.float32, device=device) / d_k)
    return base.slowed(speeds) if isinstance(base, StretchedBase) else speeds


def _require_speeds(x: Queries, speeds: Tensor, start: int = 0) -> None:
    """Raise an error unless x has fractions, and one speed for each pair of its features: a single one would broadcast."""
    if not x.is_floating_point():
        raise TypeError(f"queries and keys must be floating-point numbers, got {x.dtype}: convert them by `.float()`.")
    if speeds.dim() != 1 or x.shape[-1] != 2 * len(speeds):
        raise ValueError(
            f"x {tuple(x.shape)} has {x.shape[-1]} features and needs a speed for every two of them, got speeds "
            f"{tuple(speeds.shape)}: use `rotary_speeds({x.shape[-1]})`, or `RotaryAttention({x.shape[-1]})`."
        )


@of_tensors
@requires(_require_speeds)
def rotate(x: Queries, speeds: Float[Tensor, "pairs"], start: int = 0) -> Queries:
    """Rotate the features of each position by its angles: row t turns pair i by (start + t) θ_i.

    Pair i are the neighbours x_2i and x_2i+1. They turn counter-clockwise: by the angle a, (1, 0) becomes (cos a, sin a).
    In a checkpoint of Hugging Face, pair i are x_i and x_i+d_k/2, and its W_q and W_k would give wrong scores without an error:
    `pretrained.llama.from_llama(state_dict, d_k)` puts their rows into the order used here.

    Args:
        x: queries or keys (*batch, T, d_k), of positions start … start + T - 1.
        speeds: θ (d_k / 2,) in radians, from `rotary_speeds`.
        start: position of the first row; negative for positions before the origin.

    Returns:
        (*batch, T, d_k) in the dtype of x. Angles are computed in float32 or wider: in bfloat16, position 257 would be 256.

    Raises:
        ValueError: there is not one speed for each pair of features.
        TypeError: x is not of floating-point numbers.

    Source: Su et al. 2021, eq. 34.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    position = start + torch.arange(x.shape[-2], device=x.device)
    angle = position[:, None] * speeds.to(wide)  # (T, d_k / 2)
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2].to(wide), x[..., 1::2].to(wide)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


class RotatedKeysValues(KeysValues):
    """What has been read: keys (*batch, T, d_k) rotated to their positions 0 … T - 1, and values (*batch, T, d_v)."""


def _require_window(state: KeysValues, speeds: Tensor, size: int, sinks: int = 0) -> None:
    """Raise a ValueError unless the window has room for the query's own position."""
    if size < 1 or sinks < 0:
        raise ValueError(f"a window has at least the query's own position, and sinks are 0 or more: got {size} and {sinks}.")


@requires(_require_window)
def windowed_cache(state: KeysValues, speeds: Float[Tensor, "pairs"], size: int, sinks: int = 0) -> RotatedKeysValues:
    """Drop what a window of `size` positions, the next one included, does not read: a cache that does not grow.

    The positions that stay close the gap: their keys turn back by the number of dropped ones, and their distances are what they
    were. So positions count within the cache, as in StreamingLLM. Without sinks, steps compute what the mask
    `window_of_tokens(T, size)` computes from the whole text; with sinks, these seem to stand just in front of the window.

    Args:
        state: keys (*batch, T, d_k), rotated to the positions 0 … T - 1, and values (*batch, T, d_v).
        speeds: of the rotation, (d_k / 2,).
        size: positions in a window, the query's own included.
        sinks: first positions that stay, in addition (attention sinks).

    Returns:
        at most sinks + size - 1 positions. In half precision each turn rounds, and each key turns size - 1 times.

    Raises:
        ValueError: size is below 1, or sinks is negative.

    Source: Xiao et al. 2023, *Efficient Streaming Language Models with Attention Sinks*, section 3.2
    (https://arxiv.org/abs/2309.17453).
    """
    keys, values = state
    n_dropped = max(0, keys.shape[-2] - sinks - (size - 1))
    recent = rotate(keys[..., sinks + n_dropped :, None, :], speeds, -n_dropped).squeeze(-2)  # each as row 0: one angle for all
    return RotatedKeysValues(
        torch.cat([keys[..., :sinks, :], recent], dim=-2),
        torch.cat([values[..., :sinks, :], values[..., sinks + n_dropped :, :]], dim=-2),
    )


class RotaryAttention(nn.Module):
    """A mechanism that rotates queries and keys, never values, to their positions: `MultiHead(64, 8, RotaryAttention(8))`.

    The angles follow from d_k and base, so that a model in half precision does not round them. Weights are dropped by an
    `AttentionDropout` inside, `RotaryAttention(8, AttentionDropout(causal_attention, 0.1))`, which also decodes.
    """

    def __init__(self, d_k: int, mechanism: AnyMechanism = causal_attention, base: float | StretchedBase = 10_000.0) -> None:
        """Set the mechanism that attends from rotated queries to rotated keys.

        Args:
            d_k: features of a query or key, of one head; even.
            mechanism: such as `causal_attention`, `fused_causal_attention`, `GroupedQueryAttention()` for keys of fewer heads
                than the queries, or `scaled_dot_product_attention` in an encoder.
            base: as in `rotary_speeds`.

        Raises:
            ValueError: d_k is odd or not positive, or base is not positive.
        """
        super().__init__()
        rotary_speeds(d_k, base)
        require_mechanism(mechanism)
        self.d_k, self.mechanism, self.base = d_k, mechanism, base

    def extra_repr(self) -> str:
        """Show d_k, the base, and a mechanism that is a function."""
        return ", ".join(filter(None, (f"d_k={self.d_k}, base={self.base}", shown(self.mechanism))))

    @of_tensors
    def forward(self, q: Queries, k: GroupKeys, v: GroupValues, mask: Mask | None = None) -> Attended | ContextOnly:
        """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v).

        If T_k > T_q, the queries are the last T_q positions of the keys.

        Raises:
            ValueError: there are more queries than keys, queries or keys are not of d_k features, or as the mechanism.
        """
        T_q, T_k = q.shape[-2], k.shape[-2]
        if T_q > T_k:
            raise ValueError(f"queries and keys are positions of one sequence, but there are {T_q} queries and {T_k} keys.")
        return self.mechanism(self._rotate(q, T_k - T_q), self._rotate(k), v, mask)

    def start(self, k: GroupKeys, v: GroupValues) -> RotatedKeysValues:
        """Keep rotated keys (*batch, T, d_k), T ≥ 0, and values (*batch, T, d_v).

        Raises:
            ValueError: the mechanism inside is not causal.
        """
        if not getattr(self.mechanism, "causal", False):
            raise ValueError(
                f"steps compute causal attention, but {getattr(self.mechanism, '__name__', self.mechanism)} is not causal: "
                "choose causal_attention or fused_causal_attention."
            )
        return RotatedKeysValues(self._rotate(k), v)

    def step(
        self, q: Queries, k: GroupKeys, v: GroupValues, state: LayerState, mask: Mask | None = None
    ) -> tuple[Attended | ContextOnly, RotatedKeysValues]:
        """Attend from one more position, q and k (*batch, 1, d_k), to itself and all before; v (*batch, 1, d_v).

        The mask (*batch, 1, T + 1) leaves out padding, which must stand before the text: after it, it would add to distances.
        """
        keys, values = state
        T = keys.shape[-2]
        read = RotatedKeysValues(torch.cat([keys, self._rotate(k, T)], dim=-2), torch.cat([values, v], dim=-2))
        return self.mechanism(self._rotate(q, T), *read, mask), read

    def _rotate(self, x: Queries, start: int = 0) -> Queries:
        return rotate(x, rotary_speeds(self.d_k, self.base, x.device), start)
