"""Every fast form agrees with its equation: on broadcast, empty, strided, expanded, half-precision and masked inputs."""

from functools import partial

import pytest
import torch
from jaxtyping import config

from course_lib.attention import (
    associative_dot_product,
    causal_attention,
    causal_linear_attention,
    causal_performer_attention,
    dense_attend_edges,
    dot_attention,
    kernel_attention,
    linear_attention,
    linear_attention_step,
    local_attention,
    non_local_dot_product,
    non_local_embedded_gaussian,
    performer_attention,
    recurrent_linear_attention,
    relative_attention,
    scaled_dot_product_attention,
)
from course_lib.attention.edge_attention import attend_edges
from course_lib.blocks import token_mixing
from course_lib.fast import (
    chunked_linear_attention,
    csr_attend_edges,
    fused_causal_attention,
    fused_dot_attention,
    fused_embedded_gaussian,
    fused_scaled_dot_product_attention,
    inplace_linear_attention_step,
    lean_linear_attention,
    lean_performer_attention,
    lean_token_mixing,
    shifted_relative_attention,
    sliced_local_attention,
    tiled_local_attention,
)
from course_lib.primitives import causal_mask, elu_feature_map, padding_mask

B, H, T, d, d_v = 2, 3, 5, 7, 11
OMEGA = torch.randn(13, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture(autouse=True)
def _shapes_are_not_checked():
    """Signatures have one `*batch` for all arguments; without pytest's shape checks, as for users, batch axes broadcast."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def features(form):
    return lambda q, k, v, mask=None: form(elu_feature_map(q), elu_feature_map(k), v, mask)


def causal_kernel(phi_q, phi_k, v, mask=None):
    causal = causal_mask(phi_q.shape[-2])
    return kernel_attention(phi_q, phi_k, v, causal if mask is None else causal & mask).context


def relative(form):
    """With the same distances and biases for each length."""
    r, u, w = (torch.randn(size, d, generator=torch.Generator().manual_seed(2), dtype=torch.float64) for size in (T, 1, 1))
    return lambda q, k, v, mask=None: form(q, k, v, r[: k.shape[-2]], u[0], w[0], mask)


PAIRS = {
    "fused scaled": (fused_scaled_dot_product_attention, scaled_dot_product_attention),
    "fused causal": (fused_causal_attention, causal_attention),
    "fused dot": (fused_dot_attention, dot_attention),
    "shifted relative": (relative(shifted_relative_attention), relative(relative_attention)),
    "linear": (features(linear_attention), features(lambda *x: kernel_attention(*x).context)),
    "prefix sums": (features(causal_linear_attention), features(causal_kernel)),
    "chunked": (features(partial(chunked_linear_attention, chunk=2)), features(causal_kernel)),
    "recurrent": (features(recurrent_linear_attention), features(causal_kernel)),
    "lean linear": (partial(lean_linear_attention, chunk=2), features(causal_kernel)),
    "lean performer": (
        partial(lean_performer_attention, omega=OMEGA, chunk=2),
        partial(causal_performer_attention, omega=OMEGA, mix=causal_kernel),
    ),
}
UNMASKED = {
    "associative": (associative_dot_product, non_local_dot_product),
    "causal performer": (
        partial(causal_performer_attention, omega=OMEGA),
        partial(causal_performer_attention, omega=OMEGA, mix=causal_kernel),
    ),
}
BATCHES = [
    ((), (B,), (B,)),
    ((B,), (), ()),
    ((B,), (B,), ()),
    ((B,), (1,), (B,)),
    ((B, 1), (B, H), (B, H)),
    ((H,), (B, 1), (B, H)),
    ((B, 2, H), (H,), (1, 1, H)),
    ((0,), (0,), (0,)),
]
each_pair = pytest.mark.parametrize("pair", PAIRS)
every_pair = pytest.mark.parametrize("pair", [*PAIRS, *UNMASKED])


SIDES = 5, 6
WITH_WEIGHTS = {
    "sliced local": (sliced_local_attention, local_attention, ((*SIDES, d), (*SIDES, d), (*SIDES, d_v)), ((3, 3), (3, d - 3))),
    "tiled local": (tiled_local_attention, local_attention, ((*SIDES, d), (*SIDES, d), (*SIDES, d_v)), ((3, 3), (3, d - 3))),
    "fused embedded gaussian": (
        fused_embedded_gaussian,
        non_local_embedded_gaussian,
        ((T, d),),
        ((3, d), (3, d), (d_v, d)),
    ),
    "lean token mixing": (lean_token_mixing, token_mixing, ((T, d),), ((d_v, T), (d_v,), (T, d_v), (T,))),
}
"""Pairs with other inputs than q, k, v: the shapes of an item, and those of the learned tensors, shared by all items."""
with_weights = pytest.mark.parametrize("pair", WITH_WEIGHTS)


def both(pair):
    fast, equation = {**PAIRS, **UNMASKED, **{name: forms[:2] for name, forms in WITH_WEIGHTS.items()}}[pair]
    return (lambda *x: context_of(fast(*x))), (lambda *x: context_of(equation(*x)))


def context_of(result):
    return result if isinstance(result, torch.Tensor) else result.context


def drawn(normal, batches=((B, H),) * 3, length=T):
    return [normal(*batch, length, size) for batch, size in zip(batches, (d, d, d_v), strict=True)]


def assert_agree(pair, inputs, *mask):
    fast, equation = both(pair)
    results = []
    for form in (fast, equation):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        context = form(*leaves, *mask)
        results.append(
            (context, torch.autograd.grad(context.square().sum(), leaves, allow_unused=True, materialize_grads=True))
        )
    (context, gradients), (wanted, wanted_gradients) = results
    assert context.shape == wanted.shape
    torch.testing.assert_close(context, wanted)
    for found, exact in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(found, exact)


@every_pair
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_on_broadcast_batches(normal, pair, batches):
    assert_agree(pair, drawn(normal, batches))


@each_pair
@pytest.mark.parametrize("batches", BATCHES[:6], ids=str)
def test_on_broadcast_batches_under_a_mask_over_keys(normal, pair, batches):
    batch = torch.broadcast_shapes(*batches[:2])
    mask = torch.ones(*batch, 1, T, dtype=torch.bool)
    mask[..., -2:] = False
    assert_agree(pair, drawn(normal, batches), mask)


@every_pair
def test_on_sequences_without_positions(normal, pair):
    assert_agree(pair, drawn(normal, length=0))


@every_pair
def test_on_strided_and_expanded_inputs(normal, pair):
    q, k, v = (x.detach() for x in drawn(normal))
    fast, equation = both(pair)
    strided = q.mT.contiguous().mT, k.repeat_interleave(2, -1)[..., ::2], v.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(fast(*strided), equation(q, k, v))
    expanded = [x[:1, :1].expand(B, H, *x.shape[2:]) for x in (q, k, v)]
    torch.testing.assert_close(fast(*expanded), equation(*(x.contiguous() for x in expanded)))


@every_pair
def test_second_derivatives(normal, pair):
    """Of a gradient penalty through a residual sum: the incoming gradient itself requires no gradient."""
    found = []
    leaves = [x.detach() for x in drawn(normal)]
    for form in both(pair):
        q, k, v = (x.clone().requires_grad_() for x in leaves)
        first = torch.autograd.grad((v + form(q, k, v)).sum(), (q, k, v), create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), (q, k, v)))
    for fast, exact in zip(*found, strict=True):
        torch.testing.assert_close(fast, exact)


def drawn_with_weights(normal, pair, batches=((B, H),) * 3):
    items, learned = WITH_WEIGHTS[pair][2:]
    return [normal(*batch, *shape) for batch, shape in zip(batches, items, strict=False)] + [
        normal(*shape) for shape in learned
    ]


@with_weights
@pytest.mark.parametrize("batches", [*BATCHES, ((B, 1), (1, B), (B, B)), ((), (), ())], ids=str)
def test_with_weights_on_broadcast_batches(normal, pair, batches):
    assert_agree(pair, drawn_with_weights(normal, pair, batches))


@pytest.mark.parametrize("pair", ["sliced local", "tiled local"])
def test_offsets_of_heads_that_the_inputs_do_not_have(normal, pair):
    q, k, v, rows, columns = drawn_with_weights(normal, pair, ((),) * 3)
    each = [normal(H, *x.shape) for x in (rows, columns)]
    assert_agree(pair, [q, k, v, *each])
    assert_agree(pair, [q, k, v, each[0], columns])


@with_weights
def test_with_weights_on_strided_and_expanded_inputs(normal, pair):
    x = [each.detach() for each in drawn_with_weights(normal, pair)]
    fast, equation = both(pair)
    strided = [each.repeat_interleave(2, -1)[..., ::2] for each in x]
    torch.testing.assert_close(fast(*strided), equation(*x))
    turned = [each.mT.contiguous().mT if each.dim() > 1 else each for each in x]
    torch.testing.assert_close(fast(*turned), equation(*x))
    expanded = [each[:1, :1].expand(B, H, *each.shape[2:]) if each.shape[:2] == (B, H) else each for each in x]
    torch.testing.assert_close(fast(*expanded), equation(*(each.contiguous() for each in expanded)))


@with_weights
def test_second_derivatives_with_weights(normal, pair):
    drawn, found = [x.detach() for x in drawn_with_weights(normal, pair, ((),) * 3)], []
    for form in both(pair):
        leaves = [x.clone().requires_grad_() for x in drawn]
        first = torch.autograd.grad(form(*leaves).square().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
    for fast, exact in zip(*found, strict=True):
        torch.testing.assert_close(fast, exact)


@with_weights
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_with_weights(normal, pair, dtype):
    x = [each.detach() for each in drawn_with_weights(normal, pair)]
    fast, equation = both(pair)
    exact, half = equation(*x), fast(*(each.to(dtype) for each in x))
    assert half.dtype == dtype
    assert (half - exact).norm() / exact.norm() < 0.05


@each_pair
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_padding_that_holds_nan_or_infinity_has_no_effect(normal, pair, poison):
    q, k, v = (x.detach() for x in drawn(normal))
    mask = padding_mask(torch.tensor([3, 4]), T)[:, None]
    poisoned = [x.clone() for x in (k, v)]
    for x in poisoned:
        x[0, :, 3:], x[1, :, 4:] = poison, poison
    for form in both(pair):
        context = form(q, *poisoned, mask)
        assert context.isfinite().all()
        torch.testing.assert_close(context, form(q, k, v, mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [64, 4096])
@pytest.mark.parametrize(
    "form", ["linear", "chunked", "performer", "causal performer", "lean", "lean performer", "scaled", "fused scaled"]
)
def test_half_precision_at_real_lengths(form, length, dtype):
    """The sums of 4,096 features overflow float16 and stop growing in bfloat16, unless they are computed in float32."""
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, length, 64, generator=generator) for _ in range(3))
    omega = torch.randn(32, 64, generator=generator)
    mechanism = {
        "linear": features(linear_attention),
        "chunked": features(chunked_linear_attention),
        "performer": partial(performer_attention, omega=omega),
        "causal performer": partial(causal_performer_attention, omega=omega),
        "lean": lean_linear_attention,
        "lean performer": partial(lean_performer_attention, omega=omega),
        "scaled": scaled_dot_product_attention,
        "fused scaled": fused_scaled_dot_product_attention,
    }[form]
    exact = context_of(mechanism(q, k, v))
    half = context_of(mechanism(q.to(dtype), k.to(dtype), v.to(dtype)))
    assert half.dtype == dtype
    error = (half.float() - exact).norm() / exact.norm()
    assert error < (0.02 if dtype == torch.float16 else 0.15)


@pytest.mark.parametrize("form", [linear_attention, causal_linear_attention, chunked_linear_attention])
def test_sums_are_float32_under_autocast(normal, form):
    phi_q, phi_k, v = (200 * torch.rand(1, 300, 17) for _ in range(3))
    with torch.autocast("cpu", torch.float16):
        context = form(phi_q, phi_k, v)
    torch.testing.assert_close(context, form(phi_q, phi_k, v))


@pytest.mark.parametrize("step", [linear_attention_step, inplace_linear_attention_step])
def test_a_step_under_autocast_reads_a_state_beyond_float16(step):
    S, z, one = torch.full((3, 3), 1e5), torch.full((3,), 1e5), torch.ones(3)
    with torch.autocast("cpu", torch.float16):
        context, S, z = step(S, z, one, one, one)
    assert context.tolist() == [1.0, 1.0, 1.0]
    assert (S.dtype, z.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_product_from_the_right_sums_over_many_positions_in_float32(dtype):
    """Products of about 25 over 4,096 positions sum to 100,000, but float16 ends at 65,504."""
    torch.manual_seed(0)
    theta, phi, g = (10 * torch.rand(1, 4096, 64).to(dtype) for _ in range(3))
    exact = non_local_dot_product(theta.double(), phi.double(), g.double()).context
    context = associative_dot_product(theta, phi, g).context
    assert context.dtype == dtype
    torch.testing.assert_close(context.double(), exact, rtol=torch.finfo(dtype).eps, atol=0)
    with torch.autocast("cpu", dtype):
        mixed = associative_dot_product(theta.float(), phi.float(), g.float()).context
    torch.testing.assert_close(mixed.double(), exact, rtol=1e-4, atol=0)


def test_a_step_from_a_half_state_returns_a_float32_state():
    ones = torch.ones(3, dtype=torch.float16)
    context, S, z = linear_attention_step(torch.full((3, 3), 6e4).half(), torch.full((3,), 6e4).half(), ones, 1e4 * ones, ones)
    assert (context.dtype, S.dtype, z.dtype) == (torch.float16, torch.float32, torch.float32)
    assert context.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("form", [csr_attend_edges, dense_attend_edges])
def test_second_derivatives_over_edges(normal, form):
    edges = torch.tensor([[0, 0, 1, 3, 3, 2], [1, 2, 0, 0, 1, 2]])
    found = []
    scores, values = normal(B, 6).detach(), normal(B, 4, d).detach()
    for each in (form, attend_edges):
        s, v = scores.clone().requires_grad_(), values.clone().requires_grad_()
        context, weights = each(s, v, edges)
        first = torch.autograd.grad((v + context).sum() + weights.square().sum(), (s, v), create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), (s, v)))
    for fast, exact in zip(*found, strict=True):
        torch.testing.assert_close(fast, exact)


OVER_EDGES = torch.tensor([[0, 0, 1, 3, 3, 2, 2], [1, 2, 0, 0, 1, 2, 0]])
every_edge_form = pytest.mark.parametrize("form", [attend_edges, csr_attend_edges])


@every_edge_form
@pytest.mark.parametrize(
    "batches",
    [((B,), ()), ((), (B,)), ((1, B), (B, 1)), ((B, 1), (B, H)), ((H,), (B, 1)), ((B, H), (H,)), ((1,), (B, H)), ((0,), (1,))],
    ids=str,
)
def test_over_edges_on_broadcast_batches(normal, form, batches):
    """Scores and values of other batch axes each, as in the dense form: context, weights and gradients."""
    inputs, found = (normal(*batches[0], 7).detach(), normal(*batches[1], 4, d).detach()), []
    for each in (form, dense_attend_edges):
        leaves = [x.clone().requires_grad_() for x in inputs]
        results = each(*leaves, OVER_EDGES)
        found.append([*results, *torch.autograd.grad(sum(x.square().sum() for x in results), leaves)])
    for fast, exact in zip(*found, strict=True):
        assert fast.shape == exact.shape
        torch.testing.assert_close(fast, exact)


@every_edge_form
@pytest.mark.parametrize("batches", [((2, 3), (3, 2)), ((6,), (2, 3))], ids=str)
def test_over_edges_batches_that_do_not_broadcast_are_refused(normal, form, batches):
    with pytest.raises(RuntimeError, match=r"must match|broadcastable"):
        form(normal(*batches[0], 7), normal(*batches[1], 4, d), OVER_EDGES)


@pytest.mark.parametrize("backward_too", [False, True], ids=["forward", "backward too"])
def test_over_edges_under_autocast(normal, backward_too):
    """Sparse products exist only in float32."""
    scores, values, found = normal(H, 7).float().detach(), normal(H, 4, d).float().detach(), []
    for enabled in (True, False):
        leaves = [x.bfloat16().to(torch.bfloat16 if enabled else torch.float32).requires_grad_() for x in (scores, values)]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            context = csr_attend_edges(*leaves, OVER_EDGES).context
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled and backward_too):
            context.square().sum().backward()
        found.append([context, *(x.grad for x in leaves)])
    for half, exact in zip(*found, strict=True):
        torch.testing.assert_close(half.float(), exact, rtol=1e-2, atol=1e-2)
