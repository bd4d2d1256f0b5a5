"""Multi-head attention around any mechanism, cross-attention, and one cached decoding step.

Vaswani et al. 2017, section 3.2.2 (https://arxiv.org/abs/1706.03762):

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O        head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)

The matrices of all heads are stacked row-wise in one, so that one product serves every head. They are stored as
torch.nn.Linear stores them, (out, in): the paper's X W is `x @ W.mT`. `multi_head_attention` raises a ValueError for a
matrix that does not fit its input or the others, and for a mask that does not fit.

Cached decoding computes only the last row of causal self-attention, for a new token x_t (section 3.2.3):

    K_t = [K_{t-1}; x_t W^K]        V_t = [V_{t-1}; x_t W^V]        head = softmax(x_t W^Q K_tᵀ / √d_k) V_t

Earlier rows do not change, since no earlier token attends to a later one. `MultiHead.read` and `MultiHead.step` do this
for any causal mechanism that has a state: `KeysValues` for softmax attention, (S, z) for linear attention.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import (
    AnyMechanism,
    Attended,
    ContextOnly,
    LayerState,
    MechanismOf,
    Result,
    StepwiseMechanism,
    attend,
    broadcast_shapes,
    require_mechanism,
    require_one_reading,
    shown,
)
from course_lib.attention.dot_product import scaled_dot_product_attention
from course_lib.primitives.precision import rounded_from_float32
from course_lib.primitives.preconditions import of_tensors, shape_checked
from course_lib.shapes import Context, GroupKeys, GroupValues, Keys, Mask, Queries, Values

__all__ = [
    "CachedStep",
    "KeysValues",
    "MultiHead",
    "cached_step",
    "merge_heads",
    "multi_head_attention",
    "split_heads",
]


def split_heads(x: Float[Tensor, "*batch T h_d"], n_heads: int) -> Float[Tensor, "*batch h T d"]:
    """Split the features into heads: head i owns features i·d to (i+1)·d of every position.

    Args:
        x: (*batch, T, n_heads · d).
        n_heads: number of heads; must divide the number of features.

    Returns:
        (*batch, n_heads, T, d).

    Raises:
        ValueError: n_heads is not positive, or the features do not divide into n_heads.

    Source: Vaswani et al. 2017, section 3.2.2.
    """
    if n_heads < 1 or x.shape[-1] % n_heads:
        raise ValueError(f"{x.shape[-1]} features do not divide into {n_heads} heads.")
    return rearrange(x, "... T (h d) -> ... h T d", h=n_heads)


def head_size(d_model: int, n_heads: int, d_k: int | None) -> int:
    """Return the features of a head: d_k, or if it is None d_model / n_heads.

    Raises:
        ValueError: n_heads is not positive, or d_k is None and n_heads does not divide d_model.
    """
    if n_heads < 1 or (d_k is None and d_model % n_heads):
        raise ValueError(f"d_model {d_model} does not divide into {n_heads} heads; give d_k, or other sizes.")
    return d_model // n_heads if d_k is None else d_k


def merge_heads(x: Float[Tensor, "*batch h T d"]) -> Float[Tensor, "*batch T h_d"]:
    """Concatenate the heads: the inverse of `split_heads`, (*batch, h, T, d) -> (*batch, T, h · d)."""
    return rearrange(x, "... h T d -> ... T (h d)")


@shape_checked("Matrices are stored as torch.nn.Linear stores them, (out, in); of others pass the transpose, `W.mT`.")
def multi_head_attention(
    queries: Float[Tensor, "*#batch T_q d_in_q"],
    keys: Float[Tensor, "*#batch T_k d_in_k"],
    values: Float[Tensor, "*#batch T_k d_in_v"],
    W_q: Float[Tensor, "h_d_k d_in_q"],
    W_k: Float[Tensor, "h_d_k d_in_k"],
    W_v: Float[Tensor, "h_d_v d_in_v"],
    W_o: Float[Tensor, "d_model h_d_v"],
    n_heads: int,
    mask: Mask | None = None,
) -> Attended:
    """Attend n_heads times in parallel by scaled dot products, each head in its own projection.

    Args:
        queries: (*batch, T_q, d_in_q).
        keys: (*batch, T_k, d_in_k).
        values: (*batch, T_k, d_in_v).
        W_q: the query projections of all heads, stacked row-wise: n_heads · d_k rows.
        W_k: those of the keys, with as many rows.
        W_v: those of the values, of another size if need be.
        W_o: of the output, with a column for each row of W_v.
        n_heads: number of heads.
        mask: bool, True = may attend: broadcastable to (*batch, T_q, T_k), the same for every head; or with an axis of heads,
            (*batch, 1, T_q, T_k) or (*batch, n_heads, T_q, T_k).

    Returns:
        context (*batch, T_q, d_model) and weights (*batch, n_heads, T_q, T_k).

    Source: Vaswani et al. 2017, section 3.2.2; sizes per input as in RKMVERI's deck.
    """
    q = split_heads(queries @ W_q.mT, n_heads)
    k = split_heads(keys @ W_k.mT, n_heads)
    v = split_heads(values @ W_v.mT, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return Attended(merge_heads(context) @ W_o.mT, weights)


def mask_per_head(mask: Mask | None, shape: tuple[int, ...] | None = None) -> Mask | None:
    """Add an axis of heads, of size 1, to a mask for inputs of `shape`, (B, T, d) if None, unless it has one.

    Raises:
        ValueError: a mask of three axes can be read in two ways (`require_one_reading`).
    """
    n_axes = 3 if shape is None else len(shape)
    if mask is None or not 2 <= mask.dim() <= n_axes:
        return mask
    if shape is not None:
        require_one_reading(mask, shape)
    return mask.unsqueeze(-3)


class KeysValues(NamedTuple):
    """Projected keys (*batch, h, T_k, d_k) and values (*batch, h, T_k, d_v) of all heads: the state of stepwise decoding.

    With grouped queries there are g heads of them.
    """

    keys: Float[Tensor, "*batch h T_k d_k"]
    values: Float[Tensor, "*batch h T_k d_v"]

    def followed_by(self, later: "KeysValues") -> "KeysValues":
        """Append the keys and values of later positions; neither operand is changed."""
        return KeysValues(*(torch.cat(pair, dim=-2) for pair in zip(self, later, strict=True)))


class _CachedAttention(NamedTuple):
    """Causal attention step by step, from a key-value cache: the new query, the last, attends to all keys."""

    attend: AnyMechanism

    def start(self, k: GroupKeys, v: GroupValues) -> KeysValues:
        """Keep keys (*batch, h, T, d_k) and values (*batch, h, T, d_v)."""
        return KeysValues(k, v)

    def step(
        self, q: Queries, k: GroupKeys, v: GroupValues, state: LayerState, mask: Mask | None = None
    ) -> tuple[Attended | ContextOnly, KeysValues]:
        """Append k (*batch, h, 1, d_k) and v (*batch, h, 1, d_v), and attend from q (*batch, h, 1, d_k) under `mask`."""
        cache = KeysValues(*state).followed_by(KeysValues(k, v))
        return self.attend(q, *cache, mask), cache


def stepwise(mechanism: AnyMechanism) -> StepwiseMechanism:
    """Return the step-by-step form of a causal mechanism.

    Raises:
        ValueError: it has none; a mechanism that attends to later positions cannot have one.
    """
    if hasattr(mechanism, "start") and hasattr(mechanism, "step"):  # isinstance with a protocol is slow, and every step checks
        return cast(StepwiseMechanism, mechanism)
    if getattr(mechanism, "causal", False):
        return _CachedAttention(mechanism)
    raise ValueError(
        "steps compute causal attention: choose causal_attention, fused_causal_attention or a causal LinearAttention; "
        f"{getattr(mechanism, '__name__', mechanism)} has no `start` and `step`"
    )


class MultiHead(nn.Module, Generic[Result]):
    """Multi-head attention: owns W_q, W_k, W_v, W_o and passes the projected heads to a mechanism."""

    if TYPE_CHECKING:  # `nn.Module` types every call as Any
        __call__: Callable[..., Result]

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        mechanism: MechanismOf[Result] = scaled_dot_product_attention,  # type: ignore[assignment]
        d_k: int | None = None,
        d_v: int | None = None,
        d_memory: int | None = None,
        bias: bool = True,
        n_groups: int | None = None,
    ) -> None:
        """Set up the projections.

        Args:
            d_model: size of the queries and of the output.
            n_heads: number of heads.
            mechanism: how each head attends; a function or module `(q, k, v, mask)` that returns `Attended` or, in a fused
                form, `ContextOnly`.
            d_k: size of a head's queries and keys; d_model / n_heads if None.
            d_v: size of a head's values; d_k if None.
            d_memory: size of the input keys and values; d_model if None.
            bias: whether the four projections have biases: torch and GPT have them, the paper and Llama have none.
            n_groups: number of heads of keys and values, if fewer than of queries: the mechanism is then, or contains, a
                `GroupedQueryAttention`. None = n_heads.

        Raises:
            ValueError: n_heads is not positive, d_k is None and n_heads does not divide d_model, or n_groups does not divide
                n_heads.
            TypeError: the mechanism is a class or a string, not a function or a module.
        """
        super().__init__()
        require_mechanism(mechanism)
        d_k = head_size(d_model, n_heads, d_k)
        n_groups = n_heads if n_groups is None else n_groups
        if n_groups < 1 or n_heads % n_groups:
            raise ValueError(f"{n_heads} heads of queries do not divide into {n_groups} groups.")
        d_v = d_k if d_v is None else d_v
        d_memory = d_model if d_memory is None else d_memory
        self.n_heads, self.n_groups = n_heads, n_groups
        self.mechanism = mechanism
        self.W_q = nn.Linear(d_model, n_heads * d_k, bias=bias)
        self.W_k = nn.Linear(d_memory, n_groups * d_k, bias=bias)
        self.W_v = nn.Linear(d_memory, n_groups * d_v, bias=bias)
        self.W_o = nn.Linear(n_heads * d_v, d_model, bias=bias)

    def extra_repr(self) -> str:
        """Show the heads, their groups, and a mechanism that is a function, which `print(model)` would leave out."""
        return ", ".join(filter(None, (f"n_heads={self.n_heads}, n_groups={self.n_groups}", shown(self.mechanism))))

    def forward(self, queries: Queries, keys: Keys, values: Values, mask: Mask | None = None) -> Attended | ContextOnly:
        """Attend from queries (*batch, T_q, d_model) over keys and values (*batch, T_k, d_memory).

        The mask is as in `multi_head_attention`. Weights are those of the mechanism, (*batch, n_heads, T_q, T_k).
        """
        return self.attend_projected(queries, self.project(keys, values), mask)

    def project(self, keys: Keys, values: Values) -> KeysValues:
        """Project keys and values (*batch, T_k, d_memory) for all heads, or for all groups of heads."""
        return KeysValues(split_heads(self.W_k(keys), self.n_groups), split_heads(self.W_v(values), self.n_groups))

    def attend_projected(self, queries: Queries, projected: KeysValues, mask: Mask | None = None) -> Attended | ContextOnly:
        """Attend as `forward`, over keys and values from `project`."""
        q = split_heads(self.W_q(queries), self.n_heads)
        if mask is not None:
            batch = broadcast_shapes(q.shape[:-3], projected.keys.shape[:-3])
            mask = mask_per_head(mask, (*batch, *queries.shape[-2:]))
        attended = self.mechanism(q, *projected, mask)
        if isinstance(attended, Tensor):
            raise TypeError(
                f"a mechanism returns `Attended` (context, weights) or `ContextOnly`, got a tensor: {shown(self.mechanism)}. "
                "Linear attention is a mechanism as `LinearAttention()`, which also computes the features."
            )
        return attended._replace(context=self.W_o(merge_heads(attended.context)))

    def read(self, x: Queries, mask: Mask | None = None) -> tuple[Context, LayerState]:
        """Attend from each position of x (*batch, T, d_model), T ≥ 0, to x: the context of `forward`, and a state.

        The state is what `step` continues from, one position after the other. It keeps what the mask hides: each step takes
        the mask of its own position.

        Raises:
            ValueError: the mechanism has no step-by-step form; or there is a mask, and the state is no key-value cache.
        """
        mechanism, projected = stepwise(self.mechanism), self.project(x, x)
        state = mechanism.start(*projected)
        if mask is not None and not isinstance(state, KeysValues):
            raise ValueError("only a key-value cache can leave out padding: with this mechanism, give prompts of one length.")
        return self.attend_projected(x, projected, mask).context, state

    def step(
        self, x: Float[Tensor, "*batch 1 d_model"], state: LayerState, *form: Any
    ) -> tuple[Float[Tensor, "*batch 1 d_model"], LayerState]:
        """Attend from one more position x (*batch, 1, d_model) to itself and to those of the state, which is not changed.

        Args:
            x: (*batch, 1, d_model).
            state: from `read` or the previous step.
            form: passed to the mechanism's step. Softmax attention takes a mask for the weights (*batch, h, 1, T + 1), such
                as one for padding among the T positions of the state; `LinearAttention` takes the form of its step.

        Returns:
            the last row of the context of `forward`, (*batch, 1, d_model), and the new state.
        """
        q = split_heads(self.W_q(x), self.n_heads)
        attended, state = stepwise(self.mechanism).step(q, *self.project(x, x), state, *form)
        return self.W_o(merge_heads(attended.context)), state


class CachedStep(NamedTuple):
    """Result of a step: `output` (B, d_model) for the new token, and all `keys` and `values` (B, h, T + 1, d) for the next."""

    output: Float[Tensor, "B d_model"]
    keys: Float[Tensor, "B h T d_k"]
    values: Float[Tensor, "B h T d_v"]


@of_tensors
@rounded_from_float32
def cached_step(
    x: Float[Tensor, "B d_in"],
    keys: Float[Tensor, "B h T d_k"],
    values: Float[Tensor, "B h T d_v"],
    W_q: Float[Tensor, "h_d_k d_in"],
    W_k: Float[Tensor, "h_d_k d_in"],
    W_v: Float[Tensor, "h_d_v d_in"],
    W_o: Float[Tensor, "d_model h_d_v"],
) -> CachedStep:
    """Attend from one new token to itself and to the cached keys and values of earlier tokens.

    Args:
        x: the new token of each sequence, (B, d_in).
        keys: of earlier tokens, per head, (B, h, T, d_k); T = 0 at the start.
        values: of earlier tokens, (B, h, T, d_v).
        W_q: (h · d_k, d_in), the query projections of all heads, stacked row-wise.
        W_k: (h · d_k, d_in).
        W_v: (h · d_v, d_in).
        W_o: (d_model, h · d_v).

    Returns:
        output (B, d_model), as the last row of causal multi-head attention over the whole sequence would be; and the keys
        and values with those of x appended, (B, h, T + 1, d). The arguments are not changed.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    n_heads, d_k = keys.shape[1], keys.shape[-1]
    q = rearrange(x @ W_q.mT, "B (h d_k) -> B h 1 d_k", h=n_heads)
    k = rearrange(x @ W_k.mT, "B (h d_k) -> B h 1 d_k", h=n_heads)
    v = rearrange(x @ W_v.mT, "B (h d_v) -> B h 1 d_v", h=n_heads)
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    context, _ = attend(q @ keys.mT / math.sqrt(d_k), values)
    return CachedStep(rearrange(context, "B h 1 d_v -> B (h d_v)") @ W_o.mT, keys, values)
