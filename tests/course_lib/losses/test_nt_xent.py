"""NT-Xent is a cross-entropy over the 2N × 2N matrix without its diagonal; lengths and order do not matter."""

import importlib
import itertools
import math

import jaxtyping
import pytest
import torch
import torch.nn.functional as F

from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.training import train

N, d = 5, 7
each_form = pytest.mark.parametrize("form", [nt_xent, lean_nt_xent])


@pytest.fixture(autouse=True)
def _small_bands(monkeypatch):
    """Let five pairs fill three bands of the lean form, which otherwise begins at 64 pairs."""
    lean = importlib.import_module("course_lib.fast.nt_xent")
    monkeypatch.setattr(lean, "FEWEST_PAIRS", 1)
    monkeypatch.setattr(lean, "BAND", 4)


def without_the_diagonal(a, b, temperature):
    """Cosines as a 2N × (2N - 1) matrix: every row loses the view's own entry, and the partner's column moves up by one."""
    z = torch.cat([a, b])
    cosines = torch.stack([torch.stack([F.cosine_similarity(x, y, dim=0) for y in z]) for x in z]) / temperature
    rows = torch.stack([torch.cat([row[:i], row[i + 1 :]]) for i, row in enumerate(cosines)])
    partners = [i + N - 1 if i < N else i - N for i in range(2 * N)]
    return F.cross_entropy(rows, torch.tensor(partners))


def as_the_paper_writes_it(a, b, temperature):
    """Algorithm 1: ℓ(i, j) for each of the 2N views, one at a time, and their sum over 2N."""
    z = [x / x.norm() for pair in zip(a, b, strict=True) for x in pair]
    total = 0.0
    for i in range(len(z)):
        exps = [torch.exp(z[i] @ z[k] / temperature) for k in range(len(z))]
        total = total - torch.log(exps[i ^ 1] / (sum(exps) - exps[i]))
    return total / len(z)


@each_form
@pytest.mark.parametrize("reference", [without_the_diagonal, as_the_paper_writes_it])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_it_is_the_cross_entropy_over_the_matrix_without_its_diagonal(form, reference, temperature, normal, agree):
    agree(lambda a, b: form(a, b, temperature), lambda a, b: reference(a, b, temperature), normal(N, d), normal(N, d, scale=9))


@pytest.mark.parametrize("pairs", [1, 2, 4, 5, 30])
@pytest.mark.parametrize("temperature", [0.02, 0.026, 0.2, 5.0])
def test_the_lean_form_is_the_equation(pairs, temperature, normal, agree):
    """Even where all other views point away, and every exponential is as small as it can be."""
    forms = [lambda a, b, form=form: form(a, b, temperature) for form in (lean_nt_xent, nt_xent)]
    agree(*forms, normal(pairs, d, scale=4), normal(pairs, d))
    apart = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([[-1.0, 1e-4]], requires_grad=True)
    torch.testing.assert_close(*(torch.autograd.grad(form(*apart), apart) for form in forms))


def test_the_lean_form_computes_half_of_the_matrix(monkeypatch):
    """Eight views in bands of two rows; each row begins at the diagonal. The equation keeps two matrices of 8 × 8."""
    monkeypatch.setattr(importlib.import_module("course_lib.fast.nt_xent"), "BAND", 2)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(tuple(x.shape)) or x, lambda x: x):
        lean_nt_xent(*torch.randn(2, 4, 1, requires_grad=True), 0.5)
    assert [shape for shape in kept if len(shape) == 2 and shape[1] > 1] == [(2, 8), (2, 6), (2, 4), (2, 2)]


@each_form
def test_two_pairs_by_hand(form):
    """Views on two axes, each equal to its partner: ln(e + 2) - 1 for every one of the four, at τ = 1."""
    views = torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    assert form(views, views, 1.0).item() == pytest.approx(math.log(math.e + 2) - 1)


@each_form
def test_a_single_pair_costs_nothing_and_moves_nothing(form, normal):
    a, b = normal(1, d), normal(1, d)
    loss = form(a, b, 0.1)
    loss.backward()
    assert abs(loss.item()) < 1e-13
    assert max(a.grad.abs().max(), b.grad.abs().max()) < 1e-13


def test_the_equation_gives_a_single_pair_exactly_0(normal):
    assert nt_xent(normal(1, d), normal(1, d), 0.1).item() == 0


@each_form
def test_views_that_are_all_equal_cost_the_logarithm_of_the_rivals(form):
    loss = form(torch.ones(N, d), torch.ones(N, d), 0.1)
    assert loss.item() == pytest.approx(math.log(2 * N - 1), rel=1e-5)


@each_form
def test_the_order_of_the_pairs_and_of_the_views_does_not_matter(form, normal, agree):
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    agree(lambda a, b: form(b[order], a[order], 0.3), lambda a, b: form(a, b, 0.3), normal(N, d), normal(N, d))


@each_form
def test_only_directions_count(form, normal):
    a, b = normal(N, d), normal(N, d)
    torch.testing.assert_close(form(1e6 * a, 1e-6 * b, 0.3), form(a, b, 0.3))


@each_form
def test_gradients_against_differences(form, normal):
    assert torch.autograd.gradcheck(lambda a, b: form(a, b, 0.5), (normal(N, d), normal(N, d)))


@each_form
@pytest.mark.parametrize("pairs", [1, N])
def test_second_derivatives_against_differences(form, pairs, normal):
    assert torch.autograd.gradgradcheck(lambda a, b: form(a, b, 0.5), (normal(pairs, d), normal(pairs, d)), atol=1e-4)


def test_a_gradient_penalty_is_that_of_the_equation(normal):
    """The incoming gradient requires no gradient itself, so only the formula can provide the second derivative."""
    found, a, b = [], normal(N, d), normal(N, d)
    for form in (nt_xent, lean_nt_xent):
        first = torch.autograd.grad(form(a, b, 0.3), a, create_graph=True)[0]
        found += torch.autograd.grad(first.square().sum(), a)
    torch.testing.assert_close(found[1], found[0])


@each_form
@pytest.mark.parametrize("temperature", [0.1, 2e-5, 1e-5, 1e-6])
def test_in_float16_a_small_temperature_gives_the_rounded_loss(form, temperature, normal):
    """1 / τ = 10⁶ is beyond float16, which ends at 65,504; the loss of views that agree is not."""
    a = normal(N, d).detach().half()
    for b in (a, (a + 0.3 * normal(N, d).detach()).half()):
        loss, exact = form(a, b, temperature), nt_xent(a.double(), b.double(), temperature)
        assert loss.dtype == torch.float16
        assert loss.isfinite() == (exact < 65504)
        torch.testing.assert_close(loss, exact.half(), rtol=torch.finfo(torch.float16).eps, atol=8 * 2**-24 / temperature)


@each_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("temperature", [1e-6, 0.1, 1e6])
def test_huge_and_tiny_logits_are_finite_and_right(form, dtype, size, temperature, normal):
    """Rounding of a cosine is one unit of its last place, times 1/τ; cosines within a row differ by 2 at most."""
    given = [(size * normal(N, d).detach()).to(dtype).requires_grad_() for _ in range(2)]
    loss = form(*given, temperature)
    loss.backward()
    exact = nt_xent(*(x.detach().double() for x in given), temperature)
    rounding = torch.finfo(dtype).eps * (8 / temperature + 4)
    torch.testing.assert_close(loss.detach().double(), exact, atol=rounding, rtol=4 * torch.finfo(dtype).eps)
    assert loss.dtype == dtype
    assert all(x.grad.isfinite().all() for x in given) or size < 1e-20


@each_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_zero_vector_is_at_a_right_angle_to_everyone(form, dtype):
    a, b = torch.eye(3, dtype=dtype), torch.eye(3, dtype=dtype)
    a[0] = 0
    a.requires_grad_()
    loss = form(a, b, 0.5)
    loss.backward()
    expected = (2 * math.log(5) + 4 * (math.log(math.exp(2) + 4) - 2)) / 6
    assert loss.item() == pytest.approx(expected, rel=8 * torch.finfo(dtype).eps)
    assert a.grad.isfinite().all()


@each_form
def test_inputs_that_are_no_pairs_are_refused(form, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"b does not fit: .* got a \(2, 3\), b \(4, 3\)"):
        form(torch.ones(2, 3), torch.ones(4, 3), 0.5)
    with pytest.raises(ValueError, match="one or more pairs"):
        form(torch.ones(0, 3), torch.ones(0, 3), 0.5)
    for temperature in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="temperature must be positive"):
            form(torch.ones(2, 3), torch.ones(2, 3), temperature)


@pytest.mark.gpu
@each_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_computes_the_same(form, dtype, normal):
    views = [normal(N, d).detach().to(dtype) for _ in range(2)]
    there = form(*(x.cuda() for x in views), 0.5)
    assert there.device.type == "cuda"
    exact = nt_xent(*(x.double() for x in views), 0.5)
    torch.testing.assert_close(there.cpu().double(), exact, atol=20 * torch.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backward_too", [False, True], ids=["forward", "backward too"])
def test_under_autocast_the_lean_form_computes_in_float32(normal, dtype, backward_too):
    found, views = [], [normal(N, d).detach().to(dtype) for _ in range(2)]
    for enabled in (True, False):
        given = [(x if enabled else x.float()).clone().requires_grad_() for x in views]
        with torch.autocast("cpu", dtype, enabled=enabled):
            loss = lean_nt_xent(*given, 0.1)
        with torch.autocast("cpu", dtype, enabled=enabled and backward_too):
            loss.backward()
        found.append([loss, *(x.grad.to(dtype) for x in given)])
    assert found[0][0].dtype == torch.float32
    for cast, exact in zip(*found, strict=True):
        torch.testing.assert_close(cast, exact)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_lean_form_trains_under_autocast(dtype):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(d, d), torch.randn(2, 11, d)
    steps = train(model, itertools.repeat(x), lambda m, x: lean_nt_xent(*m(x), 0.5), steps=40, lr=0.03, autocast=dtype)
    losses = [step.loss for step in steps]
    assert losses[-1] < 0.9 * losses[0]
