"""Scenes, boxes and average precision are as worked by hand; suppression keeps what no better box overlaps."""

import pytest
import torch

from course_lib.datasets import Scenes
from course_lib.primitives import to_corners
from course_tools.bank.drawn_crowds import draw_crowds
from course_tools.lectures.lecture_12.detections import (
    Detections,
    ap,
    ap50,
    best_fit,
    boxes_per_object,
    close_pairs,
    detect,
    first_close_pair,
    judged,
    judged_apart,
    objects,
    suppressed,
    told_apart,
)
from course_tools.lectures.lecture_12.rivals import CrowdDetector


def test_the_objects_of_a_scene_are_its_real_boxes_and_their_classes():
    made = Scenes(torch.zeros(1, 3, 8, 8), torch.tensor([[1, 0, -1]]), torch.rand(1, 3, 4))
    corners, names = objects(made, 0)
    torch.testing.assert_close(corners, to_corners(made.boxes[0, :2]))
    assert names == ["1", "0"]


def test_the_truth_has_an_average_precision_of_one_and_one_box_for_each_object():
    made = draw_crowds(11, seed=0)
    p = torch.nn.functional.one_hot(made.classes.clamp(min=0), 2) * (made.classes >= 0)[..., None].float()
    truth = Detections(p, to_corners(made.boxes))
    assert ap50(truth, made) == 1.0
    assert boxes_per_object(truth, made) == 1.0
    assert ap50(truth._replace(p=p.roll(1, dims=-1)), made) < 0.5
    twice = Detections(*(part.repeat(1, 2, 1) for part in truth))
    assert boxes_per_object(twice, made) == 2.0


def test_a_box_that_overlaps_by_two_thirds_counts_at_four_of_ten_overlaps():
    """The found box has the height of the object and 0.68 of its width: a hit at 0.5, 0.55, 0.6 and 0.65."""
    boxes = torch.tensor([[[0.5, 0.5, 0.4, 0.4]]])
    made = Scenes(torch.zeros(1, 3, 8, 8), torch.tensor([[0]]), boxes)
    narrow = Detections(torch.tensor([[[0.9]]]), to_corners(boxes * torch.tensor([1, 1, 0.68, 1])))
    assert ap(narrow, made) == pytest.approx(0.4)
    assert ap(narrow._replace(corners=to_corners(boxes)), made) == 1.0


@pytest.mark.parametrize("training", [True, False])
def test_detections_are_probabilities_and_corners_of_each_query(training):
    torch.manual_seed(0)
    model = CrowdDetector().train(training)
    found = detect(model, torch.rand(2, 3, 32, 32))
    assert (found.p.shape, found.corners.shape) == ((2, 16, 2), (2, 16, 4))
    assert (found.confidence < 1).all()
    assert (found.corners[..., 2:] >= found.corners[..., :2]).all()
    assert model.training == training


def test_a_box_that_overlaps_a_removed_one_alone_remains():
    """Each box overlaps the next by an IoU of 1/3; the last is far away."""
    corners = torch.tensor([[[0.0, 0, 0.4, 1], [0.2, 0, 0.6, 1], [0.4, 0, 0.8, 1], [0.9, 0, 1, 1]]])
    for confidence, kept in (
        ([0.9, 0.8, 0.7, 0.1], [True, False, True, True]),
        ([0.8, 0.9, 0.7, 0.1], [False, True, False, True]),
    ):
        found = Detections(torch.tensor([confidence])[..., None], corners)
        assert (suppressed(found, 0.3).confidence[0] > 0).tolist() == kept
        assert torch.equal(suppressed(found, 0.4).p, found.p)


def test_each_image_of_a_batch_is_treated_by_itself():
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(5, 7, 2, 2, generator=generator).sort(-2).values.flatten(-2)
    found = Detections(torch.rand(5, 7, 2, generator=generator), corners)
    together = suppressed(found, 0.2).p
    alone = [suppressed(Detections(*(part[i : i + 1] for part in found)), 0.2).p for i in range(5)]
    assert torch.equal(together, torch.cat(alone))
    assert 0 < (together == 0).float().mean() < 1


def test_neighbours_are_told_apart_if_their_boxes_are_nearest_to_different_ones():
    boxes = torch.tensor([[0.3, 0.5, 0.4, 0.4], [0.4, 0.5, 0.4, 0.4], [0.0, 0.0, 0.0, 0.0]]).repeat(3, 1, 1)
    made = Scenes(torch.zeros(3, 3, 8, 8), torch.tensor([[0, 0, -1]]).repeat(3, 1), boxes)
    both, one = to_corners(boxes[0, :2]), to_corners(boxes[0, :1]).repeat(2, 1)
    p = torch.tensor([[0.9, 0.8], [0.9, 0.8], [0.9, 0.2]]).unsqueeze(-1)
    found = Detections(p, torch.stack([both, one, both]))
    assert told_apart(found, made) == (3, 2, 1)
    assert best_fit([found], made, torch.tensor([1, 0])) == 0
    assert best_fit([found], made, torch.tensor([], dtype=torch.long)) == 0


def test_the_scene_is_the_one_that_all_detectors_find():
    """The first finds both scenes, the second, which draws three boxes in each, only the second one."""
    boxes = torch.tensor([[0.3, 0.5, 0.4, 0.4], [0.4, 0.5, 0.4, 0.4]])
    made = Scenes(torch.zeros(2, 3, 8, 8), torch.tensor([[0, 0]]).repeat(2, 1), boxes.repeat(2, 1, 1))
    both = to_corners(boxes)
    one, other = torch.stack([both, both]), torch.stack([both[[0, 0, 0]], both[[0, 0, 1]]])
    ways = [Detections(torch.full((*corners.shape[:2], 1), 0.9), corners) for corners in (one, other)]
    assert best_fit(ways, made, torch.tensor([0, 1])) == 1
    assert best_fit(ways[:1], made, torch.tensor([0, 1])) == 0


def test_pairs_are_close_only_within_a_kind_and_the_first_scene_of_a_pair_alone_is_chosen():
    pair = torch.tensor([[0.3, 0.5, 0.4, 0.4], [0.35, 0.5, 0.4, 0.4], [0.9, 0.9, 0.1, 0.1]])
    classes = torch.tensor([[0, 1, -1], [0, 0, 1], [1, 1, -1], [0, 0, -1]])
    made = Scenes(torch.zeros(4, 3, 8, 8), classes, pair.repeat(4, 1, 1))
    assert close_pairs(made).tolist() == [0, 1, 1, 1]
    assert first_close_pair(made) == 2
    assert first_close_pair(Scenes(*(part[:2] for part in made))) == 1


def test_a_threshold_that_keeps_pairs_keeps_duplicates_elsewhere():
    """A pair with an IoU of 0.6; an object with two boxes, an IoU of 0.8 apart; and one with a box, which is the least sure."""
    pair = [[0.1, 0.1, 0.5, 0.5], [0.2, 0.1, 0.6, 0.5]]
    twice = [[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.42]]
    corners = torch.tensor([pair, twice, twice])
    boxes = torch.cat([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], -1)
    made = Scenes(torch.zeros(3, 3, 8, 8), torch.tensor([[0, 0], [0, -1], [0, -1]]), boxes)
    found = Detections(torch.tensor([[0.9, 0.8], [0.95, 0.85], [0.6, 0.0]])[..., None], corners)
    lonely = judged_apart(found, made)
    assert lonely["alone"] == 1.0
    assert lonely["alone_high"] == pytest.approx(51 / 101 + 50 / 101 * 2 / 3, abs=1e-4), "the second object comes third"
    of_all = judged(found, made)
    assert of_all["raw"] == of_all["high"] < 1
    assert of_all["boxes"] == pytest.approx(5 / 4)
