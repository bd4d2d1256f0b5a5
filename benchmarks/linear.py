"""Linear attention against softmax, its own prefix sums and, in half precision, float32; the recurrent step; the Performer."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import Call, Row, compare, peer_from
from course_lib.attention import (
    Mechanism,
    PerformerAttention,
    causal_linear_attention,
    causal_performer_attention,
    chunked_delta_attention,
    delta_attention,
    linear_attention,
    linear_attention_step,
)
from course_lib.fast import (
    chunked_linear_attention,
    fused_causal_attention,
    fused_scaled_dot_product_attention,
    inplace_linear_attention_step,
    lean_linear_attention,
    lean_performer_attention,
)
from course_lib.primitives import favor_features, lean_elu_feature_map

B, H, D = 1, 8, 64
LENGTHS = (1_024, 2_048, 4_096, 8_192)
LONG = 16_384
CHUNKED_PERFORMER = partial(causal_performer_attention, mix=chunked_linear_attention)
PREFIX_SUMS_UNTIL = 2_048  # all their states: 256 MiB a thousand positions
DELTA_LENGTHS = (256, 1_024)
HALF_LENGTHS = (1_024, 4_096)
M = 256
PERFORMER_LENGTHS = (1_024, 4_096)
NOTE = """Where autograd differentiates the equation, or all chunks are computed at once, the features and what they are made of
are kept for the backward pass: two to three times the memory of fused softmax attention. The lean forms (section
linear_lean) keep none of it. Performer over all keys: its four matrix products take 64 % of our time, and
performer-pytorch needs the same ones; 1.7 times its speed would leave no time for the features. A third of a pass is the
operating system's handing out of pages: 33 ms instead of 50 where Python keeps freed memory, as `course.py` starts it.
From 8,192 positions on, chunks are computed for few heads at once, so that time stays linear in L. Against idiap's C++
kernel (not a package that builds here; its file compiled alone) ours takes 1.1 times less time with backward at L 1024
and d 64, 1.5 times less at L 4096, and as long at d 32: products of 64 × 32 are too
small for the matrix routine to be faster than a loop."""
LEAN_NOTE = """In a training step the lean forms compute every feature three times, but in pieces that stay in the processor's
cache. At L 1024 the causal Performer is slower than softmax attention: 256 features of a position are more work than the
512 keys that it sees on average."""


def rows(rounds: int) -> Iterator[Row]:
    """Time all forms on one sequence with eight heads; `long_rows` times the longest."""
    for T in LENGTHS:
        yield from _by_length(T, rounds)
    yield from _delta(rounds)
    yield from _half(rounds)
    yield from _steps(rounds)
    yield from _performers(rounds)


def long_rows(rounds: int) -> Iterator[Row]:
    """Time linear and softmax attention on the longest sequence, in a group of its own: softmax takes minutes."""
    yield from _by_length(LONG, rounds)


def lean_rows(rounds: int) -> Iterator[Row]:
    """Time the forms that keep nothing for the backward pass but their inputs."""
    for T in (*LENGTHS, LONG):
        q, k, v = _qkv(T)
        sizes = f"B {B}, {H} heads, L {T}, d {D}"
        softmax = ("softmax: F.sdpa", _of_module(fused_causal_attention, q, k, v))
        lean = ("lean: chunk after chunk", _of_module(lean_linear_attention, q, k, v))
        chunks = ("all chunks at once", _of_features(chunked_linear_attention, q, k, v))
        for peer in (chunks, softmax):
            yield compare("linear attention, causal", lean, peer, sizes, rounds)
        if T in PERFORMER_LENGTHS:
            layers = (PerformerAttention(D, M, form) for form in (lean_performer_attention, CHUNKED_PERFORMER))
            lean, chunks = ((name, _of_module(layer, q, k, v)) for (name, _), layer in zip((lean, chunks), layers, strict=True))
            for peer in (chunks, softmax):
                yield compare("Performer, causal", lean, peer, f"{sizes}, m {M}", rounds)


def _qkv(T: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(B, H, T, D, requires_grad=True) for _ in range(3))


def _of_features(form: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> Call:
    return lambda: form(lean_elu_feature_map(q), lean_elu_feature_map(k), v)


def _by_length(T: int, rounds: int) -> Iterator[Row]:
    q, k, v = _qkv(T)
    sizes = f"B {B}, {H} heads, L {T}, d {D}"
    chunks = ("chunks of 64", _of_features(chunked_linear_attention, q, k, v))
    if T <= PREFIX_SUMS_UNTIL:
        sums = ("prefix sums", _of_features(causal_linear_attention, q, k, v))
        yield compare("linear attention, causal", chunks, sums, sizes, rounds)
    softmax = ("softmax: F.sdpa", _of_module(fused_causal_attention, q, k, v))
    yield compare("linear attention, causal", chunks, softmax, sizes, rounds)
    full = ("equation", _of_features(linear_attention, q, k, v))
    softmax = ("softmax: F.sdpa", _of_module(fused_scaled_dot_product_attention, q, k, v))
    yield compare("linear attention, full", full, softmax, sizes, rounds)


def _delta(rounds: int) -> Iterator[Row]:
    """The delta rule with a decay: chunks, each by one triangular system, against the loop over positions."""
    for T in DELTA_LENGTHS:
        q, k, v = _qkv(T)
        chunks, loop = (_of_delta(form, q, k, v) for form in (chunked_delta_attention, delta_attention))
        sizes = f"B {B}, {H} heads, L {T}, d {D}"
        yield compare("gated delta rule", ("chunks of 64", chunks), ("position by position", loop), sizes, rounds)


def _of_delta(form: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> Call:
    return lambda: form(q, F.normalize(k, dim=-1), v, k[..., 0].sigmoid(), F.logsigmoid(q[..., 0] + 4))


def _half(rounds: int) -> Iterator[Row]:
    """Half precision, with sums in float32, against float32: the cost of converting inputs, context and gradients."""
    for T in HALF_LENGTHS:
        full = _qkv(T)
        for dtype in (torch.float16, torch.bfloat16):
            half = tuple(x.detach().to(dtype).requires_grad_() for x in full)
            name, sizes = str(dtype).removeprefix("torch."), f"B {B}, {H} heads, L {T}, d {D}"
            for mechanism, form in (("full", linear_attention), ("causal", chunked_linear_attention)):
                ours, peer = (name, _of_features(form, *half)), ("float32", _of_features(form, *full))
                yield compare(f"linear attention, {mechanism}", ours, peer, sizes, rounds)


def _steps(rounds: int) -> Iterator[Row]:
    """Write 64 tokens for 32 texts; the peer computes in the manner of fast-transformers' recurrent attention, by einsum."""
    torch.manual_seed(0)
    n, sizes = 64, (32, H)
    q, k, v = (lean_elu_feature_map(torch.randn(n, *sizes, D)) for _ in range(3))

    def write(step: Callable[..., tuple[Tensor, ...]]) -> Tensor:
        S, z = torch.zeros(*sizes, D, D), torch.zeros(*sizes, D)
        for t in range(n):
            context, S, z = step(S, z, q[t], k[t], v[t])
        return context

    for name, step in (("equation", linear_attention_step), ("in place", inplace_linear_attention_step)):
        ours, peer = (name, lambda step=step: write(step)), ("fast-transformers' equations", lambda: write(_by_einsum))
        yield compare("linear attention, step", ours, peer, f"B 32, {H} heads, d {D}, {n} tokens", rounds, trains=False)


def _by_einsum(S: Tensor, z: Tensor, phi_q: Tensor, phi_k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As RecurrentLinearAttention does where no gradient is asked for (https://github.com/idiap/fast-transformers)."""
    z += phi_k
    S += torch.einsum("nhd,nhm->nhdm", phi_k, v)
    normaliser = 1.0 / (torch.einsum("nhd,nhd->nh", phi_q, z) + 1e-6)
    return torch.einsum("nhd,nhdm,nh->nhm", phi_q, S, normaliser), S, z


def _performers(rounds: int) -> Iterator[Row]:
    """Against performer-pytorch, where that can be imported, and against the features as they are written."""
    for T in PERFORMER_LENGTHS:
        q, k, v = _qkv(T)
        sizes = f"B {B}, {H} heads, L {T}, d {D}, m {M}"
        layer, causal = PerformerAttention(D, M), PerformerAttention(D, M, CHUNKED_PERFORMER)
        ours = ("softmax features", _of_module(layer, q, k, v))
        if peer := peer_from("performer_pytorch", "FastAttention"):
            theirs = peer[0](D, M, causal=False)
            peer = ("performer-pytorch", lambda theirs=theirs, q=q, k=k, v=v: theirs(q, k, v))
            yield compare("Performer", ours, peer, sizes, rounds)
        yield compare("Performer", ours, ("features by the equation", _plainly(q, k, v, layer.omega)), sizes, rounds)
        softmax = ("softmax: F.sdpa", _of_module(fused_causal_attention, q, k, v))
        yield compare("Performer, causal", ("chunks of 64", _of_module(causal, q, k, v)), softmax, sizes, rounds)


def _of_module(mechanism: Mechanism, q: Tensor, k: Tensor, v: Tensor) -> Call:
    return lambda: mechanism(q, k, v).context


def _plainly(q: Tensor, k: Tensor, v: Tensor, omega: Tensor) -> Call:
    scale = D**-0.25
    return lambda: linear_attention(favor_features(scale * q, omega), favor_features(scale * k, omega), v)
