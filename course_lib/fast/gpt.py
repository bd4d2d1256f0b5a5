"""Fast KV-cached decoding for GPT: the steps of `models.GPT` in fewer operations.

`attention.cached_step` computes one layer by its equation, and `GPT.step` all layers by their modules. A step of a small model
is bound by the number of operations, not by their size. So a step here calls no module: one product gives query, key and value,
the last two go into the cache by one assignment, and torch's fused kernel attends. Matrices are kept as (in, out), the layout
that `addmm` takes.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import MultiHead, causal_attention
from course_lib.blocks import Block, FeedForward, pre_norm
from course_lib.fast.dot_product import fused_causal_attention
from course_lib.models import GPT
from course_lib.primitives import padding_mask
from course_lib.primitives.preconditions import require_one_token_each, shape_checked
from course_lib.shapes import Lengths, Tokens

__all__ = ["CachedGPT"]

ROOM = 128
"""Positions that a cache has at first: short texts never copy it, and the old and the new are not held at once."""


class LayerWeights(NamedTuple):
    """Weights of one block in the layout of a step: gain, shift and ε of a norm, W (in, out) and b of a product.

    `attend` are the projections to queries, keys and values in one, (d_model, 3 · d_model).
    """

    norm_1: tuple[Tensor, Tensor, float]
    attend: tuple[Tensor, Tensor]
    merge: tuple[Tensor, Tensor]
    norm_2: tuple[Tensor, Tensor, float]
    widen: tuple[Tensor, Tensor]
    activation: Callable[[Tensor], Tensor]
    narrow: tuple[Tensor, Tensor]


class Written:
    """Number `n` of written positions in a storage of keys and values; only the state with as many may append to it."""

    def __init__(self, n: int) -> None:
        self.n = n


class Cache(NamedTuple):
    """Keys and values of the past: for each layer `past` (B, 2, h, capacity, d_k), of which `n` positions belong to this state.

    `position` (B,) is that of the next token. `real` (B, 1, 1, T_max) is False at padding, and None if there is none.

    A cache is a value. The next step appends to `past` in place, at position n, which no state of n positions reads; if
    `written` says that another step has done so before, or the capacity is used up, the step first copies `past`.
    """

    past: tuple[Float[Tensor, "B 2 h capacity d_k"], ...]
    n: int
    position: Int[Tensor, "B"]
    real: Bool[Tensor, "B 1 1 T_max"] | None
    written: Written


class CachedGPT:
    """A GPT for generation, with a key-value cache. It copies the weights: after further training, make a new one."""

    @torch.no_grad()
    def __init__(self, model: GPT) -> None:
        """Copy the matrices in the layout of the steps; small tensors are shared with the model.

        Raises:
            ValueError: a layer's mechanism is not `causal_attention` or `fused_causal_attention`, or a part differs from those
                that `GPT` makes: pre-norm blocks with one number of heads, LayerNorm with gain and bias, matrices with bias,
                heads of d_model / n_heads features.
        """
        blocks = [cast(Block, block) for block in model.stack.blocks]
        for mechanism in (_attention(block).mechanism for block in blocks):
            if mechanism not in (causal_attention, fused_causal_attention):
                raise ValueError(
                    f"cached steps compute causal_attention, but this GPT attends by {mechanism}: use the GPT itself."
                )
        if len({_attention(block).n_heads for block in blocks}) != 1 or any(b.residual is not pre_norm for b in blocks):
            raise ValueError("cached steps need pre-norm blocks, all with one number of heads: use the GPT itself.")
        for name, part in _parts(model):
            _require_as_made(name, part, model.tokens.embedding_dim)
        self.layers = [_layer(block) for block in blocks]
        self.n_heads = _attention(blocks[0]).n_heads
        self.tokens, self.positions = model.tokens.weight, model.positions.vectors
        self.closing = _norm(model.stack.closing)

    @torch.no_grad()
    @shape_checked()
    def start(self, prompt: Tokens, lengths: Lengths | None = None) -> Cache:
        """Read prompts in parallel.

        Args:
            prompt: (B, T), T ≥ 0; a shorter one is followed by padding of any value.
            lengths: (B,), number of tokens of each prompt, 0 to T; None = all have T.

        Returns:
            the cache from which `step` continues.

        Raises:
            ValueError: the prompt is longer than T_max, there is not one length for each prompt, or one is not in 0…T.
        """
        (B, T), T_max = prompt.shape, len(self.positions)
        if T_max < T:
            raise ValueError(f"{T} tokens are too many for a model of {T_max} positions.")
        shape = (B, 2, self.n_heads, min(T_max, max(ROOM, 2 * T)), self.tokens.shape[1] // self.n_heads)
        past = tuple(self.tokens.new_empty(shape) for _ in self.layers)
        if T > 0:
            self._through((self.tokens[prompt] + self.positions[:T]).flatten(0, 1), past, 0, T, None)
        if lengths is None:
            return Cache(past, T, torch.full((B,), T, device=prompt.device), None, Written(T))
        real = F.pad(padding_mask(lengths, T), (0, T_max - T), value=True)
        return Cache(past, T, lengths.to(torch.int64, copy=True), real[:, None], Written(T))

    @torch.no_grad()
    def step(self, tokens: Int[Tensor, "B"], cache: Cache) -> tuple[Float[Tensor, "B n_tokens"], Cache]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new cache.

        Raises:
            ValueError: T_max positions, padding included, were read before; or there is not one token for each sequence.
        """
        past, n, position, real, written = cache
        require_one_token_each(tokens, len(position))
        T_max, capacity = len(self.positions), past[0].shape[3]
        if n == T_max:
            raise ValueError(f"{n} tokens and one more are too many for a model of {T_max} positions.")
        if n == capacity or n != written.n:
            past, written = tuple(_copy(kept, n, min(T_max, max(ROOM, 2 * n))) for kept in past), Written(n)
        seen = None if real is None else real[..., : n + 1]
        x = self._through(self.tokens.index_select(0, tokens) + self.positions.index_select(0, position), past, n, 1, seen)
        written.n = n + 1
        return _normalise(x, self.closing) @ self.tokens.mT, Cache(past, n + 1, position + 1, real, written)

    def _through(self, x: Tensor, past: tuple[Tensor, ...], n: int, T: int, real: Tensor | None) -> Tensor:
        """Run all layers on x (B · T, d_model), the T tokens from position n on; write their keys and values into `past`."""
        N, d_model = x.shape
        heads = (len(past[0]), T, 3, self.n_heads, d_model // self.n_heads)
        for w, kept in zip(self.layers, past, strict=True):
            qkv = _product(_normalise(x, w.norm_1), w.attend).view(heads).permute(0, 2, 3, 1, 4)
            kept.narrow(3, n, T).copy_(qkv.narrow(1, 1, 2))
            k, v = kept.narrow(3, 0, n + T).unbind(1)
            context = F.scaled_dot_product_attention(qkv.select(1, 0), k, v, real, is_causal=T > 1)
            x = _product(context.transpose(1, 2).reshape(N, d_model), w.merge).add_(x)
            x = _product(w.activation(_product(_normalise(x, w.norm_2), w.widen)), w.narrow).add_(x)
        return x


def _product(x: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    return torch.addmm(weights[1], x, weights[0])


def _normalise(x: Tensor, weights: tuple[Tensor, Tensor, float]) -> Tensor:
    return torch.layer_norm(x, x.shape[-1:], *weights)


def _norm(module: nn.Module) -> tuple[Tensor, Tensor, float]:
    norm = cast(nn.LayerNorm, module)
    return norm.weight, norm.bias, norm.eps


def _attention(block: Block) -> MultiHead:
    return cast(MultiHead, block.mixer.attention)


def _linear(*modules: nn.Linear) -> tuple[Tensor, Tensor]:
    """Concatenate the matrices, (in, out), and the biases along the outputs."""
    return torch.cat([module.weight for module in modules]).mT.contiguous(), torch.cat([module.bias for module in modules])


def _layer(block: Block) -> LayerWeights:
    attention, ffn = _attention(block), cast(FeedForward, block.feed_forward)
    return LayerWeights(
        _norm(block.norm_1),
        _linear(attention.W_q, attention.W_k, attention.W_v),
        _linear(attention.W_o),
        _norm(block.norm_2),
        _linear(ffn.W_1),
        ffn.activation,
        _linear(ffn.W_2),
    )


def _parts(model: GPT) -> Iterator[tuple[str, nn.Module]]:
    """Yield the norms and linear layers that the steps copy, with their names."""
    yield "stack.closing", model.stack.closing
    for i, block in enumerate(model.stack.blocks):
        for name in ("norm_1", "norm_2", "feed_forward.W_1", "feed_forward.W_2"):
            yield f"stack.blocks.{i}.{name}", block.get_submodule(name)
        for name in ("W_q", "W_k", "W_v", "W_o"):
            yield f"stack.blocks.{i}.mixer.attention.{name}", block.get_submodule(f"mixer.attention.{name}")


def _require_as_made(name: str, part: nn.Module, d_model: int) -> None:
    """Raise a ValueError for a norm or linear layer that the steps cannot compute."""
    of_heads, kind = "attention" in name, nn.Linear if "W_" in name else nn.LayerNorm
    fits = isinstance(part, kind) and part.weight is not None and part.bias is not None
    if not fits or (of_heads and part.weight.shape != (d_model, d_model)):
        wanted = f"{kind.__name__} ({d_model}, {d_model})" if of_heads else kind.__name__
        raise ValueError(f"cached steps need {wanted} with bias as {name}, but this GPT has {part} there: use the GPT itself.")


def _copy(kept: Tensor, n: int, capacity: int) -> Tensor:
    """Copy the first n positions of keys and values into a storage of the given capacity."""
    copied = kept.new_empty(*kept.shape[:3], capacity, kept.shape[4])
    copied.narrow(3, 0, n).copy_(kept.narrow(3, 0, n))
    return copied
