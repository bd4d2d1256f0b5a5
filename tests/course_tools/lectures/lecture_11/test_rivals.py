"""The rivals of the map reader: their size, and what they see."""

import torch

from course_tools.lectures.lecture_11 import rivals


def test_the_rivals_are_nearly_as_large_as_the_vision_transformer():
    made = rivals.convolutions(), rivals.convolutions_that_see_all(), rivals.network_of_pixels()
    assert all(80_000 <= sum(theta.numel() for theta in network.parameters()) <= 100_000 for network in made)


def test_before_the_pooling_the_centre_sees_the_whole_map_or_only_a_part():
    wide, small = rivals.convolutions_that_see_all()[:3].eval(), rivals.convolutions()[:1].eval()
    reached = []
    for body in (wide, small):
        image = torch.rand(1, 3, 48, 48, requires_grad=True)
        body(image)[0, :, 1, 1].sum().backward()
        reached.append((image.grad[0].abs().sum(0) > 0).unflatten(0, (4, 12)).unflatten(2, (4, 12)).any(3).any(1))
    assert reached[0].all()
    assert not reached[1].all()


def test_the_nearest_known_map_gives_its_answer():
    known = torch.rand(5, 3, 4, 4)
    assert rivals.nearest_known(known, torch.arange(5) + 10, known[[3, 1]] + 1e-3).tolist() == [13, 11]
