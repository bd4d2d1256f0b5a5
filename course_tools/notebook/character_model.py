"""Train character-level language models, measure bits per character, and generate text; for lecture 07."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.datasets import Vocabulary
from course_lib.generation import CachedGPT, generate
from course_lib.losses import next_token_loss
from course_lib.models import GPT, KneserNey, NGram
from course_lib.training import batches, train
from course_tools.notebook.device import device
from course_tools.notebook.progress_bar import progress


@torch.no_grad()
def bits_per_character(model: nn.Module, tokens: Tensor, T: int) -> float:
    """Measure the bits per character of a text (n,) by a model with a window of T, each with at least T / 2 of context."""
    windows = tokens.to(device()).unfold(0, T, T // 2)
    asked = (torch.arange(T, device=device()) >= T // 2).expand_as(windows)
    return next_token_loss(model(windows), windows, asked).item() / math.log(2)


def bits_by_counts(table: NGram | KneserNey, tokens: Tensor, order: int) -> float:
    """Measure the bits per character of a text (n,) by counts of runs of `order` characters, the predicted one included."""
    return -table.probability(tokens.unfold(0, order, 1)).log2().mean().item()


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
    """Train a model on windows of a text, 16 at a time.

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
    stream, curve = batches(known.to(device()).unfold(0, T, 1), batch_size=16, seed=seed), {}
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
