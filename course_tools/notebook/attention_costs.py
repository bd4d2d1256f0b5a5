"""What attention costs in memory and in generation: peak memory, time, floating-point numbers in a state."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_tools.notebook.layer_costs import exponent, milliseconds, one_head
from course_tools.notebook.memory import peak_memory
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def peak_mib(form: Callable[..., object], L: int, d: int = 64) -> float:
    """Measure the peak memory of a mechanism `(q, k, v)` over L tokens, one head of size d, in MiB."""
    inputs = one_head(L, d)
    return peak_memory(lambda: form(*inputs)) / 2**20


class Costs(NamedTuple):
    """Peak memory in MiB and time in milliseconds of mechanisms: name -> (lengths, values)."""

    memory: dict[str, tuple[list[int], list[float]]]
    times: dict[str, tuple[list[int], list[float]]]


@torch.no_grad()
def show_costs(mechanisms: Mapping[str, tuple[Callable[..., Any], int]], shortest: int = 512, d: int = 64) -> Costs:
    """Measure and draw the peak memory and the time of one head, from a shortest length, doubled up to the longest.

    Args:
        mechanisms: name -> the mechanism `(q, k, v)`, and its longest length.
        shortest: the first length, the same for all; each needs at least three lengths.
        d: size of queries, keys and values.
    """
    costs = Costs({}, {})
    for name, (form, longest) in mechanisms.items():
        lengths = [shortest]
        while 2 * lengths[-1] <= longest:
            lengths.append(2 * lengths[-1])
        costs.memory[name] = lengths, [peak_mib(form, L, d) for L in lengths]
        costs.times[name] = lengths, [milliseconds(form, *one_head(L, d)) for L in lengths]
    for measured, unit in ((costs.memory, "peak memory in MiB"), (costs.times, "milliseconds")):
        powers = ", ".join(f"{name} {exponent(Ls[-3:], values[-3:]):.2f}" for name, (Ls, values) in measured.items())
        show(
            curves(measured, "number of tokens, L", unit, f"one head, d = {d}, forward", log="xy"),
            alt=f"{unit[0].upper()}{unit[1:]} against the number of tokens, both logarithmic; over the longest three each "
            f"grows with the length to the power: {powers}.",
        )
    return costs


def floats_in(state: object) -> int:
    """Count the floating-point numbers in a state: tensors, and tuples of them at any depth."""
    if isinstance(state, Tensor):
        return state.numel() if state.is_floating_point() else 0
    return sum(map(floats_in, state)) if isinstance(state, tuple | list) else 0


class StepBy:
    """A linear transformer that generates by a given form of the recurrent step, such as the student's."""

    def __init__(self, model: Any, form: Callable[..., tuple[Tensor, ...]]) -> None:
        """Store a `LinearTransformer` and the form: `linear_attention_step`, or another function of its arguments."""
        self.model, self.form = model, form

    def start(self, tokens: Tensor) -> Any:
        """Read prompts (B, T) in parallel; return the state."""
        return self.model.start(tokens)

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one more token of each sequence, (B,); return logits (B, n_tokens) and the new state."""
        return self.model.step(token, state, self.form)
