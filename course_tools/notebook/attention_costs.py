"""What attention costs in memory and in generation: peak memory, work of the next token, floating-point numbers in a state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.attention import GraphAttention
from course_lib.attention.multihead import cached_step
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import exponent, milliseconds, multiply_adds, one_head
from course_tools.notebook.memory import peak_memory
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def peak_mib(form: Callable[..., object], L: int, d: int = 64) -> float:
    """Measure the peak memory of a mechanism `(q, k, v)` over L tokens, one head of size d, in MiB."""
    inputs = one_head(L, d)
    return peak_memory(lambda: form(*inputs)) / 2**20


def graph_attention_mib(n_nodes: int, edges: Tensor, d: int = 8) -> float:
    """Measure the peak memory of graph attention (GAT) over edges (2, E), one head of size d, in MiB."""
    mechanism, nodes = GraphAttention(1, d), torch.randn(1, n_nodes, d)
    with torch.no_grad():
        return peak_memory(lambda: mechanism(nodes, edges)) / 2**20


def work_with_cache(n: int, d: int = 64) -> int:
    """Count the multiply-adds of the token after n others in one head of size d, with the keys and values of all in a cache."""
    x, matrices = torch.randn(1, d), [torch.randn(d, d) for _ in range(4)]
    cache = [torch.randn(1, 1, n, d) for _ in range(2)]
    return multiply_adds(cached_step, x, *cache, *matrices)


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


def show_kept_numbers(lengths: Sequence[int], d: int = 64) -> None:
    """Draw how many numbers a cache of keys and values and a state (S, z) hold, for one head of size d."""
    cached, kept = [2 * n * d for n in lengths], d * d + d
    lines = {"softmax, with a cache": (lengths, cached), "linear, with S and z": (lengths, [kept] * len(lengths))}
    show(
        curves(lines, "tokens generated so far", "numbers kept", f"one head, d = {d}", log="xy"),
        alt=f"Numbers kept against the tokens generated so far: a cache grows from {cached[0]:,} at {lengths[0]:,} tokens to "
        f"{cached[-1]:,} at {lengths[-1]:,}; the state has {kept:,} throughout.",
    )


@torch.no_grad()
def work_of_step(model: Any, n: int) -> int:
    """Count the multiply-adds of one step of a model after n tokens; attention is computed as plain products."""
    token = torch.zeros(1, dtype=torch.long, device=device())
    state = model.start(token.expand(1, n))
    with sdpa_kernel(SDPBackend.MATH):
        return multiply_adds(model.step, token, state)


def floats_in(state: object) -> int:
    """Count the floating-point numbers in a state: tensors, and tuples of them at any depth."""
    if isinstance(state, Tensor):
        return state.numel() if state.is_floating_point() else 0
    return sum(map(floats_in, state)) if isinstance(state, tuple | list) else 0


def step_by_products(S: Tensor, z: Tensor, phi_q: Tensor, phi_k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `linear_attention_step` by matrix products, which `multiply_adds` counts; it does not see entrywise products."""
    S, z = S + phi_k[..., :, None] @ v[..., None, :], z + phi_k
    read = phi_q[..., None, :] @ torch.cat([S, z[..., None]], dim=-1)
    return read[..., 0, :-1] / read[..., 0, -1:], S, z


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
