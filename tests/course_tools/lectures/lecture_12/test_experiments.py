"""Scenes, boxes and average precision are as worked by hand; suppression keeps what no better box overlaps."""

import torch

from course_lib.primitives import to_corners
from course_tools.lectures.lecture_12.experiments import (
    ap50,
    backbone,
    detect,
    non_maximum_suppression,
    objects,
    scenes,
    small_detr,
)

# The digits of a scene are where their boxes say, a query attends near its point, and average precision knows the truth.


def test_all_ink_of_a_scene_lies_in_its_boxes():
    made = scenes(range(30), 7, seed=0, size=28, fewest=2, most=3)
    for i, image in enumerate(made.images):
        corners, names = objects(made, i)
        assert len(corners) == len(names) in (2, 3)
        assert names == [str(digit) for digit in made.classes[i].tolist() if digit >= 0]
        outside = image[0].clone()
        for x_1, y_1, x_2, y_2 in (28 * corners).round().int().tolist():
            outside[y_1:y_2, x_1:x_2] = 0
        assert not outside.any()


def test_the_truth_has_an_average_precision_of_one_and_wrong_names_count_only_without_naming():
    made = scenes(range(30), 11, seed=0)
    p = torch.nn.functional.one_hot(made.classes.clamp(min=0), 10) * (made.classes >= 0)[..., None].float()
    corners = to_corners(made.boxes)
    assert ap50((p, corners), made) == 1.0
    wrong = p.roll(1, dims=-1), corners
    assert ap50(wrong, made) < 0.5
    assert ap50(wrong, made, naming=False) == 1.0


def test_detections_are_probabilities_and_corners_of_each_query():
    torch.manual_seed(0)
    p, corners = detect(small_detr(backbone()).eval(), torch.rand(2, 1, 20, 24))
    assert (p.shape, corners.shape) == ((2, 6, 10), (2, 6, 4))
    assert (p.sum(-1) < 1).all()
    assert (corners[..., 2:] >= corners[..., :2]).all()


def test_queries_and_cells_are_compared_by_one_matrix_at_first():
    model = small_detr(backbone())
    assert torch.equal(model.queries.mix.weight, torch.eye(64))
    assert torch.equal(model.decoder[0].cross.W_q.weight, model.decoder[0].cross.W_k.weight)


# Non-maximum suppression keeps the most confident of overlapping boxes, and what overlaps only a removed one.


def test_a_box_that_overlaps_a_removed_one_alone_remains():
    """Each box overlaps the next by an IoU of 1/3; the last is far away."""
    corners = torch.tensor([[[0.0, 0, 0.4, 1], [0.2, 0, 0.6, 1], [0.4, 0, 0.8, 1], [0.9, 0, 1, 1]]])
    for confidence, kept in (
        ([0.9, 0.8, 0.7, 0.1], [True, False, True, True]),
        ([0.8, 0.9, 0.7, 0.1], [False, True, False, True]),
    ):
        assert non_maximum_suppression(torch.tensor([confidence]), corners, 0.3)[0].tolist() == kept
    assert non_maximum_suppression(torch.tensor([[0.9, 0.8, 0.7, 0.1]]), corners, 0.4).all()


def test_each_image_of_a_batch_is_treated_by_itself():
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(5, 7, 2, 2, generator=generator).sort(-2).values
    confidence = torch.rand(5, 7, generator=generator)
    corners = points.flatten(-2)
    together = non_maximum_suppression(confidence, corners, 0.2)
    alone = [non_maximum_suppression(confidence[i : i + 1], corners[i : i + 1], 0.2)[0] for i in range(5)]
    assert torch.equal(together, torch.stack(alone))
    assert not together.all()
