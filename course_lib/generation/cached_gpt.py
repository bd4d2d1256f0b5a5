"""GPT that reads no token twice: keys and values of the past are kept, layer by layer, and each new token joins them.

What `attention.cached_step` says for one layer, for the whole of `models.gpt`. A small model is bound by the number of
operations, not by their size. So a step calls no module: one product gives query, key and value, the last two go into the
cache by one assignment, and torch's fused kernel attends. Matrices are kept as (in, out), which `addmm` takes as they lie.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import causal_attention, fused_causal_attention
from course_lib.blocks import Block
from course_lib.models.gpt import GPT, Choose, require_prompts
from course_lib.shapes import Lengths, Tokens


class LayerWeights(NamedTuple):
    """One block of GPT as a step needs it: gain, shift and ε of a norm, W (in, out) and b of a product.

    `attend` are the projections to queries, keys and values in one, (d_model, 3 · d_model).
    """

    norm_1: tuple[Tensor, Tensor, float]
    attend: tuple[Tensor, Tensor]
    merge: tuple[Tensor, Tensor]
    norm_2: tuple[Tensor, Tensor, float]
    widen: tuple[Tensor, Tensor]
    activation: Callable[[Tensor], Tensor]
    narrow: tuple[Tensor, Tensor]


class Cache(NamedTuple):
    """What was read: for each layer `past` (B, 2, h, T_max, d_k), keys and values; `n` of their places are taken.

    `position` (B,) is that of the next token. `real` (B, 1, 1, T_max) is False at padding, and None where there is none.
    A step writes into `past`; the rows of a cache may be taken by `rows_of`, as `beam_search` does.
    """

    past: tuple[Float[Tensor, "B 2 h T_max d_k"], ...]
    n: int
    position: Int[Tensor, "B"]
    real: Bool[Tensor, "B 1 1 T_max"] | None


class CachedGPT:
    """The weights of a GPT, laid out for steps. It follows no later training: make a new one."""

    @torch.no_grad()
    def __init__(self, model: GPT) -> None:
        """Lay out copies of the matrices; what is small is shared with the model.

        Raises:
            ValueError: a layer attends otherwise than by `causal_attention` or `fused_causal_attention`.
        """
        for mechanism in (block.mixer.attention.mechanism for block in model.stack.blocks):
            if mechanism not in (causal_attention, fused_causal_attention):
                raise ValueError(f"steps compute causal_attention, but this GPT attends by {mechanism}; use `generate`.")
        self.layers = [_layer(block) for block in model.stack.blocks]
        self.n_heads = model.stack.blocks[0].mixer.attention.n_heads
        self.tokens, self.positions = model.tokens.weight, model.positions.vectors
        self.closing = _norm(model.stack.closing)

    @torch.no_grad()
    def read(self, prompt: Tokens, room: int, lengths: Lengths | None = None) -> tuple[Float[Tensor, "B n_tokens"], Cache]:
        """Read prompts, and make room for as many more tokens.

        Args:
            prompt: (B, T), T ≥ 1; behind the end of a shorter one stands padding, whatever it is.
            room: tokens that will follow.
            lengths: (B,), tokens of each prompt, 1 to T; None = all have T.

        Returns:
            logits (B, n_tokens) for the token behind each prompt, and the cache from which `step` goes on.

        Raises:
            ValueError: prompt and room together are more than T_max, a prompt is empty, or lengths do not fit.
        """
        require_prompts(prompt, room, len(self.positions), lengths)
        B, T = prompt.shape
        shape = (B, 2, self.n_heads, T + room, self.tokens.shape[1] // self.n_heads)
        past = tuple(self.tokens.new_empty(shape) for _ in self.layers)
        x = self._through((self.tokens[prompt] + self.positions[:T]).flatten(0, 1), past, 0, None).unflatten(0, (B, T))
        if lengths is None:
            return self._say(x[:, -1]), Cache(past, T, torch.full((B,), T, device=prompt.device), None)
        slot = torch.arange(T + room, device=prompt.device)
        real = (slot < lengths[:, None]) | (slot >= T)
        last = x[torch.arange(B, device=prompt.device), lengths - 1]
        return self._say(last), Cache(past, T, lengths, real[:, None, None])

    @torch.no_grad()
    def step(self, words: Int[Tensor, "B"], cache: Cache) -> tuple[Float[Tensor, "B n_tokens"], Cache]:
        """Read one more token (B,) of each sequence: logits (B, n_tokens) for the next, and the cache behind it."""
        past, n, position, real = cache
        seen = None if real is None else real[..., : n + 1]
        x = self._through(self.tokens.index_select(0, words) + self.positions.index_select(0, position), past, n, seen)
        return self._say(x), Cache(past, n + 1, position + 1, real)

    def _through(self, x: Tensor, past: tuple[Tensor, ...], n: int, real: Tensor | None) -> Tensor:
        """Take x (B · T, d_model), the tokens from place n on, through all layers; their keys and values join the past."""
        N, d_model = x.shape
        B = len(past[0])
        T = N // B
        heads = (B, T, 3, self.n_heads, d_model // self.n_heads)
        for w, kept in zip(self.layers, past, strict=True):
            qkv = _product(_normalise(x, w.norm_1), w.attend).view(heads).permute(0, 2, 3, 1, 4)
            kept.narrow(3, n, T).copy_(qkv.narrow(1, 1, 2))
            k, v = kept.narrow(3, 0, n + T).unbind(1)
            context = F.scaled_dot_product_attention(qkv.select(1, 0), k, v, real, is_causal=T > 1)
            x = _product(context.transpose(1, 2).reshape(N, d_model), w.merge).add_(x)
            x = _product(w.activation(_product(_normalise(x, w.norm_2), w.widen)), w.narrow).add_(x)
        return x

    def _say(self, x: Tensor) -> Tensor:
        return _normalise(x, self.closing) @ self.tokens.mT


def _product(x: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    return torch.addmm(weights[1], x, weights[0])


def _normalise(x: Tensor, weights: tuple[Tensor, Tensor, float]) -> Tensor:
    return torch.layer_norm(x, x.shape[-1:], *weights)


def _norm(module: nn.LayerNorm) -> tuple[Tensor, Tensor, float]:
    return module.weight, module.bias, module.eps


def _linear(*modules: nn.Linear) -> tuple[Tensor, Tensor]:
    """Lay the matrices side by side, (in, out), and the biases behind each other."""
    return torch.cat([module.weight for module in modules]).mT.contiguous(), torch.cat([module.bias for module in modules])


def _layer(block: Block) -> LayerWeights:
    attention, ffn = block.mixer.attention, block.feed_forward
    return LayerWeights(
        _norm(block.norm_1),
        _linear(attention.W_q, attention.W_k, attention.W_v),
        _linear(attention.W_o),
        _norm(block.norm_2),
        _linear(ffn.W_1),
        ffn.activation,
        _linear(ffn.W_2),
    )


@torch.no_grad()
def cached_generate(model: GPT, prompt: Tokens, n: int, choose: Choose, lengths: Lengths | None = None) -> Int[Tensor, "B n"]:
    """Compute the same as `generate`, without reading anything twice."""
    cached = CachedGPT(model)
    logits, cache = cached.read(prompt, n, lengths)
    written = prompt.new_empty(len(prompt), n)
    for t in range(n):
        written[:, t] = choose(logits)
        if t + 1 < n:
            logits, cache = cached.step(written[:, t], cache)
    return written
