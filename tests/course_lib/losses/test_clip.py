"""CLIP's loss asks each image for its text and each text for its image, and nothing else; lengths do not matter."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.losses import clip_loss

N, d = 5, 7


def one_at_a_time(images, texts, temperature):
    """The loss in loops: for each image the log of the share of its text, and the other way."""
    s = torch.stack([torch.stack([F.cosine_similarity(x, y, dim=0) for y in texts]) for x in images]) / temperature
    of_images = [s[i, i] - s[i].exp().sum().log() for i in range(len(s))]
    of_texts = [s[i, i] - s[:, i].exp().sum().log() for i in range(len(s))]
    return -(sum(of_images) + sum(of_texts)) / (2 * len(s))


@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_it_is_a_cross_entropy_of_rows_and_one_of_columns(temperature, normal, agree):
    inputs = normal(N, d), normal(N, d, scale=9)
    agree(lambda a, b: clip_loss(a, b, temperature), lambda a, b: one_at_a_time(a, b, temperature), *inputs)


def test_by_hand():
    """Two images along the axes, both texts along the first: rows cost ln 2 each, columns ln(1 + e) - 1 and ln(1 + e)."""
    images, texts = torch.tensor([[2.0, 0.0], [0.0, 0.5]]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    columns = math.log(1 + math.e) - 0.5
    assert clip_loss(images, texts, 1.0).item() == pytest.approx((math.log(2) + columns) / 2)


def test_a_single_pair_costs_nothing_and_equal_vectors_a_uniform_guess(normal):
    assert clip_loss(normal(1, d), normal(1, d), 0.1).item() == 0
    equal = torch.ones(N, d)
    assert clip_loss(equal, 3 * equal, 0.1).item() == pytest.approx(math.log(N))


def test_it_does_not_matter_which_side_is_which(normal):
    a, b = normal(N, d), normal(N, d)
    torch.testing.assert_close(clip_loss(a, b, 0.3), clip_loss(b, a, 0.3))


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(lambda a, b: clip_loss(a, b, 0.3), (normal(N, d), normal(N, d)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_a_small_temperature(dtype, normal):
    a, b = (normal(N, d).detach().to(dtype) for _ in range(2))
    exact = clip_loss(a.double(), b.double(), 1e-5)
    torch.testing.assert_close(clip_loss(a, b, 1e-5).double(), exact, rtol=8 * torch.finfo(dtype).eps, atol=0)


def test_a_zero_vector_has_cosine_0_and_a_finite_gradient():
    images = torch.zeros(2, d, requires_grad=True)
    loss = clip_loss(images, torch.eye(d)[:2], 0.5)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert images.grad.isfinite().all()


def test_impossible_inputs_are_refused():
    with pytest.raises(ValueError, match="need one or more pairs"):
        clip_loss(torch.zeros(0, d), torch.zeros(0, d), 0.5)
    with pytest.raises(ValueError, match="must be positive"):
        clip_loss(torch.ones(N, d), torch.ones(N, d), 0.0)
