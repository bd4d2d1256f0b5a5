"""Mean IoU of a segmentation: by hand, from sets of pixels, and the laws that it obeys."""

import math

import pytest
import torch

from course_lib.metrics import class_ious, mean_iou

N, H, W, n_classes = 3, 5, 7, 4


def two_maps(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(n_classes, (2, N, H, W), generator=generator)


def test_by_hand():
    """Six pixels: class 0 has 2 hits of 4 pixels, class 1 has 1 of 3, class 2 has 1 of 1."""
    predicted, labels = torch.tensor([[0, 0, 0], [1, 1, 2]]), torch.tensor([[0, 0, 1], [0, 1, 2]])
    expected = torch.tensor([2 / 4, 1 / 3, 1.0])
    torch.testing.assert_close(class_ious(predicted, labels, 3), expected)
    assert mean_iou(predicted, labels, 3) == pytest.approx(expected.mean().item())


def test_equals_intersection_over_union_of_sets_of_pixels():
    predicted, labels = two_maps()
    places = [{i for i, c in enumerate(x.flatten().tolist()) if c == k} for x in (predicted, labels) for k in range(n_classes)]
    pairs = zip(places[:n_classes], places[n_classes:], strict=True)
    torch.testing.assert_close(
        class_ious(predicted, labels, n_classes), torch.tensor([len(p & t) / len(p | t) for p, t in pairs])
    )


def test_is_1_only_for_the_labels_themselves():
    _, labels = two_maps()
    assert mean_iou(labels, labels, n_classes) == 1
    almost = labels.clone()
    almost[0, 0, 0] = (almost[0, 0, 0] + 1) % n_classes
    assert mean_iou(almost, labels, n_classes) < 1


def test_is_symmetric_and_pools_the_pixels_of_all_images():
    predicted, labels = two_maps()
    assert mean_iou(predicted, labels, n_classes) == mean_iou(labels, predicted, n_classes)
    shuffled = torch.randperm(N * H * W)
    flat = mean_iou(predicted.flatten()[shuffled], labels.flatten()[shuffled], n_classes)
    assert flat == mean_iou(predicted, labels, n_classes)


def test_a_class_without_a_pixel_does_not_count():
    predicted, labels = two_maps()
    assert math.isnan(class_ious(predicted, labels, n_classes + 1)[-1])
    assert mean_iou(predicted, labels, n_classes + 1) == mean_iou(predicted, labels, n_classes)


@pytest.mark.parametrize("wrong", [-1, n_classes])
def test_refuses_a_class_that_there_is_not(wrong):
    predicted, labels = two_maps()
    predicted[0, 0, 0] = wrong
    with pytest.raises(ValueError, match=f"0 to {n_classes - 1}"):
        mean_iou(predicted, labels, n_classes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_label_maps_of_any_integer_type_are_those_of_int64(dtype):
    """Of 21 classes, as in Pascal VOC, a pair has a number of up to 440: more than a byte."""
    predicted, labels = torch.arange(21), torch.arange(21).roll(1)
    labels[:7] = predicted[:7]
    assert mean_iou(predicted.to(dtype), labels.to(dtype), 21) == pytest.approx(6.5 / 21)
    assert mean_iou(predicted, predicted.to(dtype), 21) == 1.0
