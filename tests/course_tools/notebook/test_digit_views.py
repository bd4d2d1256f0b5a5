"""The texts of the figures contain how much a view differs, and which neighbours are of the same class."""

import torch

from course_lib.datasets import photographs, warp
from course_tools.lectures.lecture_16.figures import show_neighbours, show_photograph_view, show_views


def test_a_view_of_twice_the_ink_differs_by_all_of_it(capsys):
    show_views(torch.rand(20, 1, 5, 7), lambda batch, generator: 2 * batch)
    assert "its view is 100 % of the ink" in capsys.readouterr().out


def test_a_photograph_is_unchanged_by_the_identity(capsys):
    show_photograph_view(warp, turn=0, zoom=1, hue=0, saturation=1)
    red = photographs((60, 90))[1, 0].mean()
    assert f"changes from {red:.2f} to {red:.2f}" in capsys.readouterr().out


def test_neighbours_are_those_with_the_largest_cosines(capsys):
    angles = torch.tensor([0.0, 0.1, 3.0, 0.2, -2.0, 1.5])
    points = torch.stack([angles.cos(), angles.sin()], 1)
    show_neighbours(0, points, torch.rand(6, 1, 3, 3), torch.tensor([7, 7, 1, 9, 1, 2]), n=2)
    assert "Unseen digit 0, a 7, then 7, 9: its 2 nearest neighbours, of which 1 show" in capsys.readouterr().out
