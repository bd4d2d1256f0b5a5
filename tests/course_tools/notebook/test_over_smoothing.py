"""Repeated graph convolution: its features are powers of Â, and the energy falls by the square of an eigenvalue."""

import pytest
import torch

from course_lib.datasets import karate_club
from course_lib.datasets.social_networks import Graph
from course_lib.primitives import dirichlet_energy, gcn_weights
from course_tools.lectures.lecture_15.figures import rescaled, show_energies, smoothed


def test_two_nodes_are_equal_after_one_step():
    """Â of a pair is ½ everywhere: eigenvalues 1 and 0."""
    pair = Graph(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1]), ("a", "b"))
    found = smoothed(pair, 40, gcn_weights, dirichlet_energy)
    assert found.features[1].flatten().tolist() == pytest.approx([2.0, 2.0])
    assert found.energy[:2].tolist() == pytest.approx([1.0, 0.0])
    assert found.limit == pytest.approx(0.0)


def test_on_the_club_the_rate_is_the_square_of_the_second_eigenvalue(capsys):
    club = smoothed(karate_club(), 43, gcn_weights, dirichlet_energy)
    assert len(club.features) == len(club.energy) == 44
    assert club.rate == pytest.approx(club.limit, rel=1e-2)
    assert 0 < club.limit < 1
    show_energies({"club": club})
    assert f"{club.energy[-1]:.0e} is left on club" in capsys.readouterr().out


def test_rescaling_removes_what_all_nodes_share_however_small_the_rest_is():
    """Two nodes of degree 1 and one of 2, self-loops not counted: their features are √d_i times (1, 1 + tiny, 1 - tiny)."""
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    for tiny in (0.1, 1e-6):
        x = torch.tensor([3, 2, 2]).double().sqrt() * torch.tensor([1.0, 1.0 + tiny, 1.0 - tiny], dtype=torch.float64)
        assert rescaled(x[:, None], edges).flatten().tolist() == pytest.approx([0.0, 1.0, -1.0], abs=1e-6)
