"""Crowds: boxes fit the creatures, pairs overlap as promised, and unseen scenes have other backgrounds."""

import torch

from course_lib.primitives import iou, to_corners
from course_tools.bank import drawn_crowds
from course_tools.bank.drawn_crowds import MOST, N_KINDS, SIDE, draw_crowds


def test_a_creature_touches_its_box_and_has_rows_of_one_colour_each(monkeypatch):
    """Upright, without papers: the first row of a creature of kind 1 is a line of ink; the third has another colour."""
    monkeypatch.setattr(drawn_crowds, "LEAN", 0.0)
    monkeypatch.setattr(drawn_crowds, "PAPERS", 0)
    made = draw_crowds(40, seed=0, pairs=0.0)
    chosen = ((made.classes >= 0).sum(1) == 1) & (made.classes[:, 0] == 1)
    differ = []
    for image, box in zip(made.images[chosen], SIDE * to_corners(made.boxes[chosen][:, 0]), strict=True):
        x_1, y_1, x_2, y_2 = box.tolist()
        columns = slice(round(x_1 + 1), round(x_2 - 1))
        first, third = (image[:, int(y_1 + (row + 0.5) / 5 * (y_2 - y_1)), columns] for row in (0, 2))
        assert first.std(1).max() < 0.1, "ink of one colour, but for the noise"
        differ.append(bool((first[:, 0] - third[:, 0]).abs().max() > 0.1))
    assert len(differ) > 5
    assert sum(differ) > 0.7 * len(differ)


def test_leaning_creatures_stay_inside_and_their_boxes_hold_their_ink(monkeypatch):
    monkeypatch.setattr(drawn_crowds, "LEAN", 1.5)
    corners = to_corners(draw_crowds(200, seed=1).boxes)
    assert corners.min() > -1e-5
    assert corners.max() < 1 + 1e-5
    kind, centre, size, turn = (
        torch.tensor([1, 1]),
        torch.tensor([[16.0, 16.0]] * 2),
        torch.tensor([[10.0, 20.0]] * 2),
        [0, torch.pi / 2],
    )
    upright, turned = drawn_crowds._creature(kind, centre, size, torch.tensor(turn))[0]
    assert torch.equal(turned, upright.rot90(-1)) or torch.equal(turned, upright.rot90(1))
    rows, columns = (upright.any(axis).nonzero() for axis in (1, 0))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (11, 20, 6, 25)


def test_pairs_are_of_one_kind_and_share_a_centre_and_overlap_by_more_than_half():
    made = draw_crowds(300, seed=1, pairs=1.0)
    n_objects = (made.classes >= 0).sum(1)
    assert set(n_objects.tolist()) == {2, 4}
    two = n_objects == 2
    corners = to_corners(made.boxes[two][:, :2])
    overlaps = iou(corners[:, :1], corners[:, 1:])[:, 0, 0]
    assert overlaps.min() > 0.51
    assert overlaps.max() < 0.6
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
