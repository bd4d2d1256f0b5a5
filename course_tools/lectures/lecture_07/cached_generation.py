"""Generate with a GPT by a function for one cached attention step, or by recomputing everything."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.attention import CachedStep, MultiHead, multi_head_attention
from course_lib.models import GPT
from course_lib.primitives import causal_mask
from course_tools.notebook.layer_costs import multiply_adds

CachedStepFunction = Callable[..., CachedStep]
"""The arguments and result of `course_lib.attention.cached_step`."""


class Past(NamedTuple):
    """What a `StepwiseGPT` keeps: keys and values (B, h, T, d_k) of each layer, and the number T of tokens read."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    n: int


class StepwiseGPT:
    """A trained GPT that reads token by token, each layer by the given step; `generate` takes it as a model."""

    def __init__(self, model: GPT, step: CachedStepFunction) -> None:
        """Share the weights of the model, whose attention must be causal."""
        self.model, self.cached_step = model, step
        self.heads: list[MultiHead] = [block.mixer.attention for block in model.stack.blocks]

    def start(self, prompt: Tensor) -> Past:
        """Read prompts (B, T), T ≥ 0, token by token."""
        empty = [prompt.new_zeros(len(prompt), a.n_heads, 0, len(a.W_k.weight) // a.n_heads).float() for a in self.heads]
        past = Past(tuple((cache, cache) for cache in empty), 0)
        for tokens in prompt.unbind(1):
            _, past = self.step(tokens, past)
        return past

    @torch.no_grad()
    def step(self, tokens: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new state."""
        x, layers = self.model.tokens(tokens) + self.model.positions.vectors[past.n], []
        for block, heads, (keys, values) in zip(self.model.stack.blocks, self.heads, past.layers, strict=True):
            with_one = torch.cat([block.norm_1(x), x.new_ones(len(x), 1)], -1)
            output, *cache = self.cached_step(with_one, keys, values, *_weights_with_biases(heads))
            x = x + output + heads.W_o.bias
            x = x + block.feed_forward(block.norm_2(x))
            layers.append(tuple(cache))
        return self.model.stack.closing(x) @ self.model.tokens.weight.mT, Past(tuple(layers), past.n + 1)


def one_by_one(x: Tensor, W: list[Tensor], n_heads: int, step: CachedStepFunction) -> Tensor:
    """Run a cached step over a text x (B, T, d_model) from an empty cache; W = [W_q, W_k, W_v, W_o]; return (B, T, d_model)."""
    keys = values = x.new_zeros(len(x), n_heads, 0, W[0].shape[0] // n_heads)
    outputs = []
    for x_t in x.unbind(1):
        output, keys, values = step(x_t, keys, values, *W)
        outputs.append(output)
    return torch.stack(outputs, 1)


def recomputed(x: Tensor, W: list[Tensor], n_heads: int) -> Tensor:
    """For each token of x (B, T, d_model), attend over the whole text so far, as generation without a cache does."""
    rows = (multi_head_attention(*[x[:, :t]] * 3, *W, n_heads, causal_mask(t)).context[:, -1] for t in range(1, x.shape[1] + 1))
    return torch.stack(list(rows), 1)


class CacheComparison(NamedTuple):
    """For each length: multiply-adds recomputed over cached; and the largest absolute difference of the outputs."""

    saved: list[float]
    difference: float


def compare_with_recomputed(step: CachedStepFunction, lengths: Sequence[int], seed: int) -> CacheComparison:
    """Compare a cached step, token by token, with `recomputed` in one layer of width 32 with 4 heads, on random texts."""
    generator, n_heads = torch.Generator().manual_seed(seed), 4
    W = [torch.randn(32, 32, generator=generator) / 32**0.5 for _ in range(4)]
    texts = [torch.randn(1, n, 32, generator=generator) for n in lengths]
    cached = partial(one_by_one, step=step)
    saved = [multiply_adds(recomputed, x, W, n_heads) / multiply_adds(cached, x, W, n_heads) for x in texts]
    return CacheComparison(saved, max((cached(x, W, n_heads) - recomputed(x, W, n_heads)).abs().max().item() for x in texts))


def _weights_with_biases(heads: MultiHead) -> list[Tensor]:
    """Return W_q, W_k, W_v with their biases as a last column, for inputs that end with a 1, and W_o."""
    projections = (heads.W_q, heads.W_k, heads.W_v)
    return [*(torch.cat([linear.weight, linear.bias[:, None]], 1) for linear in projections), heads.W_o.weight]
