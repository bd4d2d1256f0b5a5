"""Cells, recurrent layers and back-propagation in float32 and bfloat16, on the CPU and on a GPU: rounding, and nothing else."""

from functools import partial

import pytest
import torch

from course_lib.fast import fused_gru, fused_lstm, hoisted_rnn
from course_lib.primitives import (
    GRU,
    LSTM,
    RNN,
    LearnedPositions,
    bptt_step,
    carousel_gradient,
    causal_mask,
    clip_gradients,
    encode,
    gru,
    gru_step,
    lstm,
    lstm_step,
    padding_mask,
    rnn,
    rnn_step,
    sinusoidal_positions,
)

B, T, d, n = 5, 7, 3, 11
LENGTHS = torch.tensor([7, 3, 0, 1, 7])


def over_time(run, padded, x, *rest):
    outputs, last = run(x, rest[:-4], *rest[-4:], lengths=LENGTHS.to(x.device) if padded else None)
    return outputs, *last


def encoded(x, *rest):
    return encode(x, LENGTHS.to(x.device), *rest)


def weights(gates):
    return [(gates * n, d), (gates * n, n), (gates * n,), (gates * n,)]


STEPS = {
    "rnn step": (rnn_step, [(B, d), (B, n), *weights(1)[:3]]),
    "lstm step": (lstm_step, [(B, d), (B, n), (B, n), *weights(4)[:3]]),
    "gru step": (gru_step, [(B, d), (B, n), *weights(3)]),
    "encode": (encoded, [(B, T, d), (B, n), *weights(1)[:3]]),
    "step back": (bptt_step, [(B, n), (B, d), (B, n), (B, n), *weights(1)[:2]]),
    "carousel": (carousel_gradient, [(T, B, n)]),
    "clip": (lambda *g: tuple(clip_gradients(g, 0.5)), [(n, d), (n,)]),
}
LAYERS = {
    f"{run.__name__}{' padded' * padded}": (partial(over_time, run, padded), [(B, T, d), *[(B, n)] * states, *weights(gates)])
    for run, gates, states in [
        (rnn, 1, 1),
        (hoisted_rnn, 1, 1),
        (lstm, 4, 2),
        (fused_lstm, 4, 2),
        (gru, 3, 1),
        (fused_gru, 3, 1),
    ]
    for padded in (False, True)
}
CASES = [pytest.param(f, sizes, id=name) for name, (f, sizes) in {**STEPS, **LAYERS}.items()]

each_primitive = pytest.mark.parametrize(("primitive", "sizes"), CASES)
each_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def values_and_gradients(primitive, drawn, dtype, device):
    inputs = [t.detach().to(device, dtype).requires_grad_() for t in drawn]
    out = primitive(*inputs)
    values = list(out) if isinstance(out, tuple) else [out]
    assert all(t.dtype == dtype and t.device.type == device for t in values)
    pulls = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).view(t.shape).to(device, dtype) for t in values]
    gradients = torch.autograd.grad(values, inputs, pulls)
    return [t.detach().cpu().double() for t in (*values, *gradients)]


def assert_only_rounding(primitive, sizes, dtype, device, normal):
    """Both receive the same rounded numbers; on a GPU, cuDNN may multiply float32 in TF32, which keeps ten bits."""
    drawn = [normal(*size, scale=0.3).detach().to(dtype) for size in sizes]
    there = values_and_gradients(primitive, drawn, dtype, device)
    exact = values_and_gradients(primitive, drawn, torch.float64, "cpu")
    eps = torch.finfo(dtype).eps if device == "cpu" else max(torch.finfo(dtype).eps, 2**-10)
    assert all(t.isfinite().all() for t in there)
    torch.testing.assert_close(there, exact, rtol=0, atol=8 * eps * max(t.abs().max().item() for t in exact))


@each_precision
@each_primitive
def test_low_precision_costs_no_more_than_its_rounding(normal, primitive, sizes, dtype):
    assert_only_rounding(primitive, sizes, dtype, "cpu", normal)


@pytest.mark.gpu
@each_precision
@each_primitive
def test_a_gpu_computes_the_same(normal, primitive, sizes, dtype):
    assert_only_rounding(primitive, sizes, dtype, "cuda", normal)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [RNN, LSTM, GRU])
def test_a_layer_moves_to_a_gpu_whole(kind):
    torch.manual_seed(0)
    module = kind(d, n)
    x = torch.randn(B, T, d)
    here, _ = module(x)
    there, last = module.cuda()(x.cuda())
    assert all(t.is_cuda for t in (there, *last))
    torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "form"), [(LSTM, fused_lstm), (GRU, fused_gru)])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
def test_a_fast_layer_has_on_a_gpu_the_gradients_of_a_cpu(kind, form, lengths):
    torch.manual_seed(0)
    module = kind(d, n, form)
    x = torch.randn(B, T, d)
    module(x, lengths=lengths)[0].square().sum().backward()
    here = [p.grad for p in module.parameters()]
    module.zero_grad()
    module.cuda()(x.cuda(), lengths=None if lengths is None else lengths.cuda())[0].square().sum().backward()
    for there, gradient in zip(module.parameters(), here, strict=True):  # cuDNN multiplies in TF32, with ten bits
        torch.testing.assert_close(there.grad.cpu(), gradient, atol=8 * 2**-10 * gradient.abs().max().item(), rtol=0)


@pytest.mark.gpu
def test_masks_and_positions_are_made_on_a_gpu():
    for made in (
        lambda device: causal_mask(T, n, device=device),
        lambda device: padding_mask(LENGTHS.to(device), T),
        lambda device: sinusoidal_positions(T, d, device=device),
    ):
        there = made("cuda")
        assert there.is_cuda
        torch.testing.assert_close(there.cpu(), made("cpu"), atol=1e-5, rtol=0)
    assert LearnedPositions(T, d).cuda()(3).is_cuda
