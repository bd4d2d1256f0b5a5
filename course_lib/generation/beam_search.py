"""Find a sentence by a model that only says what may come next: greedily, or keeping the best few on a beam.

Sutskever, Vinyals, Le 2014, section 3.2 (https://arxiv.org/abs/1409.3215); the length penalty is that of Wu et al. 2016, eq. 14
(https://arxiv.org/abs/1609.08144):

    ŷ = argmax_y log p(y | x) / ((5 + |y|) / 6)^α

The model comes as a step, `step(words (N,), state) -> (logits (N, n_tokens), state)`: it reads one more word of each of N
sentences. The state is whatever the model needs to go on, a tensor or tuples of tensors with one row for each sentence: a
recurrent state, keys and values of the past, or the words themselves.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.shapes import Tokens

DecodingState = TypeVar("State")
NextTokens = Int[Tensor, "N"]
StepFunction = Callable[[NextTokens, DecodingState], tuple[Float[Tensor, "N n_tokens"], DecodingState]]
"""Reads one word of each sentence, and says how likely each word is to come next."""


class Beam(NamedTuple):
    """What a beam search kept: `tokens` (B, width, T), best first, padding behind an end; `scores` (B, width).

    A score is log p / penalty, -inf where there are fewer sentences than the beam has room for.
    """

    tokens: Int[Tensor, "B width T"]
    scores: Float[Tensor, "B width"]


class Extension(NamedTuple):
    """The beam one word longer, best first, each (B, width): `scores` that ranked it, log p, `parent` beginning, new `word`."""

    scores: Float[Tensor, "B width"]
    log_p: Float[Tensor, "B width"]
    parent: Int[Tensor, "B width"]
    word: Int[Tensor, "B width"]


@torch.no_grad()
def greedy(step: StepFunction, state: DecodingState, first: NextTokens, end: int, padding: int, max_length: int) -> Tokens:
    """Say the likeliest word at each step until every sentence has ended, or max_length words were said.

    Args:
        step: reads one word of each sentence.
        state: where it starts; N = B rows.
        first: (B,) the words that begin the sentences; they are read and not returned.
        end: the word that ends a sentence.
        padding: what stands behind an end.
        max_length: words at most, the end counted, ≥ 1.

    Returns:
        (B, T ≤ max_length).

    Raises:
        ValueError: max_length < 1.

    Source: Sutskever et al. 2014, section 3.2.
    """
    if max_length < 1:
        raise ValueError(f"at least one word must be allowed, got max_length={max_length}.")
    words, said = first, []
    going = torch.ones_like(first, dtype=torch.bool)
    while len(said) < max_length and going.any():
        logits, state = step(words, state)
        words = logits.argmax(-1).masked_fill(~going, padding)
        said.append(words)
        going = going & (words != end)
    return torch.stack(said, dim=1)


@torch.no_grad()
def beam_search(
    step: StepFunction,
    state: DecodingState,
    first: NextTokens,
    end: int,
    padding: int,
    max_length: int,
    width: int,
    penalty: float = 0.0,
) -> Beam:
    """Keep at each step the `width` best beginnings of each sentence; those that have ended stay and compete as they are.

    Args:
        step: reads one word of each sentence.
        state: where it starts; N = B rows. It is handed back with B · width rows, those of one sentence together.
        first: (B,) the words that begin the sentences; they are read and not returned.
        end: the word that ends a sentence.
        padding: what stands behind an end.
        max_length: words at most, the end counted, ≥ 1.
        width: beginnings that are kept; 1 is greedy.
        penalty: α ≥ 0; 0 compares log p as it is, which favours short sentences.

    Returns:
        tokens (B, width, T ≤ max_length) and scores (B, width), best first.

    Raises:
        ValueError: max_length or width < 1.

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
        length = length + going
        scores, log_p, parent, word = extend_beam(log_p, logits.unflatten(0, log_p.shape), going, length, padding, penalty)
        tokens = torch.cat([tokens.take_along_dim(parent[..., None], 1), word[..., None]], dim=-1)
        length, going = length.gather(1, parent), going.gather(1, parent) & (word != end)
        state = rows_of(state, (start + parent).flatten())
        if not going.any():
            break
    return Beam(tokens[..., 1:], scores)


def extend_beam(
    log_p: Float[Tensor, "B width"],
    logits: Float[Tensor, "B width n_tokens"],
    going: Bool[Tensor, "B width"],
    length: Float[Tensor, "B width"],
    padding: int,
    penalty: float = 0.0,
) -> Extension:
    """Put every word behind every beginning of a sentence, and keep the best `width` of all.

    Args:
        log_p: (B, width), log p of each beginning; -inf where there is none.
        logits: (B, width, n_tokens), for the word behind each.
        going: (B, width), False for a sentence that has ended: it goes on with padding alone, at no cost.
        length: (B, width), words of each beginning, the new one counted where it goes on.
        padding: the word behind an end.
        penalty: α; what ranks is log p / ((5 + length) / 6)^α.

    Returns:
        scores, log p, parent (index into the beam of the beginning that each continues) and word; each (B, width), best first.

    Source: Wu et al. 2016, eq. 14.
    """
    n_tokens = logits.shape[-1]
    stays = torch.full_like(logits, -torch.inf)
    stays[..., padding] = 0.0
    total = log_p[..., None] + torch.where(going[..., None], logits.log_softmax(-1), stays)
    scores, best = (total / ((5 + length[..., None]) / 6) ** penalty).flatten(1).topk(log_p.shape[1])
    return Extension(scores, total.flatten(1).gather(1, best), best // n_tokens, best % n_tokens)


def rows_of(state: DecodingState, rows: NextTokens) -> DecodingState:
    """Take these rows (N,) of every tensor in a state of tensors, tuples and whatever else, which stays as it is."""
    if isinstance(state, Tensor):
        return state[rows]
    if isinstance(state, tuple):
        parts = [rows_of(part, rows) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state
