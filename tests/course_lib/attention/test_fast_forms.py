"""Every fast form agrees with its equation: on broadcast, empty, strided, expanded, half-precision and masked inputs."""

import pytest
import torch
from jaxtyping import config

from course_lib.attention import (
    associative_dot_product,
    attend_edges,
    causal_linear_attention,
    linear_attention,
    linear_attention_step,
    non_local_dot_product,
)
from course_lib.blocks import token_mixing
from course_lib.fast import (
    chunked_linear_attention,
    csr_attend_edges,
    inplace_linear_attention_step,
    lean_token_mixing,
)
from course_lib.primitives import padding_mask
from tests.course_lib.attention.examples import Example, Sizes, examples
from tests.course_lib.attention.other_forms import dense_attend_edges
from tests.moved import moved

B, H, T, d, d_v = 2, 3, 5, 7, 11


@pytest.fixture(autouse=True)
def _shapes_are_not_checked():
    """Signatures have one `*batch` for all arguments; without pytest's shape checks, as for users, batch axes broadcast."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def forms_with_an_equation(T=T):
    """Forms whose equation is another function; those over edges have tests of their own below."""
    found = {name: each for name, each in examples(Sizes(T, T)).items() if each.equation}
    del found["csr_attend_edges"]
    found["lean_token_mixing"] = Example(
        lean_token_mixing, ((T, d),), ((d_v, T), (d_v,), (T, d_v), (T,)), equation=token_mixing
    )
    return {name: moved(each, dtype=torch.float64) for name, each in found.items()}


PAIRS = forms_with_an_equation()
MASKED = [name for name, example in PAIRS.items() if example.mask]
BATCHES = [
    ((), (B,), (B,)),
    ((B,), (), ()),
    ((B,), (B,), ()),
    ((B,), (1,), (B,)),
    ((B, 1), (B, H), (B, H)),
    ((H,), (B, 1), (B, H)),
    ((B, 2, H), (H,), (1, 1, H)),
    ((0,), (0,), (0,)),
    ((), (), ()),
]
each_pair = pytest.mark.parametrize("pair", PAIRS)
each_masked_pair = pytest.mark.parametrize("pair", MASKED)


def both(pair):
    return [lambda *x, form=form, **mask: context_of(form(*x, **mask)) for form in (PAIRS[pair].form, PAIRS[pair].equation)]


def context_of(result):
    return result if isinstance(result, torch.Tensor) else result.context


def drawn(pair, batches=((B, H),) * 3, of=PAIRS):
    """Items with batch axes of their own, and weights without."""
    items = of[pair].items
    each = [of[pair].drawn(*batch)[i] for i, batch in enumerate(batches[: len(items)])]
    return each + of[pair].drawn()[len(items) :]


def assert_agree(pair, inputs, **mask):
    results = []
    for form in both(pair):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        context = form(*leaves, **mask)
        gradients = torch.autograd.grad(context.square().sum(), leaves, allow_unused=True, materialize_grads=True)
        results.append((context, gradients))
    (context, gradients), (wanted, wanted_gradients) = results
    assert context.shape == wanted.shape
    torch.testing.assert_close(context, wanted)
    for found, exact in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(found, exact)


@each_pair
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_on_broadcast_batches(pair, batches):
    assert_agree(pair, drawn(pair, batches))


@each_masked_pair
@pytest.mark.parametrize("batches", BATCHES[:6], ids=str)
def test_on_broadcast_batches_under_a_mask_over_keys(pair, batches):
    batch = torch.broadcast_shapes(*batches[:2])
    mask = torch.ones(*batch, 1, T, dtype=torch.bool)
    mask[..., -2:] = False
    assert_agree(pair, drawn(pair, batches), mask=mask)


@each_pair
def test_on_sequences_without_positions(pair):
    assert_agree(pair, drawn(pair, of=forms_with_an_equation(0)))


@each_pair
def test_on_strided_and_expanded_inputs(pair):
    x, (fast, equation) = drawn(pair), both(pair)
    strided = [each.repeat_interleave(2, -1)[..., ::2] for each in x]
    torch.testing.assert_close(fast(*strided), equation(*x))
    turned = [each.mT.contiguous().mT if each.dim() > 1 else each for each in x]
    torch.testing.assert_close(fast(*turned), equation(*x))
    batch_last = [each.transpose(0, 1).contiguous().transpose(0, 1) if each.dim() > 1 else each for each in x]
    torch.testing.assert_close(fast(*batch_last), equation(*x))
    expanded = [each[:1, :1].expand(B, H, *each.shape[2:]) if each.shape[:2] == (B, H) else each for each in x]
    torch.testing.assert_close(fast(*expanded), equation(*(each.contiguous() for each in expanded)))


@each_pair
@pytest.mark.parametrize("loss", [lambda context: context.sum(), lambda context: context.square().sum()], ids=["sum", "square"])
def test_second_derivatives(pair, loss):
    """Of a gradient penalty; with the sum, the incoming gradient itself requires no gradient."""
    found = []
    for form in both(pair):
        leaves = [x.clone().requires_grad_() for x in drawn(pair)]
        first = torch.autograd.grad(loss(form(*leaves)), leaves, create_graph=True)
        found.append(
            torch.autograd.grad(sum(g.square().sum() for g in first), leaves, allow_unused=True, materialize_grads=True)
        )
    for fast, exact in zip(*found, strict=True):
        torch.testing.assert_close(fast, exact)


@each_pair
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_lower_precision_context_and_gradients_are_the_equations_up_to_rounding(pair, dtype):
    """The equation computes in float64, from the rounded inputs and parameters."""
    example, found = moved(PAIRS[pair], dtype=dtype), []
    rounded = [x.to(dtype) for x in drawn(pair)]
    for form, wide in ((example.form, dtype), (moved(example.equation, dtype=torch.float64), torch.float64)):
        leaves = [x.to(wide).requires_grad_() for x in rounded]
        context = context_of(form(*leaves))
        assert context.dtype == wide
        gradients = torch.autograd.grad(context.sum(), leaves, allow_unused=True, materialize_grads=True)
        found.append([context, *gradients])
    largest = max(exact.norm() for exact in found[1][1:])
    for low, exact in zip(*found, strict=True):
        assert (low.double() - exact).norm() <= 16 * torch.finfo(dtype).eps * max(exact.norm(), largest)


@pytest.mark.parametrize("pair", ["sliced_local_attention", "tiled_local_attention"])
def test_offsets_of_heads_that_the_inputs_do_not_have(normal, pair):
    q, k, v, rows, columns = drawn(pair, ((),) * 3)
    each = [normal(H, *x.shape) for x in (rows, columns)]
    assert_agree(pair, [q, k, v, *each])
    assert_agree(pair, [q, k, v, each[0], columns])


@each_masked_pair
@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_padding_that_holds_nan_or_infinity_has_no_effect(pair, poison):
    q, k, v, *weights = drawn(pair)
    mask = padding_mask(torch.tensor([3, 4]), T)[:, None]
    poisoned = [x.clone() for x in (k, v)]
    for x in poisoned:
        x[0, :, 3:], x[1, :, 4:] = poison, poison
    for form in both(pair):
        context = form(q, *poisoned, *weights, mask=mask)
        assert context.isfinite().all()
        torch.testing.assert_close(context, form(q, k, v, *weights, mask=mask))


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


def test_over_edges_that_occur_more_often_than_a_matrix_has_entries(normal):
    """torch's sparse product takes at most N² edges, in its backward pass."""
    edges, found = torch.tensor([[0, 0, 1, 1, 1, 0], [0, 0, 1, 0, 1, 1]]), []
    inputs = normal(H, 6).detach(), normal(H, 2, d).detach()
    for form in (csr_attend_edges, dense_attend_edges):
        leaves = [x.clone().requires_grad_() for x in inputs]
        results = form(*leaves, edges)
        found.append([*results, *torch.autograd.grad(sum(x.square().sum() for x in results), leaves)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", ["fused_scaled_dot_product_attention", "fused_causal_attention", "fused_dot_attention"])
def test_second_derivatives_of_torchs_kernel_name_the_equation(name):
    """Where values are as long as keys, torch chooses its kernel, which has none; above, it falls back to operations."""
    form, x = PAIRS[name].form, [torch.randn(B, T, d, requires_grad=True) for _ in range(3)]
    first = torch.autograd.grad(form(*x).context.square().sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(PAIRS[name].equation(*x).context.square().sum(), x))
    with pytest.raises(NotImplementedError, match="choose scaled_dot_product_attention"):
        sum(g.square().sum() for g in first).backward()


def test_torchs_kernel_passes_a_gradient_that_does_not_exist():
    x = torch.randn(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: PAIRS["fused_scaled_dot_product_attention"].form(x, 2 * x, 3 * x).context, (x,))
