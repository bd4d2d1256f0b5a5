"""Crowds: boxes fit the creatures, pairs overlap as promised, and unseen scenes have other backgrounds."""

import torch

from course_lib.primitives import iou, to_corners
from course_tools.lectures.lecture_12.crowds import MOST, N_KINDS, SIDE, draw_crowds


def test_a_creature_stands_where_its_box_says():
    made = draw_crowds(40, seed=0, pairs=0.0)
    alone = (made.classes >= 0).sum(1) == 1
    for image, classes, boxes in zip(*(part[alone] for part in made), strict=True):
        for x_1, y_1, x_2, y_2 in (SIDE * to_corners(boxes[classes >= 0])).round().int().tolist():
            assert 0 <= x_1 < x_2 <= SIDE
            assert 0 <= y_1 < y_2 <= SIDE
            assert x_2 - x_1 == y_2 - y_1 in range(10, 19)
            second_row = image[:, y_1 + round((y_2 - y_1) * 0.7), x_1 + 4 : x_2 - 4]
            assert second_row.std(1).max() < 0.1, "ink of one colour, but for the noise"


def test_pairs_are_of_one_kind_and_share_a_centre_and_overlap_by_more_than_half():
    made = draw_crowds(300, seed=1, pairs=1.0)
    n_objects = (made.classes >= 0).sum(1)
    assert set(n_objects.tolist()) == {2, 4}
    two = n_objects == 2
    corners = to_corners(made.boxes[two][:, :2])
    overlaps = iou(corners[:, :1], corners[:, 1:])[:, 0, 0]
    assert overlaps.min() > 0.5
    assert overlaps.max() < 0.61
    torch.testing.assert_close(made.boxes[two][:, 0, :2], made.boxes[two][:, 1, :2])
    assert torch.equal(made.classes[two][:, 0], made.classes[two][:, 1])


def test_padding_is_last_and_its_boxes_are_0():
    made = draw_crowds(100, seed=2)
    assert made.classes.shape == (100, MOST)
    assert made.classes.max() == N_KINDS - 1
    real = made.classes >= 0
    assert torch.equal(real, real.sort(dim=1, descending=True, stable=True).values)
    assert not made.boxes[~real].any()
    assert (made.boxes[real] > 0).all()
    assert real[:, 0].all()


def test_crowds_follow_the_seed_and_unseen_ones_have_other_backgrounds():
    one, again, other, unseen = (
        draw_crowds(9, 3),
        draw_crowds(9, 3),
        draw_crowds(9, 4),
        draw_crowds(9, 3, unseen=True),
    )
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)
    assert not torch.equal(one.images, unseen.images)
    assert one.images.min() >= 0
    assert one.images.max() <= 1
