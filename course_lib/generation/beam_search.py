"""Beam search over any step-by-step model, with a length penalty.

Sutskever, Vinyals, Le 2014, section 3.2 (https://arxiv.org/abs/1409.3215); the length penalty is that of Wu et al. 2016, eq. 14
(https://arxiv.org/abs/1609.08144):

    ŷ = argmax_y log p(y | x) / ((5 + |y|) / 6)^α

`decoding` describes steps and states.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.generation.decoding import DecodingState, NextTokens, StepFunction
from course_lib.generation.sampling import require_distribution

__all__ = ["Extension", "beam_search", "extend_beam", "rows_of"]


class Beam(NamedTuple):
    """The result of a beam search: `tokens` (B, width, T), best first, padding after an end; `scores` (B, width).

    A score is log p / penalty, -inf if there are fewer sequences than the width of the beam.
    """

    tokens: Int[Tensor, "B width T"]
    scores: Float[Tensor, "B width"]


class Extension(NamedTuple):
    """The beam one token longer, best first, each (B, width): ranking `scores`, log p, index of the `parent`, new `word`."""

    scores: Float[Tensor, "B width"]
    log_p: Float[Tensor, "B width"]
    parent: Int[Tensor, "B width"]
    word: Int[Tensor, "B width"]


def extend_beam(
    log_p: Float[Tensor, "B width"],
    logits: Float[Tensor, "B width n_tokens"],
    going: Bool[Tensor, "B width"],
    length: Float[Tensor, "B width"],
    padding: int,
    penalty: float = 0.0,
) -> Extension:
    """Extend every prefix of a sequence by every token, and keep the best `width` of all.

    Args:
        log_p: (B, width), log p of each prefix; -inf if there is none.
        logits: (B, width, n_tokens), next-token logits of each prefix.
        going: (B, width), False for a sequence that has ended: it continues with padding alone, at no cost.
        length: (B, width), number of tokens of each prefix, including the new one if it continues.
        padding: the token after an end.
        penalty: α; the ranking is by log p / ((5 + length) / 6)^α.

    Returns:
        scores, log p, parent (index in the beam of the prefix that each continues) and word; each (B, width), best first.

    Source: Wu et al. 2016, eq. 14.
    """
    n_tokens = logits.shape[-1]
    stays = torch.full_like(logits, -torch.inf)
    stays[..., padding] = 0.0
    total = log_p[..., None] + torch.where(going[..., None], logits.log_softmax(-1), stays)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return Extension(scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens)


@torch.no_grad()
def beam_search(
    step: StepFunction[DecodingState],
    state: DecodingState,
    first: NextTokens,
    end: int,
    padding: int,
    max_length: int,
    width: int,
    penalty: float = 0.0,
    extend: Callable[..., Extension] = extend_beam,
) -> Beam:
    """Beam search: keep the `width` best prefixes of each sequence at each step; ended ones remain in the ranking unchanged.

    Args:
        step: reads one token of each sequence.
        state: the initial state, N = B rows; steps receive B · width rows, those of one sequence together.
        first: (B,), the tokens to read first; they are not returned.
        end: the token that ends a sequence.
        padding: the token after an end.
        max_length: largest number of tokens, including the end, ≥ 1.
        width: number of prefixes to keep; 1 is greedy decoding.
        penalty: α ≥ 0; 0 compares unpenalised log p, which favours short sequences.
        extend: extends the beam by one token, with the arguments and the result of `extend_beam`.

    Returns:
        tokens (B, width, T ≤ max_length) and scores (B, width), best first.

    Raises:
        ValueError: max_length or width < 1, padding is not a token, or, on a CPU, logits leave no distribution.

    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, eq. 14.
    """
    if max_length < 1 or width < 1:
        raise ValueError(f"need max_length ≥ 1 and width ≥ 1, got {max_length} and {width}.")
    start = torch.arange(len(first), device=first.device)[:, None] * width
    state = rows_of(state, torch.arange(len(first), device=first.device).repeat_interleave(width))
    tokens = first[:, None, None].repeat(1, width, 1)
    log_p = torch.full((len(first), width), -torch.inf, device=first.device)
    log_p[:, 0] = 0.0
    going, length = torch.ones_like(log_p, dtype=torch.bool), torch.zeros_like(log_p)
    for _ in range(max_length):
        logits, state = step(tokens[..., -1].flatten(), state)
        if not 0 <= padding < logits.shape[-1]:
            raise ValueError(f"padding follows an end, so it is a token, 0 to {logits.shape[-1] - 1}, got {padding}.")
        length = length + going
        each = logits.unflatten(0, log_p.shape)
        scores, log_p, parent, word = extend(log_p, each, going, length, padding, penalty)
        require_distribution(scores.masked_fill(scores == -torch.inf, 0.0))
        tokens = torch.cat([tokens.take_along_dim(parent[..., None], 1), word[..., None]], dim=-1)
        length, going = length.gather(1, parent), going.gather(1, parent) & (word != end)
        state = rows_of(state, (start + parent).flatten())
        if not going.any():
            break
    return Beam(tokens[..., 1:], scores)


def rows_of(state: DecodingState, rows: NextTokens) -> DecodingState:
    """Select rows (N,) of every tensor in a state; tuples and lists are searched, other objects are unchanged."""
    if isinstance(state, Tensor):
        return cast(DecodingState, state[rows])
    if isinstance(state, tuple | list):
        parts = [rows_of(part, rows) for part in state]
        return cast(DecodingState, type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts))
    return state
