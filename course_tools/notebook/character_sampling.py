"""Sampling from a character-level model: words of samples, sizes of a nucleus, next-character odds; for lecture 07."""

from collections.abc import Callable
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets import Vocabulary
from course_lib.models import GPT
from course_tools.notebook.character_model import continuations
from course_tools.notebook.device import device
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

TopK = Callable[[Tensor, int], Tensor]
TopP = Callable[[Tensor, float], Tensor]


class WordFractions(NamedTuple):
    """Of the generated words: the fraction that occur in a text, and the number of different words over that of all."""

    real: float
    different: float


def word_fractions(
    model: GPT, prompts: Tensor, n: int, adjust: Callable[[Tensor], Tensor], characters: Vocabulary, text: str, seed: int
) -> WordFractions:
    """Continue prompts (B, T) by n characters, sampled from the softmax of `adjust(logits)`, and compare the words with a text.

    A word has letters only; the first and the last of each continuation are left out, since they may be incomplete.
    """
    words = {word for word in text.split() if word.isalpha()}
    lines = continuations(model, prompts, n, adjust, characters, seed)
    generated = [word for line in lines for word in line.split()[1:-1] if word.isalpha()]
    return WordFractions(mean(word in words for word in generated), len(set(generated)) / len(generated))


@torch.no_grad()
def nucleus_sizes(model: GPT, tokens: Tensor, T: int, top_p: TopP, p: float) -> Tensor:
    """Count the characters that the nucleus keeps after half a window of context, sorted: (n_positions,).

    Args:
        model: of windows of T tokens.
        tokens: a text (n,), of which the first 200 windows are used.
        T: length of a window.
        top_p: such as that of `course_lib.generation`.
        p: smallest probability of the nucleus.
    """
    logits = model(tokens.unfold(0, T, T // 2)[:200].to(device()))[:, T // 2 : -1].cpu()
    return (top_p(logits, p) > -torch.inf).sum(-1).flatten().sort().values


def show_nucleus_sizes(kept: Tensor, p: float, k: int) -> None:
    """Draw sorted sizes of a nucleus (n,) against their quantile, with the constant k of top-k."""
    quantiles = torch.linspace(0, 1, 101)
    drawn = {f"nucleus of {p:g}": (quantiles, kept[(quantiles * (len(kept) - 1)).long()])}
    show(
        curves(drawn, "quantile of the positions in new text", "characters that are kept", across={f"top-k, k = {k}": k}),
        alt=f"Characters kept by the nucleus of {p:g} at {len(kept):,} positions of new text: at most {kept[len(kept) // 10]} "
        f"at a tenth of them, {kept[len(kept) // 2]} at the median, at least {kept[len(kept) * 9 // 10]} at another tenth.",
    )


def next_character_figure(
    model: GPT, characters: Vocabulary, words: str, top_k: TopK, top_p: TopP
) -> Callable[[float, int, float], None]:
    """Return a function of temperature, k and p that draws the probabilities of the character after some words."""
    with torch.no_grad():
        logits = model(torch.tensor([characters.encode(words)], device=device()))[0, -1].cpu()

    def draw(temperature: float = 1.5, k: int = 5, p: float = 1.0) -> None:
        odds, n = top_p(top_k(logits / temperature, k), p).softmax(-1), min(10, len(logits))
        both = {"with temperature, k and p": odds, "the model's own": logits.softmax(-1)}
        lines = {name: (range(1, n + 1), shares.topk(n).values) for name, shares in both.items()}
        show(
            curves(lines, "rank of the character", "probability"),
            alt=f"After {words!r}: {(odds > 0).sum()} characters are kept, the most likely is "
            f"{characters.symbols[odds.argmax()]!r} with {odds.max():.2f}.",
        )

    return draw
