"""Linear attention at its limits: no, one and many positions; huge, tiny and low-precision numbers; errors; memory."""

import math

import pytest
import torch

from course_lib.attention import LinearAttention, causal_linear_attention, linear_attention
from course_lib.fast import chunked_linear_attention
from course_lib.primitives import causal_mask, elu_feature_map
from tests.course_lib.attention.examples import Sizes, examples
from tests.course_lib.attention.other_forms import recurrent_linear_attention

B, T_k, f, d_v = 2, 7, 11, 13
CAUSAL = (causal_linear_attention, chunked_linear_attention, recurrent_linear_attention)
each_causal_form = pytest.mark.parametrize("form", CAUSAL)
each_form = pytest.mark.parametrize("form", [linear_attention, *CAUSAL])


def inputs(normal, *batch, T_q=T_k, T_k=T_k):
    return normal(*batch, T_q, f), normal(*batch, T_k, f), normal(*batch, T_k, d_v)


def of_features(form, *rest):
    return lambda q, k, v: form(elu_feature_map(q), elu_feature_map(k), v, *rest)


@each_form
@pytest.mark.parametrize(("batch", "T"), [((B,), 0), ((0,), T_k), ((1,), 1), ((1, 1), 2), ((), 0)])
def test_the_smallest_sizes(normal, form, batch, T):
    q, k, v = inputs(normal, *batch, T_q=T, T_k=T)
    context = of_features(form)(q, k, v)
    assert context.shape == v.shape
    context.sum().backward()
    assert all(T == 0 or x.grad.isfinite().all() for x in (q, k, v))
    if T == 1:
        torch.testing.assert_close(context, v)


def test_queries_without_keys_get_nothing(normal):
    q, k, v = inputs(normal, B, T_k=0)
    context = of_features(linear_attention)(q, k, v)
    assert context.shape == (B, T_k, d_v)
    assert not context.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0, 1e4])
@each_form
def test_huge_and_tiny_entries_give_what_float64_gives(normal, form, scale, dtype):
    """Queries and keys of both signs; tiny ones give the plain average."""
    q, k, v = (x.detach() * s for x, s in zip(inputs(normal, B, T_q=67, T_k=67), (scale, scale, 1.0), strict=True))
    low = [x.to(dtype).requires_grad_() for x in (q, k, v)]
    there = of_features(form)(*low)
    exact = of_features(form)(*(x.detach().double() for x in low))
    torch.testing.assert_close(there.double(), exact, rtol=0, atol=16 * torch.finfo(dtype).eps)
    there.float().sum().backward()
    assert all(x.grad.isfinite().all() for x in low)


WITH_DEFINITION = {name: each for name, each in examples(Sizes(T_k, T_k)).items() if "linear" in name and each.equation}


@pytest.mark.parametrize("name", WITH_DEFINITION)
def test_small_features_give_the_averages_of_the_definition(name):
    """Their products are about 10⁻⁴³, and the quotients of their sums are of size 1."""
    example = WITH_DEFINITION[name]
    q, k, v = (x - shift for x, shift in zip(example.drawn(B, dtype=torch.float32), (50.0, 50.0, 0.0), strict=True))
    found, exact = example.form(q, k, v), example.equation(q.double(), k.double(), v.double())
    found = found if isinstance(found, torch.Tensor) else found.context
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)


def test_a_step_with_small_features_gives_the_average_of_the_definition(normal):
    q, k, v = (x.detach().float() - shift for x, shift in zip(inputs(normal, B), (50.0, 50.0, 0.0), strict=True))
    mechanism = LinearAttention(mix=causal_linear_attention)
    (context, _), _ = mechanism.step(q[:, -1:], k[:, -1:], v[:, -1:], mechanism.start(k[:, :-1], v[:, :-1]))
    torch.testing.assert_close(context, mechanism(q, k, v).context[:, -1:])
    assert context.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each_form
def test_where_every_feature_is_too_small_for_a_number_the_context_is_zero(form, dtype):
    q, k, v = (torch.full((1, T_k, f), -200.0, dtype=dtype, requires_grad=True) for _ in range(3))
    context = of_features(form)(q, k, v)
    context.sum().backward()
    assert not context.any()
    assert not any(x.grad.any() for x in (q, k, v))


@pytest.mark.parametrize("form", [chunked_linear_attention, recurrent_linear_attention, causal_linear_attention])
def test_a_long_sum_of_short_numbers_does_not_stall(form):
    """After 256 ones, a bfloat16 sum stops growing; each value is its position, so a context is half of its position."""
    T = 2_000
    ones = torch.ones(1, T, 1, dtype=torch.bfloat16)
    v = torch.arange(T).view(1, T, 1) / T
    context = form(ones, ones, v.bfloat16())
    assert context[0, -1].item() == pytest.approx(0.5, rel=0.02)


@each_form
def test_a_mask_that_differs_from_query_to_query_is_refused(normal, form):
    q, k, v = inputs(normal, B)
    with pytest.raises(ValueError, match="causal_linear_attention"):
        of_features(form, causal_mask(T_k))(q, k, v)
    with pytest.raises(ValueError, match="broadcast"):
        of_features(form, torch.ones(B, 1, T_k + 1, dtype=torch.bool))(q, k, v)
    with pytest.raises(TypeError, match="mask"):
        of_features(form, torch.ones(B, 1, T_k))(q, k, v)


@each_causal_form
def test_causal_forms_want_a_query_for_each_key(normal, form):
    with pytest.raises(ValueError, match="phi_k does not fit"):
        of_features(form)(*inputs(normal, B, T_q=5))


def test_the_chunked_form_keeps_no_state_for_each_position():
    """Its stored tensors grow with T · (f + d_v), those of the prefix sums with T · f · d_v."""

    def kept(form, T, size=32):
        x = [torch.rand(1, T, size, requires_grad=True) for _ in range(3)]
        stored = {}
        with torch.autograd.graph.saved_tensors_hooks(lambda t: stored.setdefault(t.data_ptr(), t), lambda t: t):
            form(*x)
        return sum(t.numel() for t in stored.values()) / (T * size)

    assert kept(chunked_linear_attention, 1024) < 8
    assert kept(causal_linear_attention, 1024) > 32
    assert math.isclose(kept(chunked_linear_attention, 2048), kept(chunked_linear_attention, 1024), rel_tol=0.05)
