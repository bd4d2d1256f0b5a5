"""Compare a rival without token mixing with a Mixer of one block, the control of build task 13.7, over some seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from course_tools.bank.lecture_13.train_mixing_rival import OneBlockMixer, examples, scores_of, submit
from course_tools.notebook.seed_scores import show_seeds

__all__ = ["OneBlockMixer", "examples", "show_mixing_rival"]


def show_mixing_rival(
    train_rival: Callable[[Tensor, Tensor, int, int], nn.Module],
    seeds: Iterable[int],
    others: Mapping[str, Sequence[float]] | None = None,
    n_steps: int = 300,
) -> None:
    """Train the Mixer and the rival with each seed; draw their accuracies on unseen digits.

    Args:
        train_rival: `(patches, labels, n_parameters, n_steps)` → the trained rival.
        seeds: of the images, the weights and the batches.
        others: name → accuracies of other models, which are drawn first.
        n_steps: number of updates of each model.
    """
    scores: dict[str, list[float]] = {f"{asked}: {name}": [] for asked in ("digits", "grain") for name in ("Mixer", "rival")}
    for seed in seeds:
        known, (unseen, labels) = examples(seed)
        torch.manual_seed(seed)
        mixer = OneBlockMixer()
        n_parameters = sum(p.numel() for p in mixer.parameters())
        submit((*known, 0, n_steps), model=lambda mixer=mixer: mixer)
        rival = train_rival(*known, n_parameters, n_steps)
        for name, model in (("Mixer", mixer), ("rival", rival)):
            with torch.no_grad():
                found = scores_of(model(unseen), labels)
            scores[f"digits: {name}"].append(found.claim)
            scores[f"grain: {name}"].append(found.control)
    show_seeds({**(others or {}), **scores}, "accuracy on unseen images", across={"chance, grain": 0.5, "chance, digits": 0.1})
