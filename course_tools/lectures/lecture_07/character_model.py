"""Character-level language models: bits per character, words of samples, sizes of a nucleus."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.models import GPT, KneserNey, NGram
from course_tools.notebook.device import device


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
