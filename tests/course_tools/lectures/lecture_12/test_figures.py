"""Figures of boxes: the numbers of their texts are those of the boxes, and attention is counted by the area it falls on."""

import pytest
import torch

from course_lib.datasets import Scenes
from course_lib.primitives import giou, iou
from course_tools.lectures.lecture_12.experiments import backbone, scenes, small_detr
from course_tools.lectures.lecture_12.figures import (
    attention_on_boxes,
    query_maps,
    show_centres,
    show_detections,
    show_found,
    show_scenes,
    show_slide,
)


def one_object() -> Scenes:
    """Two scenes with a 7 in the upper left quarter, one of them with a 1 at the lower right too."""
    boxes = torch.tensor([[[0.25, 0.25, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]], [[0.25, 0.25, 0.5, 0.5], [0.75, 0.75, 0.5, 0.5]]])
    return Scenes(torch.rand(2, 1, 24, 24), torch.tensor([[7, -1], [7, 1]]), boxes)


def test_scenes_are_described_by_their_objects(capsys):
    show_scenes(one_object(), 2)
    assert (
        "2 scenes with the bounding boxes of their digits: scene 0 contains 7; scene 1 contains 7, 1."
        in capsys.readouterr().out
    )


def test_identical_boxes_reach_the_maximum_of_both_measures(capsys):
    show_slide({"GIoU": giou, "IoU": iou}, 0.3, 0.0)
    text = capsys.readouterr().out
    assert "GIoU starts at -0.25 and its maximum is 1.00; IoU starts at 0.00 and its maximum is 1.00." in text


def test_attention_is_averaged_over_the_part_of_each_cell_inside_the_box():
    maps = torch.zeros(2, 3, 2, 4)
    maps[1, 2] = torch.tensor([[0.4, 0.2, 0.1, 0.0], [0.3, 0.0, 0.0, 0.0]])
    maps[1, 0] = 1 / 8
    corners = torch.tensor([[0.0, 0.0, 0.375, 0.5]])  # the first cell, and half of the second
    own, other = attention_on_boxes(maps, torch.tensor([1]), torch.tensor([2]), corners)
    assert own == pytest.approx(0.4 + 0.2 / 2)
    assert other == pytest.approx(1.5 / 8)


def test_the_maps_of_the_queries_sum_to_1_and_the_mechanism_is_put_back():
    torch.manual_seed(0)
    model = small_detr(backbone()).eval()
    before = model.decoder[0].cross.mechanism
    maps = query_maps(model, torch.rand(2, 1, 20, 24))
    assert maps.shape == (2, 6, 5, 6)
    torch.testing.assert_close(maps.sum((-2, -1)), torch.ones(2, 6))
    assert model.decoder[0].cross.mechanism is before
    with pytest.raises(RuntimeError):
        query_maps(model, torch.rand(2, 5, 20, 24))
    assert model.decoder[0].cross.mechanism is before


def test_detections_below_the_threshold_are_not_listed(capsys):
    torch.manual_seed(0)
    model = small_detr(backbone()).eval()
    made = scenes(range(30), 2, seed=0)
    show_detections(model, made, 0, threshold=1.0)
    assert "Detections above 1: none; true boxes are dashed." in capsys.readouterr().out
    show_detections(model, made, 0, threshold=0.0)
    assert capsys.readouterr().out.count(" at (") == 6


def test_centres_are_averaged_by_query(capsys):
    show_centres({"query 0": torch.tensor([[0.0, 0.0, 0.5, 0.25], [0.5, 0.5, 1.0, 0.75]])})
    assert "query 0 2 boxes, mean centre (0.50, 0.38)." in capsys.readouterr().out


def test_what_is_found_stands_beside_the_truth(capsys):
    p = torch.zeros(2, 3, 2)
    p[0, 1, 1], p[1, 2, 0] = 0.9, 0.4
    show_found(one_object(), p, torch.rand(2, 3, 4), "your detector", n=2)
    text = capsys.readouterr().out
    assert "of your detector above a confidence of 0.5 in new scenes: scene 0 1, where there are 7; scene 1 , where" in text
