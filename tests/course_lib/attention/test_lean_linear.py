"""The lean forms are causal linear attention and the causal Performer, chunk by chunk; only their inputs are stored."""

import pytest
import torch
from torch import nn

from course_lib.attention import (
    LinearAttention,
    MultiHead,
    PerformerAttention,
    causal_linear_attention,
    causal_performer_attention,
)
from course_lib.fast import chunked_linear_attention, lean_linear_attention, lean_performer_attention
from course_lib.primitives import elu_feature_map, orthogonal_projection, padding_mask
from course_tools.notebook import peak_memory

B, H, T, d_k, d_v, m = 2, 3, 7, 11, 13, 17


def inputs(normal, *batch, T=T):
    return normal(*batch, T, d_k), normal(*batch, T, d_k), normal(*batch, T, d_v)


def omega():
    return orthogonal_projection(m, d_k, torch.Generator().manual_seed(0)).double()


def by_prefix_sums(q, k, v):
    return causal_linear_attention(elu_feature_map(q), elu_feature_map(k), v)


@pytest.mark.parametrize("chunk", [1, 2, 5, 64, 131, 200])
def test_the_size_of_a_chunk_does_not_matter(normal, agree, chunk):
    q, k, v = inputs(normal, B, T=131)
    agree(lambda *x: lean_linear_attention(*x, chunk=chunk).context, by_prefix_sums, q, k, v)
    directions = omega()
    lean = lambda *x: lean_performer_attention(*x, omega=directions, chunk=chunk).context  # noqa: E731
    agree(lean, lambda *x: causal_performer_attention(*x, omega=directions).context, q, k, v)


def test_by_hand():
    """Features 7, then 1 and 2: the first position has only itself, 4; the second has 1·½ and 1·1½, so ¼ of 4, ¾ of 8."""
    q, k = torch.tensor([[7.0], [1.0]]), torch.tensor([[0.5], [1.5]])
    context = lean_linear_attention(q, k, torch.tensor([[4.0], [8.0]]), feature_map=torch.relu, chunk=1).context
    torch.testing.assert_close(context, torch.tensor([[4.0], [7.0]]))


def test_gradients_against_differences_over_several_chunks(normal):
    small, mask = (normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 2)), padding_mask(torch.tensor([5, 2]), 5)
    assert torch.autograd.gradcheck(lambda *x: lean_linear_attention(*x, mask, chunk=2).context, small)
    lean = lambda q, k, v, omega: lean_performer_attention(q, k, v, mask, omega=omega, chunk=2).context  # noqa: E731
    assert torch.autograd.gradcheck(lean, (*small, normal(7, 3)))


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_gradient_may_be_asked_of_one_input_alone(normal, asked):
    x = [each.detach() for each in inputs(normal, B)]
    x[asked].requires_grad_()
    found = [
        torch.autograd.grad(form(*x).sum(), x[asked])[0]
        for form in (lambda *x: lean_linear_attention(*x).context, by_prefix_sums)
    ]
    torch.testing.assert_close(*found)


def test_the_future_does_not_show_by_one_bit(normal):
    q, k, v = (x.detach() for x in inputs(normal, B, T=131))
    before = lean_linear_attention(q, k, v).context
    for t in (1, 63, 64, 65, 130):
        later = [torch.cat([x[:, :t], 1e3 + 1e3 * x[:, t:]], dim=1) for x in (q, k, v)]
        assert torch.equal(lean_linear_attention(*later).context[:, :t], before[:, :t])


@pytest.mark.parametrize("huge", [1e8, 1e20])
def test_a_huge_key_does_not_round_away_what_stood_before_it(huge):
    torch.manual_seed(0)
    q, k, v = torch.rand(2, 23, 3), torch.rand(2, 23, 3), torch.randn(2, 23, 7)
    k[:, 13] = huge
    context = lean_linear_attention(q, k, v, chunk=5).context
    torch.testing.assert_close(context.double(), by_prefix_sums(*(x.double() for x in (q, k, v))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "T"), [((B,), 0), ((0,), T), ((1,), 1), ((1, 1), 2), ((), 0)])
def test_the_smallest_sizes(normal, batch, T):
    q, k, v = inputs(normal, *batch, T=T)
    context = lean_linear_attention(q, k, v).context
    assert context.shape == v.shape
    context.sum().backward()
    assert all(T == 0 or x.grad.isfinite().all() for x in (q, k, v))


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_are_float32_under_autocast(twice):
    """Even if the backward pass itself runs under it."""
    torch.manual_seed(0)
    x, found = [torch.randn(B, 67, d_k, requires_grad=True) for _ in range(3)], []
    for enabled in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            form = lambda: lean_performer_attention(*x, omega=omega()).context + lean_linear_attention(*x).context  # noqa: E731
            found.append(torch.autograd.grad(form().square().sum(), x, create_graph=twice))
    torch.testing.assert_close(*found)


def test_where_every_feature_is_too_small_for_a_number_the_context_is_zero():
    q, k, v = (torch.full((1, T, d_k), -200.0, requires_grad=True) for _ in range(3))
    context = lean_linear_attention(q, k, v).context
    context.sum().backward()
    assert not context.any()
    assert not any(x.grad.any() for x in (q, k, v))


def test_padding_gets_no_gradient(normal):
    q, k, v = inputs(normal, B)
    lean_linear_attention(q, k, v, padding_mask(torch.tensor([T, 3]), T)).context.exp().sum().backward()
    assert k.grad[1, :3].any()
    assert not k.grad[1, 3:].any()
    assert not v.grad[1, 3:].any()


def test_a_constant_feature_map_averages_the_past(normal):
    q, k, v = inputs(normal, B)
    context = lean_linear_attention(q, k, v, feature_map=torch.ones_like).context
    torch.testing.assert_close(context, v.cumsum(1) / torch.arange(1.0, T + 1).double()[:, None])
    context.square().sum().backward()
    assert not q.grad.any()
    assert v.grad.any()


def test_a_feature_map_that_learns_is_refused(normal):
    q, k, v = inputs(normal, B)
    with pytest.raises(ValueError, match="chunked_linear_attention"):
        lean_linear_attention(q, k, v, feature_map=nn.Linear(d_k, 5).double())


def test_what_is_refused_by_the_other_causal_forms(normal):
    q, k, v = inputs(normal, B)
    with pytest.raises(ValueError, match="phi_k does not fit"):
        lean_linear_attention(q[:, :5], k, v)
    with pytest.raises(ValueError, match="causal_linear_attention"):
        lean_linear_attention(q, k, v, torch.ones(T, T, dtype=torch.bool))
    with pytest.raises(TypeError, match="mask"):
        lean_linear_attention(q, k, v, torch.ones(B, 1, T))


def test_in_multi_head_attention(normal):
    """The lean forms are mechanisms; the Performer's owns its directions as before."""
    torch.manual_seed(0)
    x, mask = normal(B, T, 24), padding_mask(torch.tensor([T, 3]), T)
    performers = [PerformerAttention(8, m, form) for form in (lean_performer_attention, causal_performer_attention)]
    for lean, kept in ((lean_linear_attention, LinearAttention(mix=chunked_linear_attention)), performers):
        layer, twin = (MultiHead(24, H, mechanism).double() for mechanism in (lean, kept))
        if lean is not lean_linear_attention:
            kept.load_state_dict(lean.state_dict())
        for name in ("W_q", "W_k", "W_v", "W_o"):
            getattr(twin, name).load_state_dict(getattr(layer, name).state_dict())
        torch.testing.assert_close(layer(x, x, x, mask).context, twin(x, x, x, mask).context)


def test_nothing_is_kept_but_the_inputs():
    x = [torch.rand(1, 1024, 32, requires_grad=True) for _ in range(3)]
    stored = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: stored.setdefault(t.data_ptr(), t), lambda t: t):
        lean_linear_attention(*x)
    assert set(stored) == {each.data_ptr() for each in x}


def test_training_takes_less_memory_than_fused_softmax_attention():
    """The claim of the form and of docs/performance.md: memory is counted, so the speed of the machine does not matter."""
    x = [torch.randn(1, 2, 1024, 32, requires_grad=True) for _ in range(3)]
    softmax = lambda: nn.functional.scaled_dot_product_attention(*x, is_causal=True).square().mean().backward()  # noqa: E731
    lean = lambda: lean_linear_attention(*x).context.square().mean().backward()  # noqa: E731
    lean(), softmax()
    assert peak_memory(lean) <= peak_memory(softmax)
