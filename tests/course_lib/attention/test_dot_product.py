"""Scaled dot-product attention: the scale is √d_k, the future is hidden, and the fused forms compute the same."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GeneralAttention,
    attend,
    causal_attention,
    dot_attention,
    dot_scores,
    scaled_dot_product_attention,
)
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.primitives import causal_mask, padding_mask
from course_tools.notebook.memory import peak_memory

B, H, T_q, T_k, d_k, d_v = 2, 3, 5, 7, 11, 13


def inputs(normal, *batch, T_q=T_q, T_k=T_k):
    return normal(*batch, T_q, d_k), normal(*batch, T_k, d_k), normal(*batch, T_k, d_v)


def random_mask(*shape, seed=1):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] = True
    return mask


def blind_mask(*shape):
    mask = random_mask(*shape)
    mask[..., 1, :] = mask[0, ..., -1, :] = False
    return mask


def test_weights_by_hand():
    """q·k = 2 ln 3 and 0 at d_k = 4: after the scale ln 3 and 0, so 3 : 1."""
    q = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    k = torch.tensor([[math.log(3), 5.0, 5.0, 5.0], [0.0, 9.0, 9.0, 9.0]])
    context, weights = scaled_dot_product_attention(q, k, torch.tensor([[4.0], [8.0]]))
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(context, torch.tensor([[5.0]]))


@pytest.mark.parametrize("size", [1, 2, 16, 101])
def test_scores_are_divided_by_the_square_root_of_d_k(size):
    """A query and a key of ones have the product d_k, hence the score √d_k, against 0 for a key of zeros."""
    ones = torch.ones(1, size, dtype=torch.float64)
    k = torch.cat([ones, 0 * ones])
    _, weights = scaled_dot_product_attention(ones, k, torch.zeros(2, d_v, dtype=torch.float64))
    torch.testing.assert_close(weights[0, 0] / weights[0, 1], torch.tensor(math.exp(math.sqrt(size)), dtype=torch.float64))


def test_the_scale_keeps_the_spread_of_scores_whatever_the_size_of_the_keys(normal):
    def spread(size):
        q, k = normal(101, size).detach(), normal(103, size).detach()
        return scaled_dot_product_attention(q, k, k).weights.log().diff(dim=-1).std() / math.sqrt(2)

    for size in (5, 64, 1024):
        assert spread(size).item() == pytest.approx(1, abs=0.1)


def test_it_is_dot_attention_of_scaled_queries(normal, agree):
    agree(scaled_dot_product_attention, lambda q, k, v: attend(dot_scores(q / d_k**0.5, k), v), *inputs(normal, B, H))


@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
def test_it_is_torchs_own(normal, agree, batch):
    mask = random_mask(*batch, T_q, T_k)
    ours = lambda q, k, v: scaled_dot_product_attention(q, k, v, mask).context  # noqa: E731
    agree(ours, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), *inputs(normal, *batch))


def test_it_is_the_equation_one_query_at_a_time(normal, agree):
    def by_loop(q, k, v):
        contexts = []
        for b in range(B):
            for i in range(T_q):
                shares = [torch.exp(sum(q[b, i] * k[b, j]) / math.sqrt(d_k)) for j in range(T_k)]
                contexts.append(sum(share * v[b, j] for j, share in enumerate(shares)) / sum(shares))
        return torch.stack(contexts).view(B, T_q, d_v)

    agree(lambda q, k, v: scaled_dot_product_attention(q, k, v).context, by_loop, *inputs(normal, B))


def test_the_order_of_the_queries_is_the_order_of_the_contexts(normal):
    q, k, v = inputs(normal, B)
    order = torch.tensor([3, 0, 4, 1, 2])
    context = scaled_dot_product_attention(q, k, v).context
    torch.testing.assert_close(scaled_dot_product_attention(q[:, order], k, v).context, context[:, order])


def test_a_key_that_equals_the_query_by_far_is_looked_up(normal):
    """Sharp enough, attention is a table: each query finds the value stored under its own key."""
    k, v = normal(T_k, 64), normal(T_k, d_v)
    order = torch.tensor([2, 6, 0, 5, 1])
    torch.testing.assert_close(scaled_dot_product_attention(30 * k[order], k, v).context, v[order])


def test_forbidden_keys_get_no_gradient_and_blind_queries_neither(normal):
    q, k, v = inputs(normal, B)
    mask = random_mask(B, T_q, T_k)
    mask[:, :, 3] = False
    mask[1, 2] = False
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    assert not weights[1, 2].any()
    assert not context[1, 2].any()
    context.exp().sum().backward()
    assert not q.grad[1, 2].any()
    assert not k.grad[:, 3].any()
    assert not v.grad[:, 3].any()
    assert all(t.grad.isfinite().all() and t.grad.any() for t in (q, k, v))


def test_gradients_against_differences(normal):
    mask = blind_mask(2, 3, 5)
    small = normal(2, 3, 7), normal(2, 5, 7), normal(2, 5, 2)
    for mechanism in (scaled_dot_product_attention, causal_attention):
        assert torch.autograd.gradcheck(lambda q, k, v, f=mechanism: tuple(f(q, k, v, mask)), small)
    for mechanism in (fused_scaled_dot_product_attention, fused_causal_attention):
        assert torch.autograd.gradcheck(lambda q, k, v, f=mechanism: f(q, k, v, mask).context, small)


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_causal_attention_hides_the_future(normal, mechanism):
    """The context of a position does not depend, by one bit, on what comes later."""
    q, k, v = inputs(normal, B, T_q=T_k)
    for t in range(T_k):
        context = mechanism(q, k, v).context
        future = torch.autograd.grad(context[:, t].square().sum(), (k, v))
        assert not any(gradient[:, t + 1 :].any() for gradient in future)
        assert all(gradient[:, : t + 1].any() for gradient in future[1:])


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_causal_attention_is_attention_over_each_prefix(normal, agree, mechanism):
    def prefix_by_prefix(q, k, v):
        rows = [scaled_dot_product_attention(q[:, t : t + 1], k[:, : t + 1], v[:, : t + 1]).context for t in range(T_k)]
        return torch.cat(rows, dim=1)

    agree(lambda q, k, v: mechanism(q, k, v).context, prefix_by_prefix, *inputs(normal, B, T_q=T_k))


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_the_last_queries_alone_get_what_they_got_among_all(normal, mechanism):
    """As in decoding with a cache: T_q < T_k, and the queries are the last."""
    q, k, v = inputs(normal, B, T_q=T_k)
    torch.testing.assert_close(mechanism(q[:, -T_q:], k, v).context, mechanism(q, k, v).context[:, -T_q:])


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_more_queries_than_keys_are_refused(normal, mechanism):
    q, k, v = inputs(normal, B, T_q=T_k, T_k=T_q)
    with pytest.raises(ValueError, match=f"{T_k} queries and {T_q} keys"):
        mechanism(q, k, v)


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_causal_and_padding_hide_what_either_hides(normal, mechanism):
    q, k, v = inputs(normal, B, T_q=T_k)
    lengths = torch.tensor([T_k, 3])
    context = mechanism(q, k, v, padding_mask(lengths, T_k)).context
    both = scaled_dot_product_attention(q, k, v, causal_mask(T_k) & padding_mask(lengths, T_k)).context
    torch.testing.assert_close(context, both)
    short = scaled_dot_product_attention(q[1, :3], k[1, :3], v[1, :3], causal_mask(3)).context
    torch.testing.assert_close(context[1, :3], short)


FUSED = [
    (scaled_dot_product_attention, fused_scaled_dot_product_attention),
    (causal_attention, fused_causal_attention),
]
MASKS = {
    "no mask": lambda T_q: None,
    "mask": lambda T_q: random_mask(B, H, T_q, T_k),
    "shared mask": lambda T_q: random_mask(T_q, T_k),
    "mask for all heads": lambda T_q: random_mask(B, 1, T_q, T_k),
    "mask for all sequences": lambda T_q: random_mask(1, H, T_q, T_k),
    "padding": lambda T_q: padding_mask(torch.tensor([T_k, 3]), T_k)[:, None],
    "blind rows": lambda T_q: blind_mask(B, H, T_q, T_k),
    "all blind": lambda T_q: torch.zeros(1, 1, 1, 1, dtype=torch.bool),
    "everything allowed": lambda T_q: torch.ones(T_k, dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("T_q", [T_q, T_k])
@pytest.mark.parametrize(("equation", "fused"), FUSED, ids=["full", "causal"])
def test_the_fused_twin_computes_the_same_values_and_gradients(normal, agree, equation, fused, T_q, mask):
    mask = mask(T_q)
    q, k, v = inputs(normal, B, H, T_q=T_q)
    agree(lambda q, k, v: fused(q, k, v, mask), lambda q, k, v: equation(q, k, v, mask).context, q, k, v)


@pytest.mark.parametrize(("equation", "fused"), FUSED, ids=["full", "causal"])
def test_the_fused_twin_takes_what_does_not_lie_side_by_side_in_memory(normal, agree, equation, fused):
    """Heads split by a view, features with a stride, keys in reverse order of axes."""
    q, k, v = normal(B, T_k, H, d_k), normal(B, H, d_k, T_k), normal(B, H, T_k, 2 * d_v)
    strided = lambda q, k, v: (q.transpose(1, 2), k.mT, v[..., ::2])  # noqa: E731
    assert not any(t.is_contiguous() for t in strided(q, k, v))
    agree(lambda *t: fused(*strided(*t)), lambda *t: equation(*strided(*t)).context, q, k, v)


@pytest.mark.parametrize("fused", [fused_scaled_dot_product_attention, fused_causal_attention])
def test_the_kernel_gets_no_mask_where_none_is_needed_and_features_side_by_side(normal, monkeypatch, fused):
    """With a mask or a stride between features, it would silently take a slower path; a good layout is not copied."""
    calls, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *t, **how: calls.append((t, how)) or kernel(*t, **how))
    q, k, v = normal(B, H, T_k, d_k), normal(B, H, d_k, T_k).mT, normal(B, H, T_k, d_v)
    fused(q, k, v)
    ((given, how),) = calls
    assert how.get("attn_mask") is None
    assert [t.stride(-1) for t in given] == [1, 1, 1]
    assert [t.data_ptr() for t in given[::2]] == [q.data_ptr(), v.data_ptr()]


def test_a_mask_for_all_heads_is_not_copied_for_each():
    """Then one training step needs hardly more memory than torch's own function under the same mask."""
    q, k, v = (torch.randn(2, 8, 128, 16, requires_grad=True) for _ in range(3))
    mask = random_mask(2, 1, 128, 128)
    ours = peak_memory(lambda: fused_scaled_dot_product_attention(q, k, v, mask).context.sum().backward())
    assert ours < 1.3 * peak_memory(lambda: F.scaled_dot_product_attention(q, k, v, mask).sum().backward())


@pytest.mark.parametrize("fused", [fused_scaled_dot_product_attention, fused_causal_attention])
def test_the_fused_twin_builds_no_weights(normal, fused):
    assert fused(*inputs(normal, B, H)).weights is None


@pytest.mark.parametrize(
    "mechanism",
    [scaled_dot_product_attention, causal_attention, fused_scaled_dot_product_attention, fused_causal_attention],
)
@pytest.mark.parametrize(("T_q", "T_k"), [(0, 7), (5, 0), (0, 0)])
def test_without_queries_or_keys_the_context_is_empty_or_zero(normal, mechanism, T_q, T_k):
    if mechanism in (causal_attention, fused_causal_attention):
        T_q = min(T_q, T_k)
    q, k, v = inputs(normal, B, H, T_q=T_q, T_k=T_k)
    context = mechanism(q, k, v).context
    assert context.shape == (B, H, T_q, d_v)
    assert not context.any()
    context.sum().backward()
    assert not any(t.grad.any() for t in (q, k, v))


BY_DOT_PRODUCTS = [scaled_dot_product_attention, causal_attention, dot_attention]


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("mechanism", [*BY_DOT_PRODUCTS, fused_scaled_dot_product_attention, fused_causal_attention])
def test_what_a_hidden_key_holds_reaches_no_gradient_of_keys_and_values(mechanism, garbage):
    """Keys and values of padding are NaN or infinite: results and gradients are the same as with zeros there.

    In the fused forms, this includes the gradients of the queries.
    """
    generator, n_real = torch.Generator().manual_seed(0), 4
    q, k, v = (torch.randn(2, 7, d, dtype=torch.float64, generator=generator) for d in (5, 5, 3))
    mask = (torch.arange(7) < n_real).expand(2, 1, 7)
    found = []
    for content in (0.0, garbage):
        inputs = [x.clone() for x in (q, k, v)]
        for x in inputs[1:]:
            x[:, n_real:] = content
        inputs = [x.requires_grad_() for x in inputs]
        attended = mechanism(*inputs, mask)
        fused, loss = attended.weights is None, attended.context.sin().sum()
        gradients = torch.autograd.grad(loss if fused else loss + attended.weights.square().sum(), inputs)
        found.append([attended.context, *gradients] if fused else [*attended, *gradients[1:]])
    assert all(x.isfinite().all() for x in found[1])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("mechanism", [scaled_dot_product_attention, dot_attention])
def test_nan_in_a_key_that_some_query_sees_is_not_hidden(mechanism):
    q, k, v = (torch.randn(2, 3, generator=torch.Generator().manual_seed(i)) for i in range(3))
    k[1] = torch.nan
    context = mechanism(q, k, v, torch.tensor([[True, False], [True, True]])).context
    assert context[0].isfinite().all()
    assert context[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [3, 100, 300, 1_000])
@pytest.mark.parametrize("mechanism", BY_DOT_PRODUCTS)
def test_in_half_precision_large_numbers_have_the_context_of_torchs_own(mechanism, scale, dtype):
    """Their scores exceed the range of float16: infinities of both signs would give NaN."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (scale * torch.randn(3, 7, 64, generator=generator) for _ in range(3))
    q, k, v = (x.to(dtype).requires_grad_() for x in (q, k, v))
    attended = mechanism(q, k, v)
    expected = F.scaled_dot_product_attention(
        q.double(),
        k.double(),
        v.double(),
        is_causal=mechanism is causal_attention,
        scale=1.0 if mechanism is dot_attention else None,
    )
    assert {x.dtype for x in attended} == {dtype}
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(attended.context.double(), expected, atol=4 * scale * eps, rtol=4 * eps)
    gradients = torch.autograd.grad(attended.context.float().mean(), (q, k, v))
    assert all(x.isfinite().all() for x in gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_bilinear_scores_are_formed_in_float32(dtype):
    """W is the identity, so that the scores are those of `dot_attention`, up to 10⁷."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (300 * torch.randn(3, 7, 64, generator=generator).to(dtype) for _ in range(3))
    assert (q.double() @ k.double().mT).abs().max() > 10 * 65_504
    general = GeneralAttention(64, 64).to(dtype)
    nn.init.eye_(general.W)
    found, expected = general(q, k, v), dot_attention(q, k, v)
    assert {x.dtype for x in found} == {dtype}
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found.context.float().mean(), general.parameters())
    assert all(x.isfinite().all() for x in gradients)


@pytest.mark.parametrize("mechanism", [scaled_dot_product_attention, causal_attention, dot_attention])
def test_under_autocast_to_float16_large_numbers_are_as_in_float32(mechanism):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (300 * torch.randn(3, 7, 64, generator=generator) for _ in range(3))
    with torch.autocast("cpu", torch.float16):
        assert not (q @ k.mT).isfinite().all()
        found = mechanism(q, k, v)
    assert {x.dtype for x in found} == {torch.float16}
    torch.testing.assert_close(found.context, mechanism(q, k, v).context.half())
