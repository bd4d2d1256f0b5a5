"""Measure the cost of a layer or model: multiply-adds, sequential operations, path length, memory for gradients, time."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.generation import LanguageModel, rows_of
from course_lib.metrics import count_operations
from course_lib.primitives import RNN

PRODUCTS = ("Mm", "Bmm", "Addmm", "Convolution")
"""Prefixes of autograd's names for the nodes of matrix products and convolutions."""


def multiply_adds(call: Callable[..., object], *inputs: object) -> int:
    """Count the multiply-adds of all matrix products and convolutions in `call(*inputs)`, with `count_operations`."""
    return count_operations(nn.Identity(), lambda: call(*inputs)).multiply_adds


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit the exponent of a power law: the slope of log cost against log size, by least squares.

    Args:
        sizes: positive, at least two different ones.
        costs: positive, one for each size.
    """
    x, y = (torch.tensor(values, dtype=torch.float64).log() for values in (sizes, costs))
    return (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()


def cheaper_until(ours: Callable[[Tensor], object], theirs: Callable[[Tensor], object], d: int, most: int = 128) -> int:
    """Find the largest n up to which `ours` needs fewer multiply-adds than `theirs` on one text (1, n, d); 0 if it never does.

    Raises:
        ValueError: `ours` needs fewer for every n up to `most`.
    """
    for n in range(1, most + 1):
        x = torch.randn(1, n, d)
        if multiply_adds(ours, x) >= multiply_adds(theirs, x):
            return n - 1
    raise ValueError(f"it needs fewer multiply-adds for every n up to {most}.")


def random_layers(d: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Create four layers that mix tokens (n, d) in float64, with random weights; the last one attends to ±8 positions."""
    recurrent, kernel = RNN(d, d).double(), torch.randn(d, d, 3, dtype=torch.float64) / d**0.5
    return {
        "self-attention": lambda x: scaled_dot_product_attention(x, x, x).context,
        "recurrent": lambda x: recurrent(x[None])[0][0],
        "convolution": lambda x: F.conv1d(x.mT[None], kernel, padding=1)[0].mT,
        "restricted": restricted_attention,
    }


class LayerCosts(NamedTuple):
    """The costs of layers that mix n tokens, by name.

    `work` holds the multiply-adds for each length, `exponents` the power of n by which they grow, to two decimals. `waits` are
    the sequential operations, and `paths` the layers or steps that join the two ends, for each of the short lengths.
    """

    work: dict[str, list[int]]
    exponents: dict[str, float]
    waits: dict[str, list[int]]
    paths: dict[str, list[int]]


def measured_costs(names: Sequence[str], lengths: Sequence[int], short: Sequence[int], d: int = 64) -> LayerCosts:
    """Measure the three columns of table 1 of Vaswani et al. for layers of `random_layers`.

    Args:
        names: of the layers.
        lengths: numbers of tokens for which the work is counted.
        short: numbers of tokens for which sequential operations and path lengths are counted, with tokens of size 8.
        d: size of the tokens for which the work is counted.
    """
    layers = random_layers(d)
    texts = [torch.randn(n, d, dtype=torch.float64) for n in lengths]
    work = {name: [multiply_adds(layers[name], x) for x in texts] for name in names}
    layers = random_layers(8)
    inputs = [torch.randn(n, 8, dtype=torch.float64, requires_grad=True) for n in short]
    waits = {name: [sequential_operations(layers[name](x)) for x in inputs] for name in names}
    layers["recurrent"] = recurrent_step(8)
    paths = {name: [path_length(layers[name], x) for x in inputs] for name in names}
    return LayerCosts(work, {name: round(exponent(lengths, work[name]), 2) for name in names}, waits, paths)


def restricted_attention(x: Tensor, r: int = 8) -> Tensor:
    """Compute contexts (n, d) of tokens (n, d), where position i attends only to positions i - r … i + r."""
    windows, inside = (F.pad(part, (0, 0, r, r)).unfold(-2, 2 * r + 1, 1).mT for part in (x, torch.ones_like(x[:, :1])))
    return scaled_dot_product_attention(x[:, None], windows, windows, inside.mT > 0).context[:, 0]


def recurrent_step(d: int) -> Callable[[Tensor], Tensor]:
    """Create one step of a recurrence at every position of tokens (n, d): each reads the state of the previous position."""
    U = torch.randn(d, d, dtype=torch.float64) / d**0.5
    return lambda x: torch.tanh(x + F.pad(x, (0, 0, 1, 0))[:-1] @ U)


def milliseconds(call: Callable[..., Sequence[Tensor]], *inputs: Tensor, runs: int = 7) -> float:
    """Measure the median time of several runs in milliseconds, after one warm-up run; each waits for the first result."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        call(*inputs)[0].sum().item()
        times.append(1_000 * (time.perf_counter() - start))
    return median(times[1:])


def one_head(n_tokens: int, d: int = 64, seed: int = 0) -> list[Tensor]:
    """Draw queries, keys and values of one head, (1, 1, n_tokens, d) each, on a CUDA GPU if available, else on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    place = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.randn(1, 1, n_tokens, d, generator=generator).to(place) for _ in range(3)]


@torch.no_grad()
def tokens_per_second(model: LanguageModel, prompt: Tensor, n_sequences: int = 1, n_steps: int = 4) -> float:
    """Measure how many tokens per second a model generates after a prompt, all sequences together: the fastest of eight times.

    Args:
        model: creates a state by `start` and reads one token of each sequence by `step`; reading the prompt is not timed.
        prompt: (1, T) tokens, T ≥ 1, the same for all sequences.
        n_sequences: number of sequences that are continued in parallel.
        n_steps: number of steps timed together, after one warm-up step; each reads the most likely token of the previous one.
    """
    rows = prompt.new_zeros(n_sequences)
    logits, state = model.step(prompt[rows, -1], rows_of(model.start(prompt[:, :-1]), rows))
    token = logits.argmax(-1)
    token.tolist()  # waits for a GPU
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        for _ in range(n_steps):
            logits, state = model.step(token, state)
            token = logits.argmax(-1)
        token.tolist()
        seconds.append(time.perf_counter() - start)
    return n_steps * n_sequences / min(seconds)


def sequential_operations(output: Tensor, operations: tuple[str, ...] = PRODUCTS) -> int:
    """Count operations on the longest path through the autograd graph of `output`.

    Args:
        output: a tensor with a gradient.
        operations: prefixes of the names of counted nodes, such as "Tanh"; by default matrix products and convolutions.
    """
    depth, stack = {}, [output.grad_fn]
    while stack:
        before = [node for node, _ in stack[-1].next_functions if node is not None]
        waiting = [node for node in before if node not in depth]
        stack.extend(waiting)
        if not waiting:
            node = stack.pop()
            depth[node] = max((depth[b] for b in before), default=0) + node.name().startswith(operations)
    return depth[output.grad_fn]


def path_length(layer: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Count how often a layer must be applied to x (T, d) until the gradient of the last position reaches the first.

    Raises:
        ValueError: it does not reach it after T applications.
    """
    y = x
    for times in range(1, len(x) + 1):
        y = layer(y)
        if torch.autograd.grad(y[-1].sum(), x, retain_graph=True)[0][0].any():
            return times
    raise ValueError("the last position never depends on the first.")
