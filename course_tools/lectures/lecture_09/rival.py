"""Compare a rival without attention with a non-local block on the two questions of build task 09.7, over some seeds."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from course_tools.bank.lecture_09.train_reach_rival import examples, scores_of, submit, with_block


def parameters_of_the_model() -> int:
    """Count the parameters of the network with the block: those that the rival must have."""
    return sum(p.numel() for p in with_block().parameters())


def print_examples(seed: int) -> None:
    """Print the sizes of the training images and labels of a seed, and the number of parameters of the model."""
    (images, labels), _ = examples(seed)
    print(f"images {tuple(images.shape)}; labels {tuple(labels.shape)}, of the first three canvases {labels[:3].tolist()}")
    print(f"{parameters_of_the_model():,} parameters, 600 updates with batches of 32, Adam from 0.01 to 0")


def compared(
    train_rival: Callable[[Tensor, Tensor, int, int], nn.Module], seeds: Iterable[int], n_steps: int = 600
) -> dict[str, list[float]]:
    """Train the network with the block and the rival with each seed, and measure both on unseen canvases.

    Args:
        train_rival: `(images, labels, n_parameters, n_steps)` → the trained rival.
        seeds: of the canvases, the weights and the batches.
        n_steps: number of updates of each model.

    Returns:
        accuracies, one per seed, under "same or different: block", "same or different: rival", "does a 0 occur: block" and
        "does a 0 occur: rival".
    """
    found: dict[str, list[float]] = {
        f"{ask}: {name}": [] for ask in ("same or different", "does a 0 occur") for name in ("block", "rival")
    }
    for seed in seeds:
        known, (unseen, labels) = examples(seed)
        torch.manual_seed(seed)
        models = {
            "block": submit((*known, 0, n_steps), model=with_block),
            "rival": train_rival(*known, parameters_of_the_model(), n_steps),
        }
        for name, model in models.items():
            with torch.no_grad():
                scores = scores_of(model(unseen), labels)
            found[f"same or different: {name}"].append(scores.claim)
            found[f"does a 0 occur: {name}"].append(scores.control)
    return found
