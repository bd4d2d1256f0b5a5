"""Non-maximum suppression keeps the most confident of overlapping boxes, and what overlaps only a removed one."""

import torch

from course_tools.lectures.lecture_12.experiments import non_maximum_suppression


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
