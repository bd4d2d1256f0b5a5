"""Scenes of digits: every box contains exactly the ink of its digit, and no two overlap."""

import pytest
import torch

from course_lib.datasets import LabelledImages, digit_scenes, digits
from course_lib.datasets.digit_scenes import ink_edges
from course_lib.primitives import overlap, to_corners


@pytest.fixture(scope="module")
def pictures():
    images, labels = digits()
    return LabelledImages(images[:300, None], labels[:300])


@pytest.fixture(scope="module")
def scenes(pictures):
    return digit_scenes(pictures, 200, seed=0, size=(29, 37), n_objects=(0, 3))


def test_every_box_holds_exactly_the_ink_of_one_digit(pictures, scenes):
    known = {}
    for image, label, (x_1, y_1, x_2, y_2) in zip(*pictures, ink_edges(pictures.images).tolist(), strict=True):
        known[image[0, y_1:y_2, x_1:x_2].numpy().tobytes()] = label.item()
    scale = torch.tensor([37, 29, 37, 29])
    for image, classes, boxes in zip(*scenes, strict=True):
        rest = image[0].clone()
        for kind, corner in zip(classes.tolist(), (to_corners(boxes) * scale).round().int().tolist(), strict=True):
            if kind >= 0:
                x_1, y_1, x_2, y_2 = corner
                assert known[image[0, y_1:y_2, x_1:x_2].contiguous().numpy().tobytes()] == kind
                rest[y_1:y_2, x_1:x_2] = 0
        assert not rest.any(), "ink outside of every box"


def test_nothing_overlaps(scenes):
    corners = to_corners(scenes.boxes)
    shared = overlap(corners, corners).shared.tril(-1)
    assert shared.max() < 1e-6


def test_as_many_objects_as_asked_for(scenes):
    counts = (scenes.classes >= 0).sum(1)
    assert counts.unique().tolist() == [0, 1, 2, 3]
    assert (scenes.boxes[scenes.classes < 0] == 0).all()


def test_a_seed_decides_everything(pictures, scenes):
    again = digit_scenes(pictures, 200, seed=0, size=(29, 37), n_objects=(0, 3))
    assert all(torch.equal(a, b) for a, b in zip(again, scenes, strict=True))
    assert not torch.equal(digit_scenes(pictures, 200, seed=1, size=(29, 37), n_objects=(0, 3)).images, scenes.images)


def test_edges_by_hand():
    image = torch.zeros(1, 1, 4, 5)
    image[0, 0, 1, 2] = image[0, 0, 2, 3] = 0.5
    assert ink_edges(image).tolist() == [[2, 1, 4, 3]]


@pytest.mark.parametrize(
    ("size", "n_objects", "reason"),
    [((5, 5), (1, 1), "does not fit"), ((10, 10), (4, 4), "no room is left"), ((32, 32), (3, 1), "smallest and the largest")],
)
def test_what_cannot_be_composed_is_refused(pictures, size, n_objects, reason):
    with pytest.raises(ValueError, match=reason):
        digit_scenes(pictures, 50, seed=0, size=size, n_objects=n_objects)


def test_a_picture_without_ink_is_refused():
    with pytest.raises(ValueError, match="without ink"):
        ink_edges(torch.zeros(2, 1, 3, 3))
