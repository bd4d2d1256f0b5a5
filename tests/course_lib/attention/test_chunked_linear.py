"""Parts of the chunked form: chunks, states between them, and normalisers; `test_linear.py` compares it with the equation."""

import pytest
import torch

from course_lib.attention import causal_linear_attention, chunked_linear
from course_lib.attention.chunked_linear import LARGEST, in_chunks
from course_lib.attention.linear import divisor
from course_lib.fast import chunked_linear_attention

each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def test_chunks_are_consecutive_and_the_last_is_filled_up_with_zeros():
    chunks = in_chunks(torch.arange(5.0)[None, :, None], 3)
    assert chunks.tolist() == [[[[0.0], [1.0], [2.0]], [[3.0], [4.0], [0.0]]]]


@pytest.mark.parametrize("largest", [1, 2 * 23 * 7])
def test_sequences_may_be_computed_in_parts(monkeypatch, largest):
    torch.manual_seed(0)
    x, found = [torch.rand(5, 23, n, requires_grad=True) for n in (3, 3, 7)], []
    for each in (LARGEST, largest):
        monkeypatch.setattr(chunked_linear, "LARGEST", each)
        context = chunked_linear_attention(*x, chunk=5)
        found.append((context, *torch.autograd.grad(context.square().sum(), x)))
    torch.testing.assert_close(*found)


@each_device
@pytest.mark.parametrize("huge", [1e8, 1e20])
def test_a_huge_key_does_not_round_away_what_stood_before_it(device, huge):
    """Queries before the huge key, even in its chunk, attend to the small keys; those after it hardly attend to any other."""
    torch.manual_seed(0)
    T, chunk, place = 23, 5, 13
    phi_q, phi_k, v = torch.rand(2, T, 3), torch.rand(2, T, 3), torch.randn(2, T, 7)
    phi_k[:, place] = huge
    exact = causal_linear_attention(phi_q.double(), phi_k.double(), v.double())
    context = chunked_linear_attention(*(x.to(device) for x in (phi_q, phi_k, v)), chunk=chunk).cpu()
    torch.testing.assert_close(context.double(), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_divided_by_a_vanishing_normaliser_is_zero_and_has_no_gradient(dtype):
    n = torch.tensor([0.0, -0.0, torch.finfo(dtype).tiny, 1e-20, -2.0], dtype=dtype, requires_grad=True)
    quotient = 3 * n.detach() / divisor(n)
    assert quotient.tolist() == [0.0, 0.0, 0.0, 3.0, 3.0]
    quotient.sum().backward()
    assert n.grad[:3].tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(n.grad[3:], -3 / n[3:].detach())


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_are_float32_where_the_backward_pass_runs_under_autocast(twice):
    torch.manual_seed(0)
    x, found = [torch.rand(3, 67, 5, requires_grad=True) for _ in range(3)], []
    for enabled in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            context = chunked_linear_attention(*x, chunk=13)
            found.append(torch.autograd.grad(context.square().sum(), x, create_graph=twice))
    torch.testing.assert_close(*found)
