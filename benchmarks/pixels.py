"""Attention over pixels: non-local blocks and local attention, against the forms in which they are usually written.

The non-local peers follow AlexHex7's Non-local_pytorch, the most copied one: three 1 × 1 convolutions, and the explicit
N × N matrix. The local peer unfolds keys and values, as leaderj1001's Stand-Alone-Self-Attention does, with the paper's softmax
over the window (that repository computes it per channel, which is a different function).
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from benchmarks.timing import Row, compare
from course_lib.attention import (
    associative_dot_product,
    co_occurrent_features,
    local_attention,
    non_local_dot_product,
    non_local_embedded_gaussian,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_embedded_gaussian, sliced_local_attention, tiled_local_attention
from course_lib.primitives import window_mask

MAPS = ((4, 64, 32, 32), (2, 128, 48, 48))
NOTE = """A form that computes both N × N products can save at most the time of the softmax. The fused embedded Gaussian saves
all of it: it takes no longer than the two products alone. A softmax computed in blocks of queries was slower."""
WINDOWS = ((3, sliced_local_attention, "slices"), (7, tiled_local_attention, "tiles"), (11, tiled_local_attention, "tiles"))


def rows(rounds: int) -> Iterator[Row]:
    """Time the attention alone of non-local blocks, a bottleneck of half the features, and of local layers with four heads."""
    for sizes in MAPS:
        yield from _non_local(*sizes, rounds)
    for size, form, name in WINDOWS:
        for d in (16, 32):
            yield from _local(size, d, form, name, rounds)
    yield from _co_occurrent(rounds)


def _non_local(B: int, C: int, H: int, W: int, rounds: int) -> Iterator[Row]:
    torch.manual_seed(0)
    x = torch.randn(B, C, H, W, requires_grad=True)
    convolutions = [nn.Conv2d(C, C // 2, 1, bias=False) for _ in range(3)]
    weights = [convolution.weight.detach().flatten(1).requires_grad_() for convolution in convolutions]
    sizes = f"B {B}, C {C}, {H} × {W}"

    def embedded(form: Callable) -> Tensor:
        return form(x.flatten(2).mT, *weights).context.mT.unflatten(2, (H, W))

    def product(form: Callable) -> Tensor:
        pixels = x.flatten(2).mT
        theta, phi, g = (pixels @ torch.cat(weights).mT).chunk(3, dim=-1)
        return form(theta, phi, g).context.mT.unflatten(2, (H, W))

    peer = ("convolutions, softmax spelled out", lambda: _as_usual(x, convolutions, partial(torch.softmax, dim=-1)))
    equation = ("equation", lambda: embedded(non_local_embedded_gaussian))
    fused = ("one product, fused", lambda: embedded(fused_embedded_gaussian))
    yield compare("non-local, embedded Gaussian", fused, peer, sizes, rounds)
    yield compare("non-local, embedded Gaussian", fused, equation, sizes, rounds)
    peer = ("convolutions, θφᵀ spelled out", lambda: _as_usual(x, convolutions, lambda f: f / f.shape[-1]))
    equation = ("equation", lambda: product(non_local_dot_product))
    associative = ("from the right", lambda: product(associative_dot_product))
    yield compare("non-local, dot product", associative, peer, sizes, rounds)
    yield compare("non-local, dot product", associative, equation, sizes, rounds)


def _as_usual(x: Tensor, convolutions: list[nn.Module], normalise: Callable[[Tensor], Tensor]) -> Tensor:
    """As in https://github.com/AlexHex7/Non-local_pytorch, lib/non_local_embedded_gaussian.py and non_local_dot_product.py."""
    B, _, H, W = x.shape
    theta, phi, g = (convolution(x).view(B, -1, H * W) for convolution in convolutions)
    f = torch.matmul(theta.permute(0, 2, 1), phi)
    y = torch.matmul(normalise(f), g.permute(0, 2, 1))
    return y.permute(0, 2, 1).contiguous().view(B, -1, H, W)


def _local(size: int, d: int, form: Callable, name: str, rounds: int) -> Iterator[Row]:
    torch.manual_seed(0)
    B, heads, H, W = 2, 4, 32, 32
    maps = [torch.randn(B, heads, H, W, d, requires_grad=True) for _ in range(3)]
    offsets = [torch.randn(heads, size, d // 2, requires_grad=True) for _ in range(2)]
    ours = (name, lambda: form(*maps, *offsets).context)
    sizes = f"B {B}, {heads} heads, d {d}, {H} × {W}"
    yield compare(f"local attention, {size} × {size}", ours, ("unfold", lambda: _unfolded(*maps, *offsets)), sizes, rounds)
    equation = ("equation", lambda: local_attention(*maps, *offsets).context)
    yield compare(f"local attention, {size} × {size}", ours, equation, sizes, rounds)


def _unfolded(q: Tensor, k: Tensor, v: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Unfold keys and values of every window; products and sums are elementwise."""
    size = rows.shape[-2]
    heads, H, W = q.shape[1:4]

    def windows(x: Tensor) -> Tensor:
        image = rearrange(x, "B h H W d -> B (h d) H W")
        return rearrange(F.unfold(image, size, padding=size // 2), "B (h d n) (H W) -> B h d n H W", h=heads, n=size**2, H=H)

    relative = torch.cat([rows.unsqueeze(-2).expand(-1, -1, size, -1), columns.unsqueeze(-3).expand(-1, size, -1, -1)], dim=-1)
    relative = rearrange(relative, "h a b d -> h d (a b) 1 1")
    scores = (rearrange(q, "B h H W d -> B h d 1 H W") * (windows(k) + relative)).sum(2)
    inside = rearrange(window_mask(H, W, size), "H W n -> n H W")
    weights = scores.masked_fill(~inside, -torch.inf).softmax(2)
    return rearrange((weights.unsqueeze(2) * windows(v)).sum(3), "B h d H W -> B h H W d")


def _co_occurrent(rounds: int) -> Iterator[Row]:
    """Time the mixture of softmaxes against one softmax over the same pixels."""
    torch.manual_seed(0)
    B, N, C, n_mix = 2, 1024, 64, 2
    x, W_k, W_v = (torch.randn(*size, requires_grad=True) for size in ((B, N, C), (32, C), (32, C)))
    W_pi = torch.randn(n_mix, 32, requires_grad=True)
    ours = ("mixture of two softmaxes", lambda: co_occurrent_features(x, W_k, W_v, W_pi).context)
    one = ("one softmax", lambda: scaled_dot_product_attention(x @ W_k.mT, x @ W_k.mT, x @ W_v.mT).context)
    yield compare("co-occurrent features", ours, one, f"B {B}, N {N}, C {C}, d_k 32", rounds)
