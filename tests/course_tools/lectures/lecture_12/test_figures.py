"""Figures of boxes: the numbers of their texts are those of the boxes."""

import torch

from course_lib.datasets import Scenes
from course_lib.primitives import giou, iou
from course_tools.bank.drawn_crowds import draw_crowds
from course_tools.lectures.lecture_12.detections import Detections
from course_tools.lectures.lecture_12.figures import (
    show_detections,
    show_found,
    show_scenes,
    show_shares,
    show_slide,
    show_smallest_box,
)


def one_object() -> Scenes:
    """Two scenes with a 7 in the upper left quarter, one of them with a 1 at the lower right too."""
    boxes = torch.tensor([[[0.25, 0.25, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]], [[0.25, 0.25, 0.5, 0.5], [0.75, 0.75, 0.5, 0.5]]])
    return Scenes(torch.rand(2, 1, 24, 24), torch.tensor([[7, -1], [7, 1]]), boxes)


def test_scenes_are_described_by_the_number_of_their_objects(capsys):
    show_scenes(one_object(), (0, 1))
    assert (
        "2 scenes of pixel creatures on photographs, with the boxes of 1 (kinds 7), 2 (kinds 7, 1) creatures"
        in capsys.readouterr().out
    )


def test_identical_boxes_reach_the_maximum_of_both_measures(capsys):
    show_slide({"GIoU": giou, "IoU": iou}, 0.3, 0.0)
    text = capsys.readouterr().out
    assert "GIoU starts at -0.25 and its maximum is 1.00; IoU starts at 0.00 and its maximum is 1.00." in text


def test_detections_above_the_threshold_are_counted(capsys):
    made = draw_crowds(5, 0)
    p = torch.zeros(5, 4, 2)
    p[3, 0, 0], p[3, 2, 1], p[3, 3] = 0.9, 0.6, torch.tensor([0.3, 0.3])
    found = Detections(p, torch.rand(5, 4, 4))
    show_detections(made, 3, {"mine": found, "none": Detections(0 * p, found.corners)})
    assert "boxes above a confidence of 0.5: mine 3, none 0." in capsys.readouterr().out


def test_the_boxes_of_each_query_are_counted_at_its_place(capsys):
    confidence = torch.tensor([[0.9, 0.1, 0.8, 0.2], [0.6, 0.4, 0.3, 0.1]])[..., None]
    show_shares(Detections(confidence, torch.rand(2, 4, 4).sort().values), torch.rand(4, 2))
    assert "row by row: 2, 0; 1, 0." in capsys.readouterr().out


def test_the_smallest_box_is_drawn_with_both_measures(capsys):
    show_smallest_box((0, 0, 2, 2), {"near": (1, 1, 3, 3), "far": (3, 3, 5, 5)})
    assert "B near: IoU 0.14, GIoU -0.08; B far: IoU 0.00, GIoU -0.68." in capsys.readouterr().out


def test_what_is_found_stands_beside_the_truth(capsys):
    p = torch.zeros(2, 3, 2)
    p[0, 1, 1], p[1, 2, 0] = 0.9, 0.4
    show_found(one_object(), Detections(p, torch.rand(2, 3, 4)), "your detector", n=2)
    text = capsys.readouterr().out
    assert "of your detector above a confidence of 0.5 in new scenes: scene 0 1, where there are 7; scene 1 , where" in text
