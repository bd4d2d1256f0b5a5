"""Sample the next token from logits: temperature, top-k and top-p (nucleus) sampling.

Temperature τ, and the k most likely words as in Fan, Lewis, Dauphin 2018, section 5 (https://arxiv.org/abs/1805.04833):

    p_i = exp(z_i / τ) / Σ_j exp(z_j / τ)        over the remaining tokens

Nucleus of Holtzman et al. 2020, section 3.1 (https://arxiv.org/abs/1904.09751): the smallest set of most likely tokens whose
probabilities sum to p or more.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from course_lib.primitives.preconditions import requires, values_are_known
from course_lib.shapes import Logits

__all__ = ["greedy_probabilities", "next_word_probabilities", "sample", "top_k", "top_p"]


def _require_k(logits: Logits, k: int) -> None:
    if k < 1:
        raise ValueError(f"k = {k} leaves no token to choose from: give k ≥ 1, or None to keep all.")


def _require_p(logits: Logits, p: float) -> None:
    if not 0 < p <= 1:
        raise ValueError(f"the nucleus has a probability 0 < p ≤ 1, got p = {p}: give such a p, or None to keep all tokens.")


@requires(_require_k)
def top_k(logits: Logits, k: int) -> Logits:
    """Keep the k largest logits, and set the others to -inf.

    Args:
        logits: (*batch, n_classes).
        k: number of logits to keep, k ≥ 1; all if there are fewer.

    Returns:
        (*batch, n_classes); exactly k logits are kept; ties are broken arbitrarily.

    Source: Fan et al. 2018, section 5.
    """
    kept = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -torch.inf).scatter(-1, kept.indices, kept.values)


@requires(_require_p)
def top_p(logits: Logits, p: float) -> Logits:
    """Keep the nucleus, the smallest set of the most likely tokens whose probabilities sum to p or more; others get -inf.

    Args:
        logits: (*batch, n_classes).
        p: 0 < p ≤ 1; the most likely token is kept however small p is.

    Returns:
        (*batch, n_classes).

    Source: Holtzman et al. 2020, section 3.1.
    """
    ordered, order = logits.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = ordered.masked_fill(before >= p, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(-1, order, kept)


def next_word_probabilities(logits: Logits, temperature: float = 1.0, k: int | None = None, p: float | None = None) -> Logits:
    """Compute the probabilities of the next token, after temperature, top-k and top-p.

    Args:
        logits: (*batch, n_classes).
        temperature: τ > 0; below 1 likely tokens gain probability, above 1 unlikely ones.
        k: keep the k most likely tokens; None keeps all.
        p: keep the nucleus of these; None keeps all.

    Returns:
        (*batch, n_classes), each row ≥ 0 with sum 1.

    Raises:
        ValueError: temperature ≤ 0, k < 1, or p is not in 0…1. The limit of temperature 0 is `logits.argmax(-1)`.

    Source: Holtzman et al. 2020, section 3.
    """
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, got {temperature}; the limit 0 is `logits.argmax(-1)`.")
    logits = logits / temperature
    logits = logits if k is None else top_k(logits, k)
    logits = logits if p is None else top_p(logits, p)
    return logits.softmax(-1)


def greedy_probabilities(logits: Logits) -> Logits:
    """Give probability 1 to the most likely token: the limit of `next_word_probabilities` for a temperature towards 0.

    Args:
        logits: (*batch, n_classes).

    Returns:
        (*batch, n_classes), a one-hot row each; of tied tokens, the first in order of `argmax`.
    """
    return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)


def sample(
    logits: Logits,
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "*batch"]:
    """Sample the next token.

    Args:
        logits: (*batch, n_classes).
        temperature: τ > 0.
        k: sample from the k most likely tokens; None samples from all.
        p: sample from the nucleus of these; None samples from all.
        generator: source of randomness; torch's default if None.

    Returns:
        (*batch) indices of tokens.

    Raises:
        ValueError: temperature ≤ 0, k < 1, or p is not in 0…1; on a CPU, the logits leave no distribution. On a GPU, where a
            check would wait for it, torch's own assertion fails.
    """
    probabilities = next_word_probabilities(logits, temperature, k, p)
    require_distribution(probabilities)
    drawn = torch.multinomial(probabilities.reshape(-1, logits.shape[-1]), 1, generator=generator)
    return drawn.view(logits.shape[:-1])


def require_distribution(scores: Logits) -> None:
    """Raise a ValueError for scores that are not finite, unless a GPU would have to be waited for."""
    if scores.device.type == "cpu" and values_are_known(scores) and not scores.isfinite().all():
        raise ValueError("the logits define no distribution: they contain NaN or +inf, or a row is -inf throughout.")
