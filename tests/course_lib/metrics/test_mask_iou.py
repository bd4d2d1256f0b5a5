"""IoU of masks: by hand, from sets of pixels, and equal to the IoU of boxes and of classes where they mean the same."""

import pytest
import torch

from course_lib.metrics import class_ious, mask_ious
from course_lib.primitives import iou

B, M, H, W = 2, 3, 5, 7


def two_masks(seed=0):
    return torch.rand(2, B, M, H, W, generator=torch.Generator().manual_seed(seed)) < 0.4


def test_by_hand():
    """Two of four pixels that either mask has."""
    predicted = torch.tensor([[True, True, False], [True, False, False]])
    masks = torch.tensor([[True, True, True], [False, False, False]])
    assert mask_ious(predicted, masks).item() == 0.5


def test_equals_intersection_over_union_of_sets_of_pixels():
    predicted, masks = two_masks()
    found = mask_ious(predicted, masks)
    assert found.shape == (B, M)
    for b, m in ((b, m) for b in range(B) for m in range(M)):
        one, other = ({*map(tuple, mask[b, m].nonzero().tolist())} for mask in (predicted, masks))
        torch.testing.assert_close(found[b, m].item(), len(one & other) / len(one | other), rtol=1e-6, atol=0)


def test_of_filled_boxes_it_is_the_iou_of_the_boxes():
    def filled(x_1, y_1, x_2, y_2):
        mask = torch.zeros(11, 13, dtype=torch.bool)
        mask[y_1:y_2, x_1:x_2] = True
        return mask

    a, b = (2, 1, 7, 9), (4, 3, 12, 10)
    corners = (torch.tensor([x], dtype=torch.float32) for x in (a, b))
    torch.testing.assert_close(mask_ious(filled(*a), filled(*b)), iou(*corners)[0, 0])


def test_of_one_image_it_is_the_iou_of_a_class():
    predicted, masks = (mask[0, 0] for mask in two_masks())
    torch.testing.assert_close(mask_ious(predicted, masks), class_ious(predicted.long(), masks.long(), 2)[1])


def test_is_symmetric_and_1_only_for_the_mask_itself():
    predicted, masks = two_masks()
    assert torch.equal(mask_ious(predicted, masks), mask_ious(masks, predicted))
    assert mask_ious(masks, masks).eq(1).all()
    assert mask_ious(predicted, masks).lt(1).all()


def test_of_two_empty_masks_it_is_nan_and_of_one_0():
    masks = two_masks()[0]
    nothing = torch.zeros_like(masks)
    assert mask_ious(nothing, nothing).isnan().all()
    assert mask_ious(nothing, masks).eq(0).all()


@pytest.mark.usefixtures("unchecked")
def test_masks_that_would_broadcast_are_refused():
    predicted, masks = two_masks()
    with pytest.raises(ValueError, match="mask_ious needs predicted"):
        mask_ious(predicted[:, :1], masks)


@pytest.mark.usefixtures("unchecked")
def test_labels_instead_of_masks_are_refused():
    labels = torch.tensor([[1, 2]])
    with pytest.raises(TypeError, match=r"must be a tensor of type bool, got torch\.int64"):
        mask_ious(labels, labels)
