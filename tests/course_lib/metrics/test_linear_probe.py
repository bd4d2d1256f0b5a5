"""The probe is at its minimum under any shift of the features; the spectrum distinguishes a collapse from a sphere."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.metrics import linear_probe, spectrum

n, d, n_classes = 17, 5, 3


def examples(normal, n=n, d=d):
    return normal(n, d).detach() + 2, torch.randint(0, n_classes, (n,), generator=torch.Generator().manual_seed(0))


def cost(weight, bias, features, labels, penalty):
    targets = F.one_hot(labels, n_classes).to(features)
    return (features @ weight.mT + bias - targets).square().sum() + penalty * weight.square().sum()


@pytest.mark.parametrize(("n", "d"), [(17, 5), (5, 17), (1, 3)])
def test_at_the_minimum_the_gradient_of_the_cost_is_zero(normal, n, d):
    features, labels = examples(normal, n, d)
    weight, bias = (x.requires_grad_() for x in linear_probe(features, labels, n_classes, 0.7))
    cost(weight, bias, features, labels, 0.7).backward()
    assert max(weight.grad.abs().max(), bias.grad.abs().max()) < 1e-10


def test_it_is_the_ridge_regression_of_scikit_learn(normal):
    ridge = pytest.importorskip("sklearn.linear_model").Ridge
    features, labels = examples(normal)
    theirs = ridge(alpha=0.7).fit(features.numpy(), F.one_hot(labels, n_classes).numpy())
    weight, bias = linear_probe(features, labels, n_classes, 0.7)
    torch.testing.assert_close(weight, torch.from_numpy(theirs.coef_))
    torch.testing.assert_close(bias, torch.from_numpy(theirs.intercept_))


def test_by_hand():
    """x = -1 is class 0 and x = 1 class 1: with λ = 2 the weights are ∓1/4 about a bias of ½."""
    weight, bias = linear_probe(torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1]), 2, 2.0)
    assert weight.flatten().tolist() == [-0.25, 0.25]
    assert bias.tolist() == [0.5, 0.5]


def test_a_shift_of_all_features_changes_no_score(normal):
    features, labels = examples(normal)
    shift = normal(d).detach()
    for moved in (features, features + shift):
        weight, bias = linear_probe(moved, labels, n_classes, 0.7)
        scores = moved @ weight.mT + bias
        assert torch.allclose(scores, linear_probe(features, labels, n_classes, 0.7).bias + features @ weight.mT)


def test_scores_of_all_classes_sum_to_one(normal):
    features, labels = examples(normal)
    weight, bias = linear_probe(features, labels, n_classes, 0.7)
    torch.testing.assert_close((features @ weight.mT + bias).sum(-1), torch.ones(n, dtype=torch.float64))


def test_a_large_penalty_leaves_the_shares_of_the_classes(normal):
    features, labels = examples(normal)
    weight, bias = linear_probe(features, labels, n_classes, 1e12)
    assert weight.abs().max() < 1e-9
    torch.testing.assert_close(bias, labels.bincount(minlength=n_classes) / n, check_dtype=False, atol=1e-6, rtol=0)


def test_labels_that_are_no_classes_are_refused(normal):
    features, labels = examples(normal)
    with pytest.raises(RuntimeError, match="Class values must be"):
        linear_probe(features, labels + 1, n_classes, 0.7)


def test_without_a_penalty_too_few_examples_are_refused():
    with pytest.raises(RuntimeError, match="singular"):
        linear_probe(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]), 2, 0.0)


def test_the_squares_of_the_spectrum_are_the_variances_along_principal_axes(normal):
    embeddings = normal(n, d, scale=9).detach()
    directions = embeddings / embeddings.norm(dim=-1, keepdim=True)
    covariance = torch.cov(directions.T, correction=0)
    torch.testing.assert_close(spectrum(embeddings).square(), torch.linalg.eigvalsh(covariance).flip(0))


def test_opposite_arrows_spread_along_one_axis_by_one():
    assert spectrum(torch.tensor([[2.0, 0.0], [-0.1, 0.0]])).tolist() == [1.0, 0.0]


def test_a_sphere_has_an_even_spectrum_and_a_line_has_one_value(normal):
    even = spectrum(normal(5_000, d).detach())
    assert even[-1] / even[0] > 0.9
    line = spectrum(normal(50, 1).detach() * normal(d).detach())
    assert line[1] / line[0] < 1e-9


@pytest.mark.parametrize("rows", [1, 7])
def test_where_all_are_equal_nothing_spreads(rows):
    embeddings = torch.full((rows, d), 3.0)
    assert spectrum(embeddings).shape == (min(rows, d),)
    assert spectrum(embeddings).abs().max() < 1e-6


def test_zero_vectors_are_finite():
    assert spectrum(torch.zeros(n, d)).abs().max() == 0


def test_turning_all_embeddings_changes_nothing(normal):
    embeddings = normal(n, d).detach()
    turn = torch.linalg.qr(normal(d, d).detach()).Q
    torch.testing.assert_close(spectrum(embeddings @ turn), spectrum(embeddings))
