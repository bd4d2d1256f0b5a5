"""Feature maps: positive, unbiased estimates of exp(qᵀk), with an error that falls like 1/√m while the logits are small."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import (
    elu_feature_map,
    favor_features,
    gaussian_projection,
    lean_elu_feature_map,
    orthogonal_projection,
    orthogonalised,
    trigonometric_features,
)

B, T, d, m = 2, 5, 7, 11
PROJECTIONS = (gaussian_projection, orthogonal_projection)
RANDOM_FEATURES = (favor_features, trigonometric_features)
each_form = pytest.mark.parametrize("form", [elu_feature_map, lean_elu_feature_map])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pair(normal, size, scale=1.0):
    """One query and one key of a given length each, at a fixed angle."""
    q, k = F.normalize(normal(2, size).detach(), dim=-1)
    return math.sqrt(scale) * q, math.sqrt(scale) * k


def estimates(features, draw, q, k, n_draws, n_features):
    """Independent estimates of exp(qᵀk), one for each draw of the directions: all drawn at once, then split."""
    phi = features(torch.stack([q, k]), draw(n_draws * n_features, len(q), generator(1)).double())
    return n_draws * (phi[0] * phi[1]).view(-1, n_draws, n_features).sum((0, 2))


@each_form
def test_elu_plus_one_by_hand(form):
    x = torch.tensor([-1.0, 0.0, 2.0])
    torch.testing.assert_close(form(x), torch.tensor([math.exp(-1), 1.0, 3.0]))


@each_form
def test_it_is_torchs_elu_plus_one(form, normal, agree):
    agree(form, lambda x: F.elu(x) + 1, normal(B, T, d, scale=3.0))


@each_form
def test_its_slope_is_one_on_both_sides_of_zero(form):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(form(x), x)[0].item() == 1


@each_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_elu_plus_one_rounds_away_stays_positive(form, dtype):
    x = torch.tensor([-80.0, -40.0, -20.0], dtype=dtype)
    assert not (F.elu(x) + 1).any()
    torch.testing.assert_close(form(x), x.double().exp().to(dtype))


@each_form
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_huge_entries_have_finite_features_and_slopes(form, dtype):
    x = torch.tensor([-1e30, -1e4, 1e4, 1e30], dtype=dtype, requires_grad=True)
    phi = form(x)
    (slope,) = torch.autograd.grad(phi.sum(), x)
    torch.testing.assert_close(phi, torch.tensor([0.0, 0.0, 1e4, 1e30], dtype=dtype), rtol=1e-2, atol=0)
    assert slope.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_favor_features_by_hand():
    """x = (3, 4) has ‖x‖²/2 = 12.5; Ωx = 3 and 10; two features, so 1/√2."""
    omega = torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    expected = torch.tensor([math.exp(3 - 12.5), math.exp(10 - 12.5)]) / math.sqrt(2)
    torch.testing.assert_close(favor_features(torch.tensor([3.0, 4.0]), omega), expected)


def test_favor_features_one_number_at_a_time(normal, agree):
    def by_loop(x, omega):
        rows = [[math.e ** (sum(w * y) - sum(y * y) / 2) / math.sqrt(m) for w in omega] for y in x.view(-1, d)]
        return torch.stack([torch.stack(row) for row in rows]).view(B, T, m)

    agree(favor_features, by_loop, normal(B, T, d), normal(m, d))


def test_trigonometric_features_by_hand():
    """x = (π, 0) turns by π along (1, 0); e^{π²/2} is its size, one direction, so 2 features."""
    phi = trigonometric_features(torch.tensor([math.pi, 0.0]), torch.tensor([[1.0, 0.0]]))
    size = math.exp(math.pi**2 / 2)
    torch.testing.assert_close(phi, torch.tensor([-size, 0.0]), atol=1e-4, rtol=1e-5)


def test_trigonometric_features_are_cosines_of_differences(normal, agree):
    def directly(q, k, omega):
        size = (q.square().sum(-1) / 2 + k.square().sum(-1) / 2).exp()
        return size * ((q - k) @ omega.mT).cos().mean(-1)

    ours = lambda q, k, w: (trigonometric_features(q, w) * trigonometric_features(k, w)).sum(-1)  # noqa: E731
    agree(ours, directly, normal(B, T, d), normal(B, T, d), normal(m, d))


@pytest.mark.parametrize("features", RANDOM_FEATURES)
def test_gradients_against_differences(normal, features):
    assert torch.autograd.gradcheck(features, (normal(2, 3, 5), normal(7, 5)))


def test_positive_features_are_positive_and_trigonometric_ones_are_not(normal):
    x, omega = normal(101, d), normal(m, d)
    assert (favor_features(x, omega) > 0).all()
    assert (trigonometric_features(x, omega) < 0).any()


@pytest.mark.parametrize("draw", PROJECTIONS)
@pytest.mark.parametrize("features", RANDOM_FEATURES)
def test_the_estimate_of_the_kernel_is_unbiased(normal, features, draw):
    """Over 20,000 draws the mean lies within five standard errors, each below 1 %, of the exponential."""
    q, k = pair(normal, d, scale=0.5)
    drawn = estimates(features, draw, q, k, 20_000, 2 * d)
    standard_error = drawn.std() / math.sqrt(len(drawn))
    assert abs(drawn.mean() - (q @ k).exp()) < 5 * standard_error
    assert standard_error < 0.01 * (q @ k).exp()


@pytest.mark.parametrize("draw", PROJECTIONS)
def test_at_small_logits_the_error_falls_like_one_over_the_root_of_m(normal, draw):
    """Sixteen times the features, a quarter of the error."""
    q, k = pair(normal, d, scale=0.25)
    few, many = (estimates(favor_features, draw, q, k, 2_000, n * d).std().item() for n in (2, 32))
    assert few / many == pytest.approx(4, rel=0.1)


def test_at_large_logits_the_spread_of_one_feature_explodes(normal):
    """Its variance grows like exp(‖q + k‖²), lemma 2: to estimate well there takes exponentially many features."""
    relative = []
    for scale in (0.25, 1.0, 4.0):
        q, k = pair(normal, d, scale)
        q = k
        drawn = estimates(favor_features, gaussian_projection, q, k, 20_000, 1)
        relative.append((drawn.std() / (q @ k).exp()).item())
    torch.testing.assert_close(relative[0], math.sqrt(math.exp(4 * 0.25) - 1), rtol=0.15, atol=0)
    torch.testing.assert_close(relative[1], math.sqrt(math.exp(4) - 1), rtol=0.5, atol=0)
    assert relative[2] > 10 * relative[0]


@pytest.mark.parametrize(("features", "at_most"), [(favor_features, 0.95), (trigonometric_features, 0.5)])
def test_perpendicular_directions_estimate_better_than_independent_ones(normal, features, at_most):
    """At small logits: a little with positive features, much with trigonometric ones."""
    q, k = pair(normal, d, scale=0.25)
    iid, orthogonal = (estimates(features, draw, q, k, 20_000, d).var().item() for draw in PROJECTIONS)
    assert orthogonal < at_most * iid


def test_positive_features_are_better_where_the_kernel_is_small_and_worse_where_it_is_large(normal):
    """Lemma 2: the positive estimate's error vanishes with the kernel, the trigonometric one's does not."""
    q, _ = pair(normal, d, 1.5)
    spread = {
        (features, sign): estimates(features, gaussian_projection, q, sign * q, 20_000, d).std().item()
        for features in RANDOM_FEATURES
        for sign in (-1, 1)
    }
    assert spread[favor_features, -1] < 0.01 * spread[trigonometric_features, -1]
    assert spread[favor_features, 1] > spread[trigonometric_features, 1]


@pytest.mark.parametrize("rows", [0, 1, d - 1, d, d + 1, 2 * d, 3 * d + 2])
def test_directions_are_perpendicular_within_a_block_and_keep_their_lengths(rows):
    omega = gaussian_projection(rows, d, generator()).double()
    turned = orthogonalised(omega)
    assert turned.shape == (rows, d)
    torch.testing.assert_close(turned.norm(dim=1), omega.norm(dim=1))
    for block in turned.split(d):
        gram = block @ block.mT
        torch.testing.assert_close(gram, gram.diagonal().diag(), atol=1e-10, rtol=0)


def test_it_is_gram_and_schmidts_way():
    omega = gaussian_projection(2 * d + 3, d, generator()).double()
    turned = []
    for i, row in enumerate(omega):
        new = row.clone()
        for above in turned[i - i % d : i]:
            new = new - (row @ above) / (above @ above) * above
        turned.append(new / new.norm() * row.norm())
    torch.testing.assert_close(orthogonalised(omega), torch.stack(turned))


def test_orthogonalised_by_hand():
    """(0, 2) is unchanged; (3, 3) loses its projection onto it and keeps its length 3√2."""
    turned = orthogonalised(torch.tensor([[0.0, 2.0], [3.0, 3.0], [-1.0, 0.0]]))
    torch.testing.assert_close(turned, torch.tensor([[0.0, 2.0], [3 * math.sqrt(2), 0.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("draw", PROJECTIONS)
def test_each_direction_alone_is_standard_normal(draw):
    """Even the last row of a block, orthogonalised against all others: mean 0, covariance I, fourth moment 3."""
    source = generator(3)
    rows = torch.stack([draw(d, d, source)[-1] for _ in range(4_000)]).double()
    torch.testing.assert_close(rows.mean(0), torch.zeros(d).double(), atol=5 / math.sqrt(4_000), rtol=0)
    torch.testing.assert_close(rows.mT.cov(), torch.eye(d).double(), atol=5 * math.sqrt(2 / 4_000), rtol=0)
    assert rows.pow(4).mean().item() == pytest.approx(3, abs=0.3)


@pytest.mark.parametrize("draw", PROJECTIONS)
def test_a_generator_decides_the_directions(draw):
    assert torch.equal(draw(m, d, generator(7)), draw(m, d, generator(7)))
    assert not torch.equal(draw(m, d, generator(7)), draw(m, d, generator(8)))


@each_form
def test_the_gradient_of_elu_plus_1_is_1_from_0_on(form):
    """At 0 exactly, torch's relu and clamp differ between versions; the derivative of e^x and of x + 1 is 1."""
    x = torch.tensor([-1.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(form(x).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, torch.tensor([math.exp(-1), 1.0, 1.0]).double())
    (second,) = torch.autograd.grad(gradient.sum(), x)
    torch.testing.assert_close(second, torch.tensor([math.exp(-1), 1.0, 0.0]).double())


def test_the_lean_form_keeps_the_features_alone():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        phi = lean_elu_feature_map(torch.randn(d, requires_grad=True))
    assert [x.data_ptr() for x in kept] == [phi.data_ptr()]


@each_form
def test_elu_plus_one_has_second_derivatives_and_transforms(form):
    x = torch.linspace(-2, 2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(form, x)
    by_row = torch.func.vmap(torch.func.grad(lambda row: form(row).sum()))(x.view(2, 4))
    torch.testing.assert_close(by_row, x.clamp(max=0).exp().view(2, 4))
