"""Character-level language models: training, bits per character, sampling with top-k and top-p."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.datasets import Vocabulary
from course_lib.models import GPT, KneserNey, NGram
from course_tools.notebook.device import device
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def bits_by_counts(table: NGram | KneserNey, tokens: Tensor, order: int) -> float:
    """Measure the bits per character of a text (n,) by counts of runs of `order` characters, the predicted one included."""
    return -table.probability(tokens.unfold(0, order, 1)).log2().mean().item()


def unseen_words(known: str, new: str) -> list[str]:
    """List the words of a new text, letters only, that do not occur in the known text, each once."""
    seen = set(known.split())
    return [word for word in dict.fromkeys(new.split()) if word.isalpha() and word not in seen]


def letters_and_spaces(text: str, n: int) -> tuple[str, Tensor]:
    """Reduce a text to the letters a to z and single spaces: the alphabet of 27 characters, and the first n tokens (n,)."""
    alphabet = " abcdefghijklmnopqrstuvwxyz"
    plain = " ".join("".join(c if c in alphabet else " " for c in text.lower()).split())
    return alphabet, torch.tensor([alphabet.index(c) for c in plain[:n]])


# Sampling from a character-level model: words of samples, sizes of a nucleus, next-character odds.


TopK = Callable[[Tensor, int], Tensor]
TopP = Callable[[Tensor, float], Tensor]


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
