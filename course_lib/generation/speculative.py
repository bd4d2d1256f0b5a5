"""Speculative decoding: a cheap draft proposes tokens, one call of the model judges them, and the text has the model's law.

Leviathan, Kalman, Matias 2023, *Fast Inference from Transformers via Speculative Decoding*, algorithm 1
(https://arxiv.org/abs/2211.17192). A token x was drawn from the draft's probabilities q; those of the model are p:

    accept x if u < p(x) / q(x), u uniform in 0…1        else draw from (p - q)₊ / Σ (p - q)₊

What comes out has the law p whatever q is: x is proposed and accepted with probability min(p, q), and the rest, p - min(p, q) =
(p - q)₊, is drawn when a token is refused. A token is accepted with probability Σ min(p, q) = 1 - TV(p, q): a good draft saves
calls, and a bad one costs only time. Temperature, top-k and top-p belong into p, and may belong into q.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.generation.sampling import next_word_probabilities
from course_lib.primitives.preconditions import requires, values_are_known
from course_lib.shapes import Logits, Tokens

__all__ = ["Accepted", "accept", "speculative"]

Law = Float[Tensor, "n_tokens"]


class Accepted(NamedTuple):
    """How many drafted tokens are accepted, `n` (*batch,), and the model's own `token` (*batch,) that follows them."""

    n: Int[Tensor, "*batch"]
    token: Int[Tensor, "*batch"]


class Speculated(NamedTuple):
    """A text `tokens` (1, T), the prompt included, and the number of `calls` of the model that wrote it."""

    tokens: Tokens
    calls: int


def _require_drawn(tokens: Tensor, draft_p: Tensor, model_p: Tensor, uniforms: Tensor) -> None:
    """Raise a ValueError for a token that the draft cannot have drawn, or for one position too few."""
    if model_p.shape[-2] != tokens.shape[-1] + 1 or uniforms.shape[-1] != tokens.shape[-1] + 1:
        raise ValueError(
            f"{tokens.shape[-1]} drafted tokens need the model's probabilities, and a uniform number, at one position more: "
            f"got {model_p.shape[-2]} and {uniforms.shape[-1]}."
        )
    if values_are_known(tokens, draft_p) and not (draft_p.gather(-1, tokens[..., None]) > 0).all():
        raise ValueError("a drafted token has probability 0 under draft_p: pass the probabilities that it was drawn from.")


@requires(_require_drawn)
def accept(
    tokens: Int[Tensor, "*batch n"],
    draft_p: Float[Tensor, "*batch n n_tokens"],
    model_p: Float[Tensor, "*batch n+1 n_tokens"],
    uniforms: Float[Tensor, "*batch n+1"],
) -> Accepted:
    """Accept drafted tokens up to the first that is refused, and draw the one that follows.

    Args:
        tokens: the draft's tokens (*batch, n), each drawn from its row of draft_p.
        draft_p: the draft's probabilities q (*batch, n, n_tokens).
        model_p: the model's probabilities p (*batch, n + 1, n_tokens) at the same positions, and after the last token.
        uniforms: independent numbers, 0 ≤ u < 1, (*batch, n + 1): one for each token, and one to draw what follows.

    Returns:
        `Accepted`: the number of accepted tokens, and the token after them: from (p - q)₊ where a token was refused, and from p
        where all were accepted.

    Raises:
        ValueError: a token has probability 0 in draft_p, or model_p or uniforms have not n + 1 positions.

    Source: Leviathan et al. 2023, algorithm 1.
    """
    n_drafts = tokens.shape[-1]
    p, q = (x.gather(-1, tokens[..., None]).squeeze(-1) for x in (model_p[..., :n_drafts, :], draft_p))
    n = (uniforms[..., :n_drafts] * q < p).cumprod(-1).sum(-1)
    rest = (model_p - torch.nn.functional.pad(draft_p, (0, 0, 0, 1))).clamp(min=0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, model_p)  # p = q up to rounding: nothing is refused
    rest = rest.gather(-2, n[..., None, None].expand(*n.shape, 1, rest.shape[-1])).squeeze(-2)
    steps = rest.cumsum(-1)
    above_zero = (1 - uniforms[..., -1:]) * steps[..., -1:]  # a token of probability 0 is never the first to reach it
    return Accepted(n, torch.searchsorted(steps, above_zero).squeeze(-1))


def _require_drafts(
    model: object, draft: object, prompt: Tokens, n_tokens: int, n_drafts: int = 4, *_: object, **__: object
) -> None:
    if prompt.shape[0] != 1:
        raise ValueError(f"one text at a time: after each call, texts differ in length; got {prompt.shape[0]} prompts.")
    if n_drafts < 0 or n_tokens < 0:
        raise ValueError(f"n_tokens and n_drafts cannot be negative, got {n_tokens} and {n_drafts}.")


@torch.no_grad()
@requires(_require_drafts)
def speculative(
    model: Callable[[Tokens], Logits],
    draft: Callable[[Tokens], Law],
    prompt: Tokens,
    n_tokens: int,
    n_drafts: int = 4,
    probabilities: Callable[[Logits], Logits] = next_word_probabilities,
    generator: torch.Generator | None = None,
) -> Speculated:
    """Continue a prompt by a text with the model's law, in fewer calls of the model than tokens.

    Args:
        model: tokens (1, T) -> next-token logits (1, T, n_tokens), such as a `GPT` in evaluation mode.
        draft: tokens (1, T) -> probabilities of the next one (n_tokens,): a small model, a table of counts, a copy of the text.
        prompt: (1, T), T ≥ 1.
        n_tokens: number of tokens to write.
        n_drafts: tokens that the draft proposes before each call; 0 is ordinary sampling.
        probabilities: of the model's logits; temperature, top-k or top-p belong here, as in
            `partial(next_word_probabilities, temperature=0.7)`.
        generator: source of randomness; torch's default if None.

    Returns:
        `Speculated`.

    Raises:
        ValueError: there is not one prompt, or a number is negative; a probability of the draft is 0 for its own token.

    Source: Leviathan et al. 2023, section 2.
    """
    text, end, calls = prompt, prompt.shape[-1] + n_tokens, 0
    while text.shape[-1] < end:
        drafted, laws = text, []
        for _ in range(min(n_drafts, end - text.shape[-1] - 1)):
            laws.append(draft(drafted))
            token = torch.multinomial(laws[-1], 1, generator=generator)
            drafted = torch.cat([drafted, token[None]], dim=-1)
        model_p = probabilities(model(drafted)[0, text.shape[-1] - 1 :])
        uniforms = torch.rand(len(model_p), generator=generator, device=model_p.device, dtype=model_p.dtype)
        draft_p = torch.stack([law.to(model_p) for law in laws]) if laws else model_p[:0]
        n, token = accept(drafted[0, text.shape[-1] :], draft_p, model_p, uniforms)
        text = torch.cat([drafted[:, : text.shape[-1] + int(n)], token.view(1, 1)], dim=-1)
        calls += 1
    return Speculated(text, calls)
