"""Experiments of lecture 19: count tensors and numbers moved, test the law of a draw, record the calls of a model."""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.generation import Accepted
from course_tools.checks.cost import CostCounter

Accept = Callable[[Tensor, Tensor, Tensor, Tensor], Accepted]


class Moved(NamedTuple):
    """How many numbers go between a large slow memory and a small fast one, and how many multiply-adds are made."""

    numbers: int
    multiply_adds: int


def largest_tensor(form: Callable[..., tuple[Tensor, object]], *inputs: object) -> tuple[Tensor, int]:
    """Call a form of attention; return its context, and how many numbers the largest tensor has that it makes."""
    with torch.no_grad(), CostCounter() as counter:
        context = form(*inputs)[0]
    return context, math.prod(counter.cost.largest)


def kept_for_backward(form: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, int]:
    """Call a form of attention; return its context, and how many numbers autograd keeps for the backward pass, each once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        context = form(*inputs)
    return context, sum(kept.values())


def seconds(form: Callable[..., tuple[Tensor, object]], *inputs: Tensor) -> float:
    """Call a form of attention five times, on one thread if on a CPU; return the shortest time: of the CPU, or by the clock."""
    clock = time.process_time if inputs[0].device.type == "cpu" else time.perf_counter
    threads, taken = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for _ in range(5):
        start = clock()
        with torch.no_grad():
            form(*inputs)[0].sum().item()  # an accelerator computes on its own: wait for it
        taken.append(clock() - start)
    torch.set_num_threads(threads)
    return min(taken)


def moved_at_once(T: int, d: int) -> Moved:
    """Attention in three steps, each of which reads its inputs from slow memory and writes its result there."""
    scores = 2 * T * d + T * T  # reads Q and K, writes E
    softmax = T * T + T * T  # reads E, writes A
    mix = T * T + T * d + T * d  # reads A and V, writes C
    return Moved(scores + softmax + mix, 2 * T * T * d)


def moved_in_tiles(T: int, d: int, rows: int) -> Moved:
    """Attention in tiles: blocks of `rows` queries stay in fast memory, and for each block all keys and values pass by once.

    Each score takes one more multiply-add, and each merge rescales the context of its block, in tiles of as many keys.
    """
    blocks = math.ceil(T / rows)
    return Moved(2 * T * d + blocks * 2 * T * d, 2 * T * T * d + T * T + blocks * T * d)


def first_tokens(accept: Accept, p: Tensor, q: Tensor, n: int, seed: int = 0) -> tuple[Tensor, float]:
    """Let a draft with the law q (n_tokens,) propose one token, n times, and judge it by the law p.

    Returns:
        the tokens that come first (n,), and the share of them that was accepted.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.multinomial(q, n, replacement=True, generator=generator)[:, None]
    uniforms = torch.rand(n, 2, generator=generator)
    accepted, token = accept(tokens, q.expand(n, 1, -1), p.expand(n, 2, -1), uniforms)
    return torch.where(accepted > 0, tokens[:, 0], token), (accepted > 0).double().mean().item()


def chi_squared(tokens: Tensor, p: Tensor, least: float = 5.0) -> tuple[float, int]:
    """Compare tokens (n,) with the law p they should have; those expected less than `least` times are taken together.

    Returns:
        χ², and its degrees of freedom: their number is its mean, and twice their number its variance, if the law is right.
    """
    wanted, found = len(tokens) * p.double(), tokens.bincount(minlength=len(p)).double()
    often = wanted >= least
    wanted = torch.cat([wanted[often], wanted[~often].sum()[None]])
    found = torch.cat([found[often], found[~often].sum()[None]])
    apart = (found - wanted).square() / wanted.clamp(min=1e-12)
    if wanted[-1] < least:
        apart = apart[:-1]
    return apart.sum().item(), len(apart) - 1


class Recorded:
    """A model and a draft that remember where each round of a generator began.

    `model` and `draft` are called in place of the original ones. A round ends with a call of the model; the last token of each
    round is the model's own.
    """

    def __init__(self, model: Callable[[Tensor], Tensor], draft: Callable[[Tensor], Tensor]) -> None:
        """Nothing is recorded yet."""
        self._model, self._draft = model, draft
        self.calls = 0
        self.starts: list[int] = []

    def model(self, tokens: Tensor) -> Tensor:
        """Call the model, and count."""
        if len(self.starts) == self.calls:  # no token was drafted in this round
            self.starts.append(tokens.shape[-1])
        self.calls += 1
        return self._model(tokens)

    def draft(self, tokens: Tensor) -> Tensor:
        """Ask the draft, and note the length of the text at the first question of a round."""
        if len(self.starts) == self.calls:
            self.starts.append(tokens.shape[-1])
        return self._draft(tokens)

    def of_the_model(self, T: int) -> list[int]:
        """The places in a text of T tokens of those that the model wrote itself: the last of each round."""
        return [place - 1 for place in (*self.starts[1:], T)]
