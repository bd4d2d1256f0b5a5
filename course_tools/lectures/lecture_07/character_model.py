"""Character-level language models: training, bits per character, sampling with top-k and top-p."""

import math
from collections.abc import Callable, Mapping
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.datasets import Vocabulary
from course_lib.fast import CachedGPT
from course_lib.generation import generate
from course_lib.losses import next_token_loss
from course_lib.models import GPT, KneserNey, NGram
from course_lib.training import batches, train
from course_tools.notebook.device import device
from course_tools.notebook.plots import curves
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.show import show

# Train character-level language models, measure bits per character, and generate text.


WINDOWS = 16
"""Windows in a batch."""


@torch.no_grad()
def bits_per_character(model: nn.Module, tokens: Tensor, T: int) -> float:
    """Measure the bits per character of a text (n,) by a model with a window of T, each with at least T / 2 of context."""
    windows = tokens.to(device()).unfold(0, T, T // 2)
    asked = (torch.arange(T, device=device()) >= T // 2).expand_as(windows)
    return next_token_loss(model(windows), windows, asked).item() / math.log(2)


def bits_by_counts(table: NGram | KneserNey, tokens: Tensor, order: int) -> float:
    """Measure the bits per character of a text (n,) by counts of runs of `order` characters, the predicted one included."""
    return -table.probability(tokens.unfold(0, order, 1)).log2().mean().item()


def unseen_runs(known: str, new: str, n: int) -> float:
    """Compute the fraction of the runs of n characters of a new text that do not occur in the known text."""
    seen = {known[i : i + n] for i in range(len(known) - n + 1)}
    runs = [new[i : i + n] for i in range(len(new) - n + 1)]
    return sum(run not in seen for run in runs) / len(runs)


def unseen_words(known: str, new: str) -> list[str]:
    """List the words of a new text, letters only, that do not occur in the known text, each once."""
    seen = set(known.split())
    return [word for word in dict.fromkeys(new.split()) if word.isalpha() and word not in seen]


def letters_and_spaces(text: str, n: int) -> tuple[str, Tensor]:
    """Reduce a text to the letters a to z and single spaces: the alphabet of 27 characters, and the first n tokens (n,)."""
    alphabet = " abcdefghijklmnopqrstuvwxyz"
    plain = " ".join("".join(c if c in alphabet else " " for c in text.lower()).split())
    return alphabet, torch.tensor([alphabet.index(c) for c in plain[:n]])


def gradient_by_position(model: GPT, tokens: Tensor, t: int) -> Tensor:
    """Compute the largest absolute gradient of the state at position t with respect to each input of tokens (1, T): (T,)."""
    x = (model.tokens(tokens) + model.positions(tokens.shape[1])).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.stack(x)[:, t].square().sum(), x)
    return gradient[0].abs().amax(-1)


def show_held_out_bits(trained: Mapping[str, Mapping[int, float]], T: int, across: Mapping[str, float]) -> None:
    """Draw the bits per character of held-out text against the characters read in training.

    Args:
        trained: name -> the bits after numbers of updates, as returned by `fit_text`.
        T: length of a window.
        across: name -> bits per character of a baseline.
    """
    lines = {name: ([round(WINDOWS * T * n / 1_000) for n in bits], list(bits.values())) for name, bits in trained.items()}
    ends = ", ".join(f"{name} to {values[-1]:.2f}" for name, (_, values) in lines.items())
    baselines = ", ".join(f"{name} {bits:.2f}" for name, bits in across.items())
    show(
        curves(lines, "characters read in training, in thousands", "bits per character, held-out text", log="x", across=across),
        alt=f"Bits per character of held-out text fall during training: {ends}. Baselines: {baselines}.",
    )


def fit_text(
    model: nn.Module,
    known: Tensor,
    valid: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    T: int,
    steps: int,
    lr: float,
    seed: int,
) -> tuple[nn.Module, dict[int, float]]:
    """Train a model on windows of a text, `WINDOWS` at a time.

    Args:
        model: trained in place, on `device()`.
        known: the text (n,).
        valid: held-out text (n,).
        loss: such as `next_token_loss(logits, tokens)`.
        T: length of a window.
        steps: number of updates.
        lr: the maximum learning rate.
        seed: determines the order of the windows.

    Returns:
        the model, in evaluation mode, and the bits per character of the held-out text after five numbers of updates.
    """
    stream, curve = batches(known.to(device()).unfold(0, T, 1), batch_size=WINDOWS, seed=seed), {}
    training = train(model, stream, lambda model, batch: loss(model(batch[0]), batch[0]), steps=steps, lr=lr, warmup=50)
    for step in progress(training, type(model).__name__, steps):
        if step.index + 1 in {steps // 16, steps // 8, steps // 4, steps // 2, steps}:
            curve[step.index + 1] = bits_per_character(model.eval(), valid, T)
            model.train()
    return model.eval(), curve


def continuations(
    model: GPT, prompts: Tensor, n: int, adjust: Callable[[Tensor], Tensor], characters: Vocabulary, seed: int
) -> list[str]:
    """Continue prompts (B, T) by n characters, sampled from the softmax of `adjust(logits)` with this seed."""
    generator = torch.Generator(device()).manual_seed(seed)

    def choose(logits: Tensor) -> Tensor:
        return torch.multinomial(adjust(logits).softmax(-1), 1, generator=generator)[:, 0]

    return [characters.decode(row) for row in generate(CachedGPT(model), prompts.to(device()), n, choose).tolist()]


@torch.no_grad()
def sampled_text(
    model: Callable[[Tensor], Tensor], prompt: Tensor, n: int, T: int, adjust: Callable[[Tensor], Tensor]
) -> list[int]:
    """Continue a prompt (t,) by n tokens with any model from tokens (B, T) to logits, which reads the last T; return t + n."""
    tokens = prompt
    for _ in range(n):
        odds = adjust(model(tokens[None, -T:])[0, -1]).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(odds, 1)])
    return tokens.tolist()


# Sampling from a character-level model: words of samples, sizes of a nucleus, next-character odds.


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
