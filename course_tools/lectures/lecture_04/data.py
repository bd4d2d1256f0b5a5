"""Texts of lecture 04: look-up in words, what a bag of values can know about it, and sequences that mostly count upwards."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

N_PAIRS, N_SYMBOLS, KEEP = 8, 8, 0.75
ENTROPY = -KEEP * math.log(KEEP) - (1 - KEEP) * math.log((1 - KEEP) / (N_SYMBOLS - 1))
"""Entropy in nats of the next symbol of `draw_counting`: no model that reads from left to right has a smaller expected loss."""


def in_words(keys: Tensor, values: Tensor) -> list[str]:
    """Write the tokens of one text, keys and values (12,), as words: pairs such as "k4=v5", then questions such as "k15?"."""
    pairs = [f"k{key}=v{value}" for key, value in zip(keys.tolist(), values.tolist(), strict=True)]
    return pairs[:N_PAIRS] + [f"k{key}?" for key in keys[N_PAIRS:].tolist()]


def print_text(keys: Tensor, values: Tensor, answers: Tensor) -> None:
    """Print the pairs, the questions and the answers of the first of several look-up texts, (n, 12), (n, 12) and (n, 4)."""
    words = in_words(keys[0], values[0])
    print("pairs:    ", *words[:N_PAIRS])
    print("questions:", *words[N_PAIRS:])
    print("answers:  ", *(f"v{value}" for value in answers[0].tolist()))


def bag_of_values(values: Tensor) -> tuple[float, float]:
    """Find the accuracy and the loss, in nats, of the best answers that know the values (n, 12) of a text, but not their keys.

    Each of the eight pairs is asked for equally often: the best guess is the most frequent value, and the best probabilities
    are the fractions of the values among the pairs.
    """
    fractions = F.one_hot(values[:, :N_PAIRS]).float().mean(1)
    return fractions.amax(-1).mean().item(), torch.special.entr(fractions).sum(-1).mean().item()


def draw_counting(n: int, T: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Draw n sequences of T symbols that count upwards, modulo 8, three times out of four, and else jump to another symbol.

    Returns:
        the symbols (n, T), their positions (n, T), and the next symbol of each (n, T).
    """
    jump = torch.randint(2, N_SYMBOLS + 1, (n, T + 1))
    symbols = torch.where(torch.rand(n, T + 1) < KEEP, 1, jump).cumsum(1) % N_SYMBOLS
    return symbols[:, :-1], torch.arange(T).expand(n, T), symbols[:, 1:]
