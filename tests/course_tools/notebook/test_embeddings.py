"""Clouds of embeddings: every point is drawn, along the widest axes, as the numeral of its label."""

import numpy as np
import pytest
import torch

from course_tools.lectures.lecture_16.figures import clouds


def test_every_point_is_drawn_in_every_panel():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(30) % 3 + 4
    figure = clouds({"first": torch.randn(30, 7, generator=generator), "last": torch.randn(30, 7, generator=generator)}, labels)
    assert [ax.get_title() for ax in figure.axes] == ["first", "last"]
    assert [[len(c.get_offsets()) for c in ax.collections] for ax in figure.axes] == [[10, 10, 10]] * 2
    assert tuple(figure.get_size_inches()) <= (6.0, 4.0)


def test_the_widest_axis_lies_across():
    points = torch.zeros(4, 3)
    points[:, 2] = torch.tensor([-3.0, -1.0, 1.0, 3.0])
    points[:, 0] = torch.tensor([0.1, -0.1, -0.1, 0.1])
    (ax,) = clouds({"": points}, torch.zeros(4, dtype=torch.long)).axes
    places = ax.collections[0].get_offsets()
    assert np.allclose(sorted(np.abs(places[:, 0])), [1, 1, 3, 3], atol=0.01)
    assert np.abs(places[:, 1]).max() < 0.2


def test_a_line_and_a_single_point_are_drawn():
    assert clouds({"line": torch.arange(3.0)[:, None], "line again": torch.arange(3.0)[:, None]}, torch.arange(3)).axes
    assert clouds({"point": torch.ones(1, 5)}, torch.tensor([7])).axes


def test_panels_and_labels_must_fit():
    with pytest.raises(ValueError, match="one to three panels of 2 points"):
        clouds({"": torch.zeros(3, 2)}, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="one to three panels"):
        clouds({}, torch.zeros(2, dtype=torch.long))
