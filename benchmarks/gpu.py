"""Time and memory of each mechanism on a GPU, in float32 and bfloat16: `python -m benchmarks.gpu [--device cuda]`.

The other benchmarks compare processor times on one thread, which are meaningless on a GPU. Here, time is measured between two
events of the device, as the median over the rounds, and memory is the peak beyond the inputs.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from course_lib.attention import causal_attention, causal_performer_attention, linear_attention, scaled_dot_product_attention
from course_lib.fast import chunked_linear_attention, fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.primitives import elu_feature_map, orthogonal_projection

Form = Callable[[Tensor, Tensor, Tensor], Tensor]


def forms(d: int, device: torch.device) -> dict[str, Form]:
    """The mechanisms by name: each takes queries, keys and values (B, H, T, d) and returns the context."""
    omega = orthogonal_projection(d, d).to(device)
    return {
        "scaled": lambda q, k, v: scaled_dot_product_attention(q, k, v).context,
        "scaled, fused": lambda q, k, v: fused_scaled_dot_product_attention(q, k, v).context,
        "causal": lambda q, k, v: causal_attention(q, k, v).context,
        "causal, fused": lambda q, k, v: fused_causal_attention(q, k, v).context,
        "linear": lambda q, k, v: linear_attention(elu_feature_map(q), elu_feature_map(k), v),
        "causal linear, chunked": lambda q, k, v: chunked_linear_attention(elu_feature_map(q), elu_feature_map(k), v),
        "causal Performer": lambda q, k, v: (
            causal_performer_attention(q, k, v, omega=omega, mix=chunked_linear_attention).context
        ),
    }


def rows(device: torch.device, shape: tuple[int, int, int, int], rounds: int) -> list[tuple[str, ...]]:
    """Measure one row for each form and dtype: milliseconds forward, forward and backward, and the peak in MiB."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
        for name, form in forms(shape[-1], device).items():
            passes = partial(_forward, form, inputs), partial(_forward_backward, form, inputs)
            times = [statistics.median(_milliseconds(run, device) for _ in range(rounds)) for run in passes]
            peak = _peak(passes[1], device)
            found.append((name, str(dtype).removeprefix("torch."), *(f"{t:.2f}" for t in times), peak))
    return found


def _forward(form: Form, inputs: list[Tensor]) -> None:
    with torch.no_grad():
        form(*inputs)


def _forward_backward(form: Form, inputs: list[Tensor]) -> None:
    torch.autograd.grad(form(*inputs).sum(), inputs)


def _milliseconds(run: Callable[[], None], device: torch.device) -> float:
    if device.type != "cuda":
        started = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - started)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    run()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last)


def _peak(run: Callable[[], None], device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return f"{(torch.cuda.max_memory_allocated() - before) / 2**20:.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--shape", type=int, nargs=4, default=(4, 8, 2048, 64), metavar=("B", "H", "T", "d"))
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args(arguments)
    rows(asked.device, (1, 1, 64, asked.shape[-1]), 2)  # compiles and loads kernels
    head = ("mechanism", "dtype", "forward, ms", "and backward, ms", "peak, MiB")
    print(f"(B, H, T, d) = {tuple(asked.shape)}, medians of {asked.rounds} rounds\n")
    for row in (head, ("---",) * len(head), *rows(asked.device, tuple(asked.shape), asked.rounds)):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
