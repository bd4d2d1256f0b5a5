"""The losses of masks: by hand, against the published code, and what they are equal to in special cases."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.losses import dice_loss, focal_loss

n, H, W = 3, 5, 7
LOSSES = (dice_loss, focal_loss)


def pairs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return 3 * torch.randn(n, H, W, generator=generator, dtype=dtype), torch.rand(n, H, W, generator=generator) < 0.3


def test_by_hand():
    """Two pixels, each with probability ½, one of them in the mask: DICE 1 - (2 · ½ + 1) / (1 + 1 + 1) = ⅓."""
    logits, masks = torch.zeros(1, 1, 2), torch.tensor([[[True, False]]])
    torch.testing.assert_close(dice_loss(logits, masks), torch.tensor(1 / 3))
    torch.testing.assert_close(focal_loss(logits, masks), torch.tensor((0.25 + 0.75) / 2 * 0.25 * math.log(2)))


def test_are_those_of_the_published_code():
    """Hugging Face's port of DETR, which takes the number of objects that it divides by."""
    theirs = pytest.importorskip("transformers.loss.loss_for_object_detection", reason="transformers is not installed")
    logits, masks = pairs()
    flat = logits.flatten(1), masks.flatten(1).float()
    torch.testing.assert_close(dice_loss(logits, masks), theirs.dice_loss(*flat, n))
    torch.testing.assert_close(focal_loss(logits, masks), theirs.sigmoid_focal_loss(*flat, n))
    torch.testing.assert_close(focal_loss(logits, masks, 0.4, 3.0), theirs.sigmoid_focal_loss(*flat, n, 0.4, 3.0))


def test_without_focus_the_focal_loss_is_half_the_cross_entropy():
    logits, masks = pairs()
    expected = F.binary_cross_entropy_with_logits(logits, masks.float()) / 2
    torch.testing.assert_close(focal_loss(logits, masks, alpha=0.5, gamma=0.0), expected)


def test_on_certain_pixels_dice_counts_them():
    """|P ∩ M| = 2, |P| = 3, |M| = 4."""
    predicted = torch.tensor([True, True, True, False, False, False]).view(1, 2, 3)
    masks = torch.tensor([True, True, False, True, True, False]).view(1, 2, 3)
    torch.testing.assert_close(dice_loss(torch.where(predicted, 1e4, -1e4), masks), torch.tensor(1 - 5 / 8))


@pytest.mark.parametrize("loss", LOSSES)
def test_is_0_for_a_certain_right_mask_alone(loss):
    _, masks = pairs()
    certain = torch.where(masks, 100.0, -100.0)
    assert loss(certain, masks) < 1e-6
    assert loss(-certain, masks) > 0.9


@pytest.mark.parametrize("loss", LOSSES)
def test_is_the_mean_over_the_masks_in_any_order(loss):
    logits, masks = pairs()
    each = torch.stack([loss(logits[[i]], masks[[i]]) for i in range(n)])
    torch.testing.assert_close(loss(logits, masks), each.mean())
    torch.testing.assert_close(loss(logits.flip(0), masks.flip(0)), each.mean())


@pytest.mark.parametrize("loss", LOSSES)
def test_without_a_mask_it_is_0_and_so_is_its_gradient(loss):
    logits = torch.zeros(0, H, W, requires_grad=True)
    value = loss(logits, torch.zeros(0, H, W, dtype=torch.bool))
    assert value == 0
    value.backward()
    assert logits.grad.shape == logits.shape


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_costs_no_more_than_its_rounding(loss, dtype):
    """Losses and gradients of the same rounded numbers, against float64."""
    logits, masks = pairs()
    results = []
    for kind in (dtype, torch.float64):
        z = logits.to(dtype).to(kind).requires_grad_()
        value = loss(z, masks)
        results.append([value, *torch.autograd.grad(value, z)])
        assert all(x.dtype == kind for x in results[-1])
    for ours, exact in zip(*results, strict=True):
        atol = 16 * torch.finfo(dtype).eps * exact.abs().max().item()
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=atol)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.usefixtures("unchecked")
def test_masks_that_would_broadcast_or_that_are_numbers_are_refused(loss):
    logits, masks = pairs()
    with pytest.raises(ValueError, match="needs logits"):
        loss(logits, masks[:1])
    with pytest.raises(TypeError, match="masks must be a tensor of type bool"):
        loss(logits, masks.float())


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients(loss):
    logits, masks = pairs(torch.float64)
    assert torch.autograd.gradcheck(lambda z: loss(z, masks), logits.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", LOSSES)
def test_large_masks_in_half_precision(loss, dtype):
    """Their area, 90,000 pixels, is beyond float16."""
    logits, masks = torch.ones(1, 300, 300, dtype=dtype), torch.ones(1, 300, 300, dtype=torch.bool)
    torch.testing.assert_close(loss(logits, masks), loss(logits.float(), masks).to(dtype))


def test_certain_pixels_have_a_gradient_with_a_focus_below_1():
    logits = torch.tensor([[[200.0, -200.0]]], requires_grad=True)
    focal_loss(logits, torch.tensor([[[True, True]]]), gamma=0.5).backward()
    assert logits.grad.isfinite().all()


def test_the_weight_of_the_object_is_not_rounded_in_float64():
    logits, masks = pairs(torch.float64)
    whole = sum(focal_loss(logits, masks, alpha=share) for share in (0.4, 0.6))
    torch.testing.assert_close(whole, focal_loss(logits, masks, alpha=0.5) * 2, rtol=1e-12, atol=0)


@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"alpha": 1.5}, {"gamma": -0.5}])
def test_a_focus_or_weight_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=f"got {wrong.get('alpha', 0.25)} and {wrong.get('gamma', 2.0)}"):
        focal_loss(*pairs(), **wrong)
