"""BYOL's loss is a squared distance of directions, and its target gets exactly no gradient."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.losses import byol_loss
from course_lib.primitives import unit

B, d = 5, 7


def test_by_hand():
    """Directions that are equal, orthogonal and opposite: 0, 2 and 4, for any lengths."""
    prediction = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    target = torch.tensor([[0.1, 0.0], [0.0, 7.0], [-2.0, 0.0]])
    for i, expected in enumerate((0.0, 2.0, 4.0)):
        assert byol_loss(prediction[i : i + 1], target[i : i + 1]).item() == expected
    assert byol_loss(prediction, target).item() == 2.0


def test_it_is_the_squared_distance_of_directions(normal, agree):
    target = normal(B, d, scale=5).detach()
    agree(
        lambda p: byol_loss(p, target),
        lambda p: (unit(p) - F.normalize(target, dim=-1)).square().sum(-1).mean(),
        normal(B, d),
    )


def test_it_is_twice_one_minus_torchs_cosine(normal, agree):
    target = normal(B, d).detach()
    agree(lambda p: byol_loss(p, target), lambda p: 2 - 2 * F.cosine_similarity(p, target).mean(), normal(B, d))


def test_the_target_gets_exactly_no_gradient(normal):
    prediction, target = normal(B, d), normal(B, d)
    byol_loss(prediction, target).backward()
    assert prediction.grad.abs().sum() > 0
    assert target.grad is None


def test_gradients_against_differences(normal):
    target = normal(B, d).detach()
    assert torch.autograd.gradcheck(lambda p: byol_loss(p, target), normal(B, d))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_huge_and_tiny_vectors_are_right(dtype, size, normal):
    p, z = ((size * normal(B, d).detach()).to(dtype) for _ in range(2))
    exact = byol_loss(p.double(), z.double())
    torch.testing.assert_close(byol_loss(p, z).double(), exact, atol=16 * torch.finfo(dtype).eps, rtol=0)


def test_a_zero_vector_costs_2_and_has_a_finite_gradient():
    prediction = torch.zeros(1, d, requires_grad=True)
    loss = byol_loss(prediction, torch.ones(1, d))
    loss.backward()
    assert loss.item() == 2
    assert prediction.grad.isfinite().all()


def test_embeddings_that_are_all_equal_cost_nothing():
    assert byol_loss(torch.ones(B, d), 3 * torch.ones(B, d)).item() == pytest.approx(0, abs=1e-6)
