"""Multi-head self-attention, by the equation and by the fused kernel, against torch.nn.MultiheadAttention.

Under a mask of its own for each sequence, causal or not, the fused kernel against torch's own function.
With dropout of its weights, against torch's; by relative positions, the shifted form against the equation: torch has neither.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Row, compare
from course_lib.attention import (
    AttentionDropout,
    Mechanism,
    MultiHead,
    RelativeAttention,
    causal_attention,
    relative_attention,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.primitives import causal_mask, padding_mask

SIZES = ((16, 64, 128, 4), (8, 256, 256, 8))
FORMS = (
    ("equation", scaled_dot_product_attention, "default: weights", False, True),
    ("fused", fused_scaled_dot_product_attention, "weights off", False, False),
    ("fused", fused_scaled_dot_product_attention, "default: weights", False, True),
    ("equation, causal", causal_attention, "causal, weights", True, True),
    ("fused, causal", fused_causal_attention, "causal, weights off", True, False),
)

NOTE = """Under a mask, 64 positions: 40 µs of our 700 tell that no hidden key is NaN, which torch would pass on, and 30 µs
check shapes. The equation makes three products of queries, keys and values where torch's module makes one."""


def rows(rounds: int) -> Iterator[Row]:
    """Time self-attention, open and causal. Torch's module is in evaluation mode, where it may take its own fast path."""
    for B, T, d, h in SIZES:
        torch.manual_seed(0)
        sizes = f"B {B}, T {T}, d {d}, {h} heads"
        x = torch.randn(B, T, d, requires_grad=True)
        theirs = nn.MultiheadAttention(d, h, batch_first=True).eval()
        for name, mechanism, against, causal, weights in FORMS:
            yield compare(
                "multi-head attention",
                (name, _ours(x, d, h, mechanism)),
                (f"nn.MultiheadAttention, {against}", _peer(x, theirs, causal, weights)),
                sizes,
                rounds,
            )
        yield from _masked(B, T, d, h, rounds)
        yield from _variants(x, d, h, sizes, rounds)


def _masked(B: int, T: int, d: int, h: int, rounds: int) -> Iterator[Row]:
    q, k, v = (torch.randn(B, h, T, d // h, requires_grad=True) for _ in range(3))
    padding = padding_mask(torch.linspace(T // 2, T, B).long(), T)[:, None]
    for name, mask in (("padding", padding), ("causal and padding", padding & causal_mask(T))):
        yield compare(
            f"attention, {name}",
            ("fused", lambda mask=mask: fused_scaled_dot_product_attention(q, k, v, mask).context),
            ("F.sdpa", lambda mask=mask: F.scaled_dot_product_attention(q, k, v, mask)),
            f"B {B}, T {T}, {h} heads of {d // h}",
            rounds,
        )


def _variants(x: Tensor, d: int, h: int, sizes: str, rounds: int) -> Iterator[Row]:
    dropped = nn.MultiheadAttention(d, h, dropout=0.1, batch_first=True).train()
    yield compare(
        "attention dropout",
        ("equation", _ours(x, d, h, AttentionDropout(scaled_dot_product_attention, 0.1))),
        ("nn.MultiheadAttention, dropout", _peer(x, dropped, False, True)),
        sizes,
        rounds,
    )
    yield compare(
        "relative attention",
        ("shifted", _ours(x, d, h, RelativeAttention(d, h))),
        ("equation", _ours(x, d, h, RelativeAttention(d, h, relative_attention))),
        sizes,
        rounds,
    )


def _ours(x: Tensor, d: int, h: int, mechanism: Mechanism) -> Callable[[], Tensor]:
    attention = MultiHead(d, h, mechanism)
    return lambda: attention(x, x, x).context


def _peer(x: Tensor, theirs: nn.MultiheadAttention, causal: bool, weights: bool) -> Callable[[], Tensor]:
    forbidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if causal else None
    return lambda: theirs(x, x, x, attn_mask=forbidden, is_causal=causal, need_weights=weights)[0]
