"""The nearest neighbour of a point is another point, and the distances are not changed."""

import torch

from course_tools.lectures.lecture_16.experiments import nearest_neighbour_accuracy


def test_neighbours_by_hand():
    points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
    distances = -points @ points.mT
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 0, 1, 1])) == 1.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 0, 1])) == 0.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 1, 1])) == 0.5
    assert torch.equal(distances, -points @ points.mT)
