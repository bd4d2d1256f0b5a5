"""Boxes over pictures: where they stand, what stands at them, and dots."""

import numpy as np
import pytest
import torch

from course_tools.notebook.boxed import boxed

PICTURES = {"a picture": torch.ones(10, 20, 3), "a map": torch.arange(6.0).view(2, 3)}


def test_a_box_stands_where_its_corners_are():
    """Pixel centres lie at whole numbers, so the picture of 10 × 20 runs from -½ to 19½ across and to 9½ down."""
    figure = boxed(PICTURES, {"a picture": torch.tensor([[0.25, 0.0, 0.75, 1.0]])}, {"a picture": ["a 3"]})
    first, second = figure.axes[:2]
    drawn = first.patches[-1]
    assert (drawn.get_xy(), drawn.get_width(), drawn.get_height()) == ((4.5, -0.5), 10.0, 10.0)
    assert [text.get_text() for text in first.texts] == ["a 3"]
    assert not second.patches


def test_dots_stand_on_the_picture_that_they_belong_to():
    figure = boxed(PICTURES, dots={"a map": torch.tensor([[0.5, 0.5], [1.0, 0.0]])})
    (line,) = figure.axes[1].lines
    assert np.allclose(line.get_xydata(), [[1.0, 0.5], [2.5, -0.5]])
    assert not figure.axes[0].lines


def test_each_box_has_a_word_or_none_has():
    with pytest.raises(ValueError, match="'a map' has 2 boxes and 1 words"):
        boxed(PICTURES, {"a map": torch.zeros(2, 4)}, {"a map": ["one"]})
    assert len(boxed(PICTURES, {"a map": torch.zeros(0, 4)}).axes[1].patches) == 0


def test_true_boxes_are_dashed_and_below_the_others():
    box = torch.tensor([[0.25, 0.0, 0.75, 1.0]])
    figure = boxed(PICTURES, {"a picture": box}, expected={"a picture": box / 2})
    first = figure.axes[0].patches
    assert [patch.get_linestyle() for patch in first] == ["solid", "--", "solid", "solid"]
    assert (first[1].get_xy(), first[1].get_width(), first[1].get_height()) == ((2.0, -0.5), 5.0, 5.0)
    assert not figure.axes[1].patches


def test_ink_covers_the_whole_map_whatever_its_size():
    figure = boxed(PICTURES, ink={"a map": torch.tensor([[0.0, 1.0]])})
    first, second = (axes.images for axes in figure.axes[:2])
    assert len(first) == 1
    assert second[1].get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert np.allclose(second[1].get_array(), [[[1, 1, 1, 0], [1, 1, 1, 0.7]]])


def test_boxes_of_one_number_have_one_colour():
    figure = boxed({"a": np.zeros((4, 4, 3))}, {"a": [[0, 0, 1, 1]] * 3}, colours={"a": [1, 0, 1]})
    first, second, third = (patch.get_edgecolor() for patch in figure.axes[0].patches[1::2])
    assert first == third != second
