"""A language whose law is known, and drafts that are certain, nearly know it, or know nothing: to test what writes texts.

There are six tokens, and the next one depends on the last alone. After token i, token j has the logit

    z_ij = 2 cos(2π (j - i - 1) / 6)        for the model, and        z_ij + 0.8 sin(i + 3 j)        for the draft.

So a text of the right law consists of independent draws, and the pairs of a long one can be counted and compared with
softmax(z) by a χ² test. A call of the model also multiplies two matrices, as a model does, so that a counter of operations
sees how often it was called.
"""

import math
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Tokens

__all__ = [
    "OPERATIONS_OF_A_CALL",
    "certain_draft",
    "known_draft",
    "known_law",
    "known_model",
    "mistaken_draft",
    "uniform_draft",
]

N_TOKENS, WIDTH = 6, 64
OPERATIONS_OF_A_CALL = WIDTH**3
"""Multiply-adds of the product of matrices in each call of `known_model`; everything else takes much less."""


def known_law(device: torch.device | str | None = None) -> Float[Tensor, "6 6"]:
    """Return the law of the model.

    Args:
        device: of the result.

    Returns:
        (6, 6), the probability of each token, in columns, after each token, in rows.
    """
    return _logits(device).softmax(-1)


def known_model(tokens: Tokens) -> Float[Tensor, "B T 6"]:
    """Compute the next-token logits of tokens.

    Args:
        tokens: (B, T), 0 to 5.

    Returns:
        (B, T, 6): logits[:, t] given tokens[:, : t + 1].
    """
    work = torch.ones(WIDTH, WIDTH, device=tokens.device)
    return _logits(tokens.device)[tokens] + 0 * (work @ work)[0, 0]


def known_draft(tokens: Tokens) -> Float[Tensor, "6"]:
    """Compute what a draft expects after a text.

    Args:
        tokens: (1, T), T ≥ 1.

    Returns:
        probabilities (6,) of the next token, near those of the model.
    """
    return _laws_of_the_draft(tokens.device)[tokens[0, -1]]


def certain_draft(tokens: Tokens) -> Float[Tensor, "6"]:
    """Expect the model's most likely token, and no other: under `greedy_probabilities`, all that it proposes is accepted.

    Args:
        tokens: (1, T), T ≥ 1.

    Returns:
        probabilities (6,) of the next token: one is 1.
    """
    return _certain((tokens[0, -1] + 1) % N_TOKENS)


def mistaken_draft(tokens: Tokens) -> Float[Tensor, "6"]:
    """Expect what `certain_draft` does, but after token 2 an unlikely one, which `greedy_probabilities` refuse.

    Args:
        tokens: (1, T), T ≥ 1.

    Returns:
        probabilities (6,) of the next token: one is 1.
    """
    last = tokens[0, -1]
    return _certain(torch.where(last == 2, 5, (last + 1) % N_TOKENS))


def uniform_draft(tokens: Tokens) -> Float[Tensor, "6"]:
    """Guess: a draft to which all tokens are alike.

    Args:
        tokens: (1, T).

    Returns:
        probabilities (6,) of the next token, all equal.
    """
    return torch.full((N_TOKENS,), 1 / N_TOKENS, device=tokens.device)


@cache
def _logits(device: torch.device | str | None) -> Tensor:
    j = torch.arange(N_TOKENS, device=device)
    return 2 * torch.cos(2 * math.pi * (j - j[:, None] - 1) / N_TOKENS)


@cache
def _laws_of_the_draft(device: torch.device) -> Tensor:
    j = torch.arange(N_TOKENS, device=device)
    return (_logits(device) + 0.8 * torch.sin(j[:, None] + 3 * j)).softmax(-1)


def _certain(token: Tensor) -> Float[Tensor, "6"]:
    return torch.nn.functional.one_hot(token, N_TOKENS).float()
