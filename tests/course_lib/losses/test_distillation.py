"""Distillation: the limits of share and temperature are known losses."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.losses import distillation_loss

B, K = 5, 7
LABELS = torch.tensor([0, 6, 3, 3, 1])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_it_is_torchs_divergence_beside_its_cross_entropy(temperature, share, normal, agree):
    def by_torch(student, teacher):
        tau = temperature
        divergence = F.kl_div((student / tau).log_softmax(-1), (teacher / tau).softmax(-1), reduction="batchmean")
        return (1 - share) * F.cross_entropy(student, LABELS) + share * tau**2 * divergence

    teacher = normal(B, K, scale=3).detach()
    agree(
        lambda s: distillation_loss(s, teacher, LABELS, temperature, share),
        lambda s: by_torch(s, teacher),
        normal(B, K, scale=3),
    )


def test_two_classes_by_hand():
    """A uniform student, a teacher at ¾ to ¼: KL = ln 2 - H, H = ln 4 - ¾ ln 3."""
    student, teacher = torch.zeros(1, 2), torch.tensor([[math.log(3.0), 0.0]])
    expected = math.log(2) - (math.log(4) - 0.75 * math.log(3))
    assert distillation_loss(student, teacher, torch.tensor([0]), 1.0, 1.0).item() == pytest.approx(expected)
    mixed = 0.75 * math.log(2) + 0.25 * expected
    assert distillation_loss(student, teacher, torch.tensor([1]), 1.0, 0.25).item() == pytest.approx(mixed)


def test_a_student_that_agrees_costs_nothing_and_is_not_moved(normal):
    student = normal(B, K)
    loss = distillation_loss(student, student.detach() + 3.0, LABELS, 2.0, 1.0)
    loss.backward()
    assert abs(loss.item()) < 1e-14
    assert student.grad.abs().max() < 1e-14


def test_a_hot_teacher_asks_for_its_logits(normal):
    """As τ → ∞ the loss becomes half the mean square difference of the centred logits (Hinton et al. 2015, section 2.1)."""
    student, teacher = normal(B, K), normal(B, K)
    loss = distillation_loss(student, teacher, LABELS, 1e4, 1.0)
    apart = (student - student.mean(-1, keepdim=True)) - (teacher - teacher.mean(-1, keepdim=True))
    torch.testing.assert_close(loss, apart.square().mean() / 2, rtol=1e-3, atol=0)


def test_the_teacher_does_not_learn(normal):
    student, teacher = normal(B, K), normal(B, K)
    (gradient,) = torch.autograd.grad(distillation_loss(student, teacher, LABELS, 2.0, 0.5), [teacher], allow_unused=True)
    assert gradient is None


def test_a_sure_teacher_in_the_cold_decides():
    """As τ → 0 only the teacher's likeliest class counts:  τ² KL → τ · (largest logit - the one that it chose)."""
    student, teacher = torch.tensor([[2.0, 0.0, 1.0]]).double(), torch.tensor([[0.0, 1.0, 0.5]]).double()
    tau = 1e-3
    loss = distillation_loss(student, teacher, torch.tensor([0]), tau, 1.0)
    assert loss.item() == pytest.approx(tau * 2.0, rel=1e-6)


def test_gradients_against_differences(normal):
    teacher = normal(B, K).detach()
    assert torch.autograd.gradcheck(lambda s: distillation_loss(s, teacher, LABELS, 3.0, 0.4), [normal(B, K)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_huge_and_tiny_logits_are_finite(dtype, scale, normal):
    student = normal(B, K, scale=scale).detach().to(dtype).requires_grad_()
    teacher = normal(B, K, scale=scale).detach().to(dtype)
    loss = distillation_loss(student, teacher, LABELS, 2.0, 0.5)
    assert loss.dtype == dtype
    (gradient,) = torch.autograd.grad(loss, student)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize(("temperature", "share"), [(0.0, 0.5), (-1.0, 0.5), (math.nan, 0.5), (1.0, -0.1), (1.0, 1.1)])
def test_settings_that_mean_nothing_are_refused(temperature, share):
    with pytest.raises(ValueError, match="temperature above 0 and a share in 0…1"):
        distillation_loss(torch.zeros(B, K), torch.zeros(B, K), LABELS, temperature, share)
