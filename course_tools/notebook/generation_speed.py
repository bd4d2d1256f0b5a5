"""Measure and draw how fast models generate after prompts of several lengths: for lecture 14."""

from collections.abc import Collection, Mapping, Sequence

import torch

from course_lib.generation import LanguageModel
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import tokens_per_second
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def show_generation_speed(
    models: Mapping[str, LanguageModel],
    lengths: Sequence[int],
    title: str,
    n_sequences: int = 8,
    slow: Collection[str] = (),
    longest_of_slow: int = 256,
) -> dict[str, list[float]]:
    """Draw the tokens that each model generates per second after prompts of several lengths.

    Args:
        models: name -> model.
        lengths: of the prompts, in increasing order.
        title: above the figure.
        n_sequences: number of sequences that are continued in parallel.
        slow: names of models that are measured up to `longest_of_slow` tokens only, in two steps instead of sixteen.
        longest_of_slow: the longest prompt of these models.

    Returns:
        tokens per second for each name, one for each measured length.
    """
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for n in lengths:
        prompt = torch.zeros(1, n, dtype=torch.long, device=device())
        for name, model in models.items():
            if name not in slow or n <= longest_of_slow:
                speeds[name].append(tokens_per_second(model, prompt, n_sequences, n_steps=2 if name in slow else 16))
    ends = "; ".join(f"{name} from {each[0]:,.0f} to {each[-1]:,.0f} tokens per second" for name, each in speeds.items())
    lines = {name: (lengths[: len(each)], each) for name, each in speeds.items()}
    show(
        curves(lines, "tokens read so far", "tokens generated per second", title, log="xy"),
        alt=f"Generation speed against the number of tokens read, both logarithmic: {ends}.",
    )
    return speeds
