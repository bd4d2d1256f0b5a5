"""The Performer estimates softmax attention: exact in the limit of many features, always finite, exactly causal."""

import math

import pytest
import torch

from course_lib.attention import (
    MultiHead,
    PerformerAttention,
    causal_attention,
    causal_linear_attention,
    causal_performer_attention,
    kernel_attention,
    linear_attention,
    performer_attention,
    scaled_dot_product_attention,
)
from course_lib.attention.performer import key_features, query_features
from course_lib.fast import lean_performer_attention
from course_lib.primitives import favor_features, gaussian_projection, orthogonal_projection, padding_mask
from tests.course_lib.attention.other_forms import recurrent_linear_attention

B, H, T_q, T_k, d_k, d_v, m = 2, 3, 5, 7, 11, 13, 17
each_form = pytest.mark.parametrize("form", [performer_attention, causal_performer_attention])


def inputs(normal, *batch, T_q=T_k, T_k=T_k, scale=1.0):
    return normal(*batch, T_q, d_k, scale=scale), normal(*batch, T_k, d_k, scale=scale), normal(*batch, T_k, d_v)


def omega(m=m, d=d_k, draw=orthogonal_projection, seed=0):
    return draw(m, d, torch.Generator().manual_seed(seed)).double()


def exact(form):
    return scaled_dot_product_attention if form is performer_attention else causal_attention


def error(form, normal, m, scale):
    q, k, v = (x.detach() for x in inputs(normal, 32, scale=scale))
    return (form(q, k, v, omega=omega(m)).context - exact(form)(q, k, v).context).square().mean().sqrt().item()


def test_by_hand():
    """One direction ω = 1, so φ(q) cancels: a key of √2 has exp(√2 ω - 1), one of 0 has 1, and the weights follow."""
    q, k = torch.tensor([[5.0]]), torch.tensor([[math.sqrt(2)], [0.0]])
    share = math.exp(math.sqrt(2) - 1)
    context = performer_attention(q, k, torch.tensor([[4.0], [8.0]]), omega=torch.ones(1, 1)).context
    torch.testing.assert_close(context, torch.tensor([[(4 * share + 8) / (share + 1)]]))


@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
def test_it_is_linear_attention_of_favor_features(normal, agree, batch):
    def plainly(q, k, v):
        phi_q, phi_k = (favor_features(x / d_k**0.25, omega()) for x in (q, k))
        return linear_attention(phi_q, phi_k, v)

    agree(lambda q, k, v: performer_attention(q, k, v, omega=omega()).context, plainly, *inputs(normal, *batch, T_q=T_q))


@pytest.mark.parametrize("mix", [causal_linear_attention, recurrent_linear_attention])
def test_the_causal_form_is_causal_linear_attention_of_favor_features(normal, agree, mix):
    def plainly(q, k, v):
        phi_q, phi_k = (favor_features(x / d_k**0.25, omega()) for x in (q, k))
        return mix(phi_q, phi_k, v)

    agree(lambda q, k, v: causal_performer_attention(q, k, v, omega=omega()).context, plainly, *inputs(normal, B, H))


def test_the_definition_by_features_of_queries_and_keys(normal):
    q, k, v = inputs(normal, B)
    phi_q, phi_k = query_features(q, omega()), key_features(k, omega())
    torch.testing.assert_close(phi_q.sum(-1), torch.ones(B, T_k).double())
    expected = kernel_attention(phi_q, phi_k, v).context
    torch.testing.assert_close(performer_attention(q, k, v, omega=omega()).context, expected)


@each_form
def test_at_small_logits_the_error_falls_like_one_over_the_root_of_m(normal, form):
    few, many = (error(form, normal, n, scale=0.5) for n in (4 * d_k, 64 * d_k))
    assert few / many == pytest.approx(4, rel=0.35)


@each_form
def test_at_large_logits_it_does_not(normal, form):
    few, many = (error(form, normal, n, scale=5.0) for n in (4 * d_k, 64 * d_k))
    assert few / many < 2


@pytest.mark.parametrize("lengths", [[T_k, 3], [T_k, 0]])
def test_hidden_keys_are_not_there(normal, agree, lengths):
    """However large they are: a hidden key does not contribute to the common factor."""
    mask = padding_mask(torch.tensor(lengths), T_k)
    q, k, v = inputs(normal, B)
    ours = lambda q, k, v: performer_attention(q, k, v, mask, omega=omega()).context  # noqa: E731
    plainly = lambda q, k, v: kernel_attention(query_features(q, omega()), key_features(k, omega()), v, mask).context  # noqa: E731
    agree(ours, plainly, q, k, v)
    loud = torch.where(mask.mT, k, 100 * torch.sign(k)).detach()
    torch.testing.assert_close(ours(q, loud, v), ours(q, k, v))


def test_the_causal_form_hides_padding_too(normal, agree):
    mask = padding_mask(torch.tensor([T_k, 3]), T_k)
    ours = lambda q, k, v: causal_performer_attention(q, k, v, mask, omega=omega()).context  # noqa: E731

    def plainly(q, k, v):
        causal = mask & torch.ones(T_k, T_k).tril().bool()
        return kernel_attention(query_features(q, omega()), key_features(k, omega()), v, causal).context

    agree(ours, plainly, *inputs(normal, B))


def test_the_causal_form_hides_the_future_by_one_bit(normal):
    q, k, v = (x.detach() for x in inputs(normal, B))
    before = causal_performer_attention(q, k, v, omega=omega()).context
    for t in range(1, T_k):
        later = (torch.cat([x[:, :t], 100 * x[:, t:]], dim=1) for x in (q, k, v))
        assert torch.equal(causal_performer_attention(*later, omega=omega()).context[:, :t], before[:, :t])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("size", [4, 64, 512])
@each_form
def test_queries_and_keys_of_any_length_give_finite_contexts_or_an_error(normal, form, size, scale, dtype):
    q, k, v = ((scale * normal(B, 67, size).detach()).to(dtype).requires_grad_() for _ in range(3))
    if form is causal_performer_attention and scale > 1:
        with pytest.raises(ValueError, match="queries and keys are too long"):
            form(q, k, v, omega=omega(2 * size, size).to(dtype))
        return
    context = form(q, k, v, omega=omega(2 * size, size).to(dtype)).context
    context.float().sum().backward()
    assert all(x.isfinite().all() for x in (context, q.grad, k.grad, v.grad))
    assert context.any(-1).all()
    assert (context.abs().amax(1) <= v.abs().amax(1) * (1 + 8 * torch.finfo(dtype).eps)).all()


def test_tiny_queries_and_keys_give_the_plain_average(normal):
    q, k, v = (x.detach().float() for x in inputs(normal, B, scale=1e-4))
    context = performer_attention(q, k, v, omega=omega().float()).context
    torch.testing.assert_close(context, v.mean(1, keepdim=True).expand_as(v), atol=1e-2, rtol=0)


def test_where_the_naive_features_vanish_the_estimate_goes_on(normal):
    """Keys of one and the same length: exp(-‖k‖²/2) is 0 in float32, but it is their common factor, and cancels."""
    q, k, v = (x.detach() for x in inputs(normal, B))
    k = 60 * torch.nn.functional.normalize(k, dim=-1)
    single = [x.float() for x in (q, k, v)]
    phi_k = favor_features(single[1] / d_k**0.25, omega().float())
    assert not phi_k.any()
    ours = performer_attention(*single, omega=omega().float()).context
    torch.testing.assert_close(ours.double(), performer_attention(q, k, v, omega=omega()).context, atol=1e-3, rtol=0)


@each_form
def test_gradients_against_differences(normal, form):
    small = normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 2), normal(7, 3)
    assert torch.autograd.gradcheck(lambda q, k, v, w: form(q, k, v, omega=w).context, small)


@each_form
@pytest.mark.parametrize(("batch", "T"), [((B,), 0), ((1,), 1), ((), 2)])
def test_the_smallest_sizes(normal, form, batch, T):
    q, k, v = inputs(normal, *batch, T_q=T, T_k=T)
    context = form(q, k, v, omega=omega()).context
    assert context.shape == v.shape
    if T == 1:
        torch.testing.assert_close(context, v)


def test_the_module_owns_its_directions_and_trains_nothing(normal):
    layer = PerformerAttention(d_k, m, causal_performer_attention, gaussian_projection, torch.Generator().manual_seed(0))
    assert not list(layer.parameters())
    torch.testing.assert_close(layer.state_dict(), {"omega": omega(draw=gaussian_projection).float()})
    q, k, v = (x.detach().float() for x in inputs(normal, B))
    before = layer(q, k, v)
    torch.testing.assert_close(before.context, causal_performer_attention(q, k, v, omega=layer.omega).context)
    assert before.weights is None
    layer.redraw(torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer.omega, omega(draw=gaussian_projection, seed=1).float())
    assert not torch.equal(layer(q, k, v).context, before.context)


def test_in_multi_head_attention(normal):
    torch.manual_seed(0)
    layer = MultiHead(24, H, PerformerAttention(8, 8 * 512, generator=torch.Generator().manual_seed(0))).double()
    twin = MultiHead(24, H).double()
    twin.load_state_dict({name: value for name, value in layer.state_dict().items() if "omega" not in name})
    x, mask = normal(B, T_k, 24), padding_mask(torch.tensor([T_k, 3]), T_k)
    torch.testing.assert_close(layer(x, x, x, mask).context, twin(x, x, x, mask).context, atol=0.05, rtol=0)


def test_a_hidden_key_takes_nothing_from_long_ones():
    """Their exponents are far below 0: next to a hidden key at 0, they would all be rounded to 0."""
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 3, 5), 20 * torch.randn(1, 7, 5), torch.randn(1, 7, 2)
    mask, directions = torch.tensor([[[True] * 5 + [False] * 2]]), orthogonal_projection(11, 5)
    hidden = performer_attention(q, k, v, mask, omega=directions).context
    torch.testing.assert_close(hidden, performer_attention(q, k[:, :5], v[:, :5], omega=directions).context)
    assert hidden.any()


def test_the_causal_form_refuses_keys_along_long_directions():
    """With 400 features ‖ω‖²/2 is about 200, and e^200 overflows float32, but not float64."""
    torch.manual_seed(0)
    directions = orthogonal_projection(11, 400)
    k = 400**0.25 * directions[None, :3]
    v = torch.randn(1, 3, 2)
    with pytest.raises(ValueError, match="vanish, or overflow"):
        causal_performer_attention(k, k, v, omega=directions)
    assert causal_performer_attention(*(x.double() for x in (k, k, v)), omega=directions.double()).context.isfinite().all()


@pytest.mark.parametrize("form", [causal_performer_attention, lean_performer_attention])
def test_features_that_vanish_are_refused_and_not_averaged_to_zero(form):
    """Where float64 still has the right context, float32 has it too, or says that it has none."""
    torch.manual_seed(0)
    k, v, directions = torch.randn(1, 19, 16), torch.randn(1, 19, 3), orthogonal_projection(64, 16)
    for length in (5, 7):
        exact = form(length * k.double(), length * k.double(), v.double(), omega=directions.double()).context
        found = form(length * k, length * k, v, omega=directions).context
        torch.testing.assert_close(found, exact.float(), atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="the features of all visible keys vanish, or overflow"):
        form(30 * k, 30 * k, v, omega=directions)


@pytest.mark.parametrize("form", [causal_performer_attention, lean_performer_attention])
def test_a_context_of_zero_that_is_right_is_not_refused(form):
    """A query whose keys are all hidden, and values of 0."""
    torch.manual_seed(0)
    k, v, directions = torch.randn(1, 7, 5), torch.randn(1, 7, 3), orthogonal_projection(11, 5)
    mask = torch.arange(7) > 2
    assert form(30 * k, k, v, mask[None, None], omega=directions).context[:, :3].eq(0).all()
    assert form(k, k, 0 * v, omega=directions).context.eq(0).all()
