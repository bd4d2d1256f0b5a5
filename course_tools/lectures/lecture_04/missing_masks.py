"""What a missing mask does: padding that is read as data, and a language model that reads its answers."""

import math
from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets.alignment import Lookup
from course_tools.lectures.lecture_04.experiments import (
    TokenReader,
    TokenTask,
    counting_task,
    fit_token_reader,
    logits_under_mask,
    loss_on_new,
)
from course_tools.notebook.device import device
from course_tools.notebook.fitting import show_losses


class Padding(NamedTuple):
    """A trained model on texts that are padded with zeros, beside the same texts alone.

    `difference` is the largest difference of a logit between the padded texts with their mask and the texts alone. `alone` and
    `unmasked` are accuracies of the questions for the key k0: on the texts alone, and padded without a mask.
    """

    difference: float
    alone: float
    unmasked: float


def measure_padding(
    model: TokenReader, task: TokenTask, part: Lookup, padding_mask: Callable[[Tensor, int], Tensor], n_padding: int
) -> Padding:
    """Pad the test texts of a look-up task with zeros, the index of the pair k0 = v0, and compare the answers.

    Args:
        model: trained on the task, with a `mask` of its mixer.
        task: as `lookup_task` returns it.
        part: the test part from which the task was made.
        padding_mask: `(lengths, T)` → mask (B, 1, T).
        n_padding: number of padding tokens after each text.
    """
    n_pairs, n_tokens = part.keys.shape[1], task.new[0].shape[1]
    padded = [F.pad(index, (0, n_padding)) for index in task.new]
    lengths = torch.full((len(padded[0]),), n_tokens, device=device())
    given = (task.new, None), (padded, padding_mask(lengths, n_tokens + n_padding)), (padded, None)
    alone, masked, unmasked = (logits_under_mask(model, *each)[:, n_pairs:n_tokens] for each in given)
    asks_k0 = part.queries == 0
    right = ((logits.argmax(-1) == part.targets)[asks_k0].float().mean().item() for logits in (alone, unmasked))
    return Padding((masked - alone).abs().max().item(), *right)


class Leak(NamedTuple):
    """Losses on unseen texts in nats, one per seed, by name, and the entropy of the next token."""

    losses: dict[str, list[float]]
    entropy: float


def measure_leak(
    make_layer: Callable[[Tensor | None], nn.Module], causal: Tensor, seeds: Sequence[int], steps: int = 200
) -> Leak:
    """Train language models on `counting_task` with the causal mask and without; draw their losses, test them, print the means.

    Args:
        make_layer: returns a layer of size 64 with the mask that it is given, or None, in its attribute `mask`.
        causal: the causal mask (T, T).
        seeds: of the texts, the weights and the batches.
        steps: number of updates of each model.

    Returns:
        losses under "causal mask", "no mask" and, for the models trained without it, "masked afterwards".
    """
    keep, n_symbols, causal = 0.75, 8, causal.to(device())
    entropy = -keep * math.log(keep) - (1 - keep) * math.log((1 - keep) / (n_symbols - 1))
    tasks = [counting_task(seed, len(causal), keep, n_symbols) for seed in seeds]
    trained = {
        name: [
            fit_token_reader(lambda m=mask: make_layer(m), task, seed, steps) for task, seed in zip(tasks, seeds, strict=True)
        ]
        for name, mask in (("causal mask", causal), ("no mask", None))
    }
    show_losses(trained, across={"entropy of the next token": entropy})

    def tested(models: Sequence[TokenReader]) -> list[float]:
        return [loss_on_new(model, task) for model, task in zip(models, tasks, strict=True)]

    losses = {name: tested(models) for name, models in trained.items()}
    for model in trained["no mask"]:
        model.mixer.mask = causal
    losses["masked afterwards"] = tested(trained["no mask"])
    means = " | ".join(f"{name} {mean(values):.2f}" for name, values in losses.items())
    print(f"entropy {entropy:.2f} nats; loss on unseen text, mean of the seeds: {means}")
    return Leak(losses, entropy)
