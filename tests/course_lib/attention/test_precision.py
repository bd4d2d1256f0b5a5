"""Every mechanism in float32 and bfloat16, on the CPU and on a GPU: values and gradients differ from float64 by rounding."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib.attention import (
    AdditiveAttention,
    AttentionLayer2d,
    ConcatAttention,
    GeneralAttention,
    LinearAttention,
    LocalPredictive,
    MultiHead,
    PerformerAttention,
    Pool,
    additive_scores,
    associative_dot_product,
    attend,
    attention_over_image,
    cached_step,
    causal_attention,
    causal_linear_attention,
    causal_performer_attention,
    co_occurrent_features,
    concat_scores,
    dot_attention,
    general_scores,
    local_attention,
    multi_head_attention,
    non_local_block,
    non_local_concatenation,
    non_local_dot_product,
    non_local_embedded_gaussian,
    non_local_gaussian,
    pool,
    recurrent_linear_attention,
    relative_attention,
    scaled_dot_product_attention,
)
from course_lib.fast import (
    chunked_linear_attention,
    fused_causal_attention,
    fused_dot_attention,
    fused_embedded_gaussian,
    fused_scaled_dot_product_attention,
    lean_linear_attention,
    lean_performer_attention,
    shifted_relative_attention,
    sliced_local_attention,
    tiled_local_attention,
)

B, H, T_q, T_k, d_k, d_v, d_a, C = 2, 3, 5, 7, 11, 13, 17, 3

MASK = torch.rand(B, T_q, T_k, generator=torch.Generator().manual_seed(1)) < 0.6
MASK[..., 0] = True
MASK[1, 2] = False
QKV = (B, T_q, d_k), (B, T_k, d_k), (B, T_k, d_v)
RELATIVE = *QKV, (T_k, d_k), (d_k,), (d_k,)
SELF = (B, T_k, d_k), (B, T_k, d_k), (B, T_k, d_v)
PROJECTIONS = (H * d_k, d_k), (H * d_k, d_k), (H * d_v, d_v), (d_k, H * d_v)

MODEL = (B, T_q, H * d_k), (B, T_k, H * d_k), (B, T_k, H * d_k)

EMBEDDED = (B, T_k, d_k), (d_a, d_k), (d_a, d_k), (d_v, d_k)
LOCAL = (B, 5, 7, d_k), (B, 5, 7, d_k), (B, 5, 7, d_v), (3, 4), (3, d_k - 4)

MASKED = {
    "attend": (lambda: attend, [(B, T_q, T_k), (B, T_k, d_v)]),
    "scaled dot-product": (lambda: scaled_dot_product_attention, QKV),
    "causal": (lambda: causal_attention, QKV),
    "fused": (lambda: fused_scaled_dot_product_attention, QKV),
    "fused causal": (lambda: fused_causal_attention, QKV),
    "dot": (lambda: dot_attention, QKV),
    "fused dot": (lambda: fused_dot_attention, QKV),
    "additive": (lambda: AdditiveAttention(d_k, d_k, d_a), QKV),
    "general": (lambda: GeneralAttention(d_k, d_k), QKV),
    "concat": (lambda: ConcatAttention(d_k, d_k, d_a), QKV),
    "local-p": (lambda: LocalPredictive(d_k, 2), QKV),
    "relative": (lambda: relative_attention, RELATIVE),
    "relative, shifted": (lambda: shifted_relative_attention, RELATIVE),
    "multi-head": (lambda: MultiHead(H * d_k, H), MODEL),
    "multi-head, fused": (lambda: MultiHead(H * d_k, H, fused_scaled_dot_product_attention), MODEL),
    "multi-head function": (lambda: partial(multi_head_attention, n_heads=H), [*QKV, *PROJECTIONS]),
}
"""The constructor of each mechanism that takes a mask, and the sizes of its tensors."""

UNMASKED = {
    "additive scores": (lambda: additive_scores, [*QKV[:2], (d_a, d_k), (d_a, d_k), (d_a,)]),
    "general scores": (lambda: general_scores, [*QKV[:2], (d_k, d_k)]),
    "concat scores": (lambda: concat_scores, [*QKV[:2], (d_a, 2 * d_k), (d_a,)]),
    "pooling": (lambda: pool, [(B, T_k, d_v), (d_a, d_v), (d_a,), (d_a,)]),
    "pooling layer": (lambda: Pool(d_v, d_a), [(B, T_k, d_v)]),
    "cached step": (
        lambda: cached_step,
        [(B, d_k), (B, H, T_k, d_k), (B, H, T_k, d_v), *PROJECTIONS[:2], (H * d_v, d_k), PROJECTIONS[3]],
    ),
    "linear": (LinearAttention, QKV),
    "linear, causal": (lambda: LinearAttention(mix=causal_linear_attention), SELF),
    "linear, chunked": (lambda: LinearAttention(mix=chunked_linear_attention), SELF),
    "linear, recurrent": (lambda: LinearAttention(mix=recurrent_linear_attention), SELF),
    "Performer": (lambda: PerformerAttention(d_k, d_a), QKV),
    "Performer, causal": (lambda: PerformerAttention(d_k, d_a, causal_performer_attention), SELF),
    "linear, lean": (lambda: lean_linear_attention, SELF),
    "Performer, lean": (lambda: partial(lean_performer_attention, omega=torch.randn(d_a, d_k)), SELF),
    "image": (lambda: attention_over_image, [(B, C, 5, 7), (d_k, C), (d_k, C), (d_v, C)]),
    "image layer": (lambda: AttentionLayer2d(C, d_k, d_v), [(B, C, 5, 7)]),
    "non-local, Gaussian": (lambda: non_local_gaussian, [(B, T_k, d_k), (d_v, d_k)]),
    "non-local, embedded": (lambda: non_local_embedded_gaussian, EMBEDDED),
    "non-local, embedded, fused": (lambda: fused_embedded_gaussian, EMBEDDED),
    "non-local, product": (lambda: non_local_dot_product, QKV),
    "non-local, product from the right": (lambda: associative_dot_product, QKV),
    "non-local, concatenation": (lambda: non_local_concatenation, [*QKV, (2 * d_k,)]),
    "non-local block": (lambda: non_local_block, [(B, C, 5, 7), (d_k, C), (d_k, C), (d_v, C), (C, d_v)]),
    "co-occurrent": (lambda: co_occurrent_features, [(B, T_k, d_k), (2 * C, d_k), (d_v, d_k), (C, 2 * C)]),
    "local": (lambda: local_attention, LOCAL),
    "local, slices": (lambda: sliced_local_attention, LOCAL),
    "local, tiles": (lambda: tiled_local_attention, LOCAL),
}

CASES = [pytest.param(f, s, m, id=f"{name}{' masked' * m}") for name, (f, s) in MASKED.items() for m in (False, True)]
CASES += [pytest.param(f, sizes, False, id=name) for name, (f, sizes) in UNMASKED.items()]

each_mechanism = pytest.mark.parametrize(("make", "sizes", "masked"), CASES)
each_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def values_and_gradients(mechanism, drawn, masked, dtype, device):
    inputs = [t.detach().to(device, dtype).requires_grad_() for t in drawn]
    if isinstance(mechanism, nn.Module):
        mechanism.to(device, dtype)
    if isinstance(mechanism, partial):
        fixed = {key: x.to(device) if isinstance(x, torch.Tensor) else x for key, x in mechanism.keywords.items()}
        mechanism = partial(mechanism.func, *mechanism.args, **fixed)
    out = mechanism(*inputs, **({"mask": MASK.to(device)} if masked else {}))
    values = [t for t in (out if isinstance(out, tuple) else (out,)) if t is not None]
    assert all(t.dtype == dtype and t.device.type == device for t in values)
    pulls = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).view(t.shape).to(device, dtype) for t in values]
    gradients = torch.autograd.grad(values, inputs, pulls)
    return [t.detach().cpu().double() for t in (*values, *gradients)]


def assert_only_rounding(make, sizes, masked, dtype, device, normal):
    """Both receive the same rounded numbers; they may differ by a few rounding units of the largest one."""
    torch.manual_seed(0)
    mechanism = make()
    if isinstance(mechanism, nn.Module):
        mechanism.to(dtype)
    drawn = [normal(*size, scale=0.5).detach().to(dtype) for size in sizes]
    there = values_and_gradients(mechanism, drawn, masked, dtype, device)
    exact = values_and_gradients(mechanism, drawn, masked, torch.float64, "cpu")
    unit = torch.finfo(dtype).eps * max(t.abs().max().item() for t in exact)
    assert all(t.isfinite().all() for t in there)
    torch.testing.assert_close(there, exact, rtol=0, atol=8 * unit)


@each_precision
@each_mechanism
def test_low_precision_costs_no_more_than_its_rounding(normal, make, sizes, masked, dtype):
    assert_only_rounding(make, sizes, masked, dtype, "cpu", normal)


@pytest.mark.gpu
@each_precision
@each_mechanism
def test_a_gpu_computes_the_same(normal, make, sizes, masked, dtype):
    assert_only_rounding(make, sizes, masked, dtype, "cuda", normal)
