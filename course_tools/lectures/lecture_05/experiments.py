"""The recurrent rival of lecture 05; what an update costs, and which of its operations must wait for one another."""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import GeneralAttention
from course_lib.datasets import BEGIN, END, PADDING
from course_lib.fast import fused_gru, stacked_bidirectional_gru
from course_lib.generation import greedy
from course_lib.models import Encoder, LuongDecoder, Seq2Seq
from course_lib.models.bigru_encoder import bidirectional_gru
from course_lib.primitives import gru


class GRUTranslator(nn.Module):
    """Lecture 02's translator with Luong's attention and fused recurrences, called like the Transformer of this lecture."""

    def __init__(
        self,
        n_source: int,
        n_target: int,
        d: int = 64,
        encode: Callable[..., tuple] = stacked_bidirectional_gru,
        decode: Callable[..., tuple] = fused_gru,
    ) -> None:
        """Set up states of size d; `encode` and `decode` run the recurrences of the two sides."""
        super().__init__()
        decoder = LuongDecoder(n_target, d // 2, d, d, GeneralAttention(d, d), decode)
        self.model = Seq2Seq(Encoder(n_source, d // 2, d // 2, encode), decoder)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Compute the next-token logits (B, T, n_target) of target (B, T), for sources (B, T_k) of these lengths (B,)."""
        return self.model(source, lengths, target).logits

    def translate(self, source: Tensor, lengths: Tensor, most: int = 23) -> Tensor:
        """Choose the likeliest token (B, ≤ most) at each step."""
        start = self.model.start(source, lengths)
        return greedy(self.model.step, start, torch.full_like(lengths, BEGIN), END, PADDING, most)


def cost_of_an_update(model: nn.Module, length: int, n_tokens: int, batch_size: int = 2) -> float:
    """Measure the processor time in seconds of one update on random sentences of this length: the least of three."""
    optimizer = torch.optim.Adam(model.parameters())
    given = _sentences(batch_size, length, n_tokens)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(model(*given).mT, given[2]).backward()
        optimizer.step()
        seconds.append(time.process_time() - start)
    return min(seconds)


def longest_chain(model: nn.Module, length: int, n_tokens: int) -> int:
    """Count the operations on the longest path through a forward pass, of one random sentence of this length.

    Each needs the result of the one before, so no hardware can run them at the same time. A recurrence that is fused into one
    operation hides its chain.
    """
    depth: dict[object, int] = {}
    waiting = [model(*_sentences(1, length, n_tokens)).sum().grad_fn]
    while waiting:
        before = [node for node, _ in waiting[-1].next_functions if node is not None]
        missing = [node for node in before if node not in depth]
        if missing:
            waiting += missing
        else:
            node = waiting.pop()
            depth[node] = 1 + max((depth[each] for each in before), default=0)
    return max(depth.values())


def unfused(n_source: int, n_target: int) -> GRUTranslator:
    """Make the recurrent rival with every step of its recurrences an operation of its own."""
    return GRUTranslator(n_source, n_target, encode=bidirectional_gru, decode=gru)


def _sentences(B: int, length: int, n_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a source, its lengths and a target; tokens below 4 are special and are not drawn."""
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.randint(4, n_tokens, (B, length), generator=generator) for _ in range(2))
    return source, torch.full((B,), length), target
