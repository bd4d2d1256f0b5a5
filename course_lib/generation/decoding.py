"""Step-by-step decoding: sampling from a prompt, greedy decoding, translation with attention weights.

Every generating model has one interface:

    state = model.start(…)                        the input: a prompt, a source sentence, an image
    logits, state = model.step(tokens, state)     reads one more token (N,) of each sequence; next-token logits (N, n_tokens)

States are values: `step` does not change its argument, so stepping twice from one state gives the same result twice. A state
is a tensor or a tuple with one row for each sequence: a key-value cache (`GPT` and `Transformer` by default, `Llama` and
`CachedGPT`),
the last inputs of each layer (`TransformerXL`), S and z (`LinearTransformer`), or the hidden state of a recurrent network
(`Seq2Seq`, captioners).

Greedy decoding as in Sutskever, Vinyals, Le 2014, section 3.2 (https://arxiv.org/abs/1409.3215).
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.generation.sampling import require_distribution
from course_lib.models import Seq2Seq, Seq2SeqState
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Lengths, Tokens, Weights

__all__ = ["LanguageModel", "decode", "generate", "greedy", "greedy_translation"]

DecodingState = TypeVar("DecodingState")
NextTokens = Int[Tensor, "N"]
NextLogits = Float[Tensor, "N n_tokens"]

StepFunction = Callable[[NextTokens, DecodingState], tuple[NextLogits, DecodingState]]
"""Reads one token of each sequence; returns the logits of the next token and the new state."""

Choose = Callable[[NextLogits], NextTokens]
"""Chooses the next token of each sequence from its logits, such as `sample`."""


@runtime_checkable
class LanguageModel(Protocol):
    """A model that continues prompts: `GPT`, `CachedGPT`, `Llama`, `TransformerXL`, `LinearTransformer`."""

    @property
    def start(self) -> Callable[..., Any]:
        """Read prompts (B, T), T ≥ 0, and their lengths (B,) if the model takes them; return a state."""

    @property
    def step(self) -> StepFunction[Any]:
        """Read one more token of each sequence."""


@torch.no_grad()
def decode(
    step: StepFunction[DecodingState],
    state: DecodingState,
    first: NextTokens,
    choose: Choose,
    max_length: int,
    end: int | None = None,
    padding: int = 0,
) -> Tokens:
    """Generate tokens until every sequence has ended, or has max_length tokens.

    Args:
        step: reads one token of each sequence.
        state: to start from, N = B rows.
        first: (B,), the tokens to read first; they are not returned.
        choose: the next token of each sequence (B,) from its logits (B, n_tokens), such as `sample`.
        max_length: number of tokens at most, the end included.
        end: the token that ends a sequence; None = each has max_length tokens.
        padding: what follows an end.

    Returns:
        (B, T ≤ max_length).

    Raises:
        ValueError: choose does not return one token of each sequence.
    """
    tokens, T = first, 0
    generated = first.new_empty(len(first), max_length)
    active = torch.ones_like(first, dtype=torch.bool)
    while max_length > T and (end is None or active.any()):
        logits, state = step(tokens, state)
        tokens = choose(logits)
        if tokens.shape != first.shape:  # one for the whole batch would broadcast
            N = len(first)
            raise ValueError(f"choose returns one token of each of {N} sequences, ({N},), got {tuple(tokens.shape)}.")
        if end is not None:
            tokens = tokens.masked_fill(~active, padding)
            active = active & (tokens != end)
        generated[:, T] = tokens
        T += 1
    return generated[:, :T]


def greedy(
    step: StepFunction[DecodingState], state: DecodingState, first: NextTokens, end: int, padding: int, max_length: int
) -> Tokens:
    """Greedy decoding: choose the most likely token at each step.

    Args:
        step: reads one token of each sequence.
        state: to start from, N = B rows.
        first: (B,), the tokens to read first; they are not returned.
        end: the token that ends a sequence.
        padding: what follows an end.
        max_length: number of tokens at most, the end included, ≥ 1.

    Returns:
        (B, T ≤ max_length).

    Raises:
        ValueError: max_length < 1; on a CPU, logits that leave no distribution.

    Source: Sutskever et al. 2014, section 3.2.
    """
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}.")
    return decode(step, state, first, _most_likely, max_length, end, padding)


def _most_likely(logits: NextLogits) -> NextTokens:
    highest = logits.max(-1)
    require_distribution(highest.values)
    return highest.indices


@torch.no_grad()
@shape_checked("One prompt alone is `prompt[None]`.")
def generate(
    model: LanguageModel,
    prompt: Tokens,
    n: int,
    choose: Choose,
    lengths: Lengths | None = None,
    end: int | None = None,
    padding: int = 0,
) -> Int[Tensor, "B T_new"]:
    """Continue each prompt by n tokens, or up to its end.

    Args:
        model: `GPT` or `Llama`; `CachedGPT`, which computes what `GPT` computes in fewer operations; `TransformerXL`, whose
            layers attend to the last n_memory + 1 positions; or `LinearTransformer`, whose steps all cost the same. Call
            `model.eval()` before if it has dropout: in training mode `TransformerXL` drops features at each step, the others
            do not.
        prompt: (B, T) tokens, T ≥ 1; a shorter one is followed by padding of any value.
        n: number of tokens to generate, ≥ 0.
        choose: the next token of each sequence (B,) from its logits (B, n_tokens), such as `sample`.
        lengths: (B,), number of tokens of each prompt, 1 to T, for `GPT`, `CachedGPT`, `Llama`, or another model whose
            `start` takes lengths; None = all have T.
        end: the token that ends a text; None = each goes on for n tokens.
        padding: what follows an end.

    Returns:
        (B, n), the tokens that follow each prompt; fewer than n columns if all have ended before.

    Raises:
        ValueError: a prompt is empty, the lengths do not fit, there are more tokens than the model has positions, or choose
            does not return one token of each sequence.
        TypeError: prompts or lengths are not tensors of integers, or there are lengths, and the model takes none.
    """
    B, T = prompt.shape
    if B == 0 or T == 0 or n < 0:
        raise ValueError(f"need one or more prompts of at least one token, and n ≥ 0; got {B} of {T} tokens and n = {n}.")
    if lengths is None:
        return decode(model.step, model.start(prompt[:, :-1]), prompt[:, -1], choose, n, end, padding)
    if "lengths" not in signature(model.start).parameters:
        raise TypeError(
            f"{type(model).__name__} reads prompts of one length: pass those of each length by themselves, without `lengths`."
        )
    if int(lengths.min()) < 1 or int(lengths.max()) > T:
        raise ValueError(f"lengths must be {B} numbers from 1 to {T}, one for each prompt; got {lengths.tolist()}.")
    last = prompt[torch.arange(B, device=prompt.device), lengths - 1]
    return decode(model.step, model.start(prompt[:, :-1], lengths - 1), last, choose, n, end, padding)


class Generated(NamedTuple):
    """Generated sequences: `tokens` (B, T), padded after the end; attention `weights` (B, T, T_k), None without attention."""

    tokens: Tokens
    weights: Weights | None


@torch.no_grad()
def greedy_translation(model: Seq2Seq, source: Int[Tensor, "B T_k"], lengths: Lengths, max_length: int) -> Generated:
    """Translate sentences greedily, and return the attention weights of each generated token.

    Args:
        model: encoder and decoder, with or without attention.
        source: (B, T_k) tokens, padded.
        lengths: (B,), number of tokens of each source.
        max_length: number of tokens at most, the end included, ≥ 1.

    Returns:
        tokens (B, T ≤ max_length) without the begin token; padding follows an end, with weights of 0.

    Raises:
        ValueError: there is no sentence, or max_length < 1.
    """
    if len(source) == 0:
        raise ValueError("need one or more sentences to translate, got none.")
    rows: list[Weights] = []

    def step(tokens: NextTokens, state: Seq2SeqState) -> tuple[NextLogits, Seq2SeqState]:
        logits, attended, hidden = model.decoder(state.encoded, tokens[:, None], state.hidden)
        if attended is not None and attended.weights is not None:
            rows.append(attended.weights)
        return logits[:, 0], Seq2SeqState(state.encoded, hidden)

    begin = torch.full((len(source),), model.begin, device=source.device)
    tokens = greedy(step, model.start(source, lengths), begin, model.end, model.padding, max_length)
    ends = tokens == model.end
    after_end = ends.cumsum(1) > ends.long()
    return Generated(tokens, torch.cat(rows, dim=1).masked_fill(after_end[..., None], 0.0) if rows else None)
