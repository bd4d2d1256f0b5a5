"""What attention costs in memory and in generation: peak memory, work of the next token, floating-point numbers in a state."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.attention import GraphAttention
from course_lib.attention.multihead import cached_step
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import multiply_adds, one_head
from course_tools.notebook.memory import peak_memory


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


def work_with_state(step: Callable[..., tuple[Tensor, ...]], d: int = 64) -> int:
    """Count the multiply-adds of one token in one head of size d by `step`, such as `linear_attention_step`."""
    x, matrices = torch.randn(1, d), [torch.randn(d, d) for _ in range(4)]
    S, z = torch.rand(d, d), torch.rand(d)

    def next_token() -> Tensor:
        q, k, v = ((x @ W.mT)[0] for W in matrices[:3])
        return step(S, z, q, k, v)[0] @ matrices[3]

    return multiply_adds(next_token)


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
