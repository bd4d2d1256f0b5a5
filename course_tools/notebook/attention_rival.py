"""Compare a rival without content-dependent weights with attention on the two questions of build task 04.7, over some seeds."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank.lecture_04.train_attention_rival import SelfAttentionReader, examples, trained_on


def compared(
    train_rival: Callable[[Tensor, Tensor, int, int], nn.Module], n_parameters: int, seeds: Iterable[int], n_steps: int = 300
) -> dict[str, list[float]]:
    """Train attention and the rival on 4,000 texts with each seed, and measure both on 500 unseen texts.

    The rival is measured as it is returned: in training mode, its dropout is active.

    Args:
        train_rival: `(texts, answers, n_parameters, n_steps)` → the trained rival.
        n_parameters: passed to `train_rival`.
        seeds: of the texts, the weights and the batches.
        n_steps: number of updates of each model.

    Returns:
        accuracies, one per seed, under "look-up: attention", "look-up: rival", "reversal: attention" and "reversal: rival".
    """
    found: dict[str, list[float]] = {f"{ask}: {name}": [] for ask in ("look-up", "reversal") for name in ("attention", "rival")}
    for seed in seeds:
        known, (unseen, answers) = examples(4_000, seed), examples(500, 100 + seed)
        torch.manual_seed(seed)
        attention = trained_on(SelfAttentionReader(), *known, n_steps)
        for name, model in (("attention", attention), ("rival", train_rival(*known, n_parameters, n_steps))):
            with torch.no_grad():
                right = (model(unseen).argmax(-1) == answers).float().mean(0)
            found[f"look-up: {name}"].append(right[8:].mean().item())
            found[f"reversal: {name}"].append(right[:8].mean().item())
    return found


def most_frequent_value(seed: int) -> float:
    """Compute the accuracy at look-up of guessing the most frequent of the eight values of a text, on 500 texts."""
    texts, _ = examples(500, seed)
    return F.one_hot(texts[:, :8, 1]).sum(1).amax(-1).float().mean().item() / 8
