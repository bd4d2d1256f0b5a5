"""Maps of weights: every map is drawn where it belongs, and 0 has the middle colour."""

import numpy as np
import pytest
import torch

from course_tools.notebook import weight_maps


def drawn(figure):
    return [np.ma.filled(ax.images[0].get_array(), np.nan) for ax in figure.axes if ax.images]


def test_maps_stand_row_by_row_with_a_line_between_them():
    maps = torch.arange(1.0, 19.0).view(3, 2, 3)
    (sheet,) = drawn(weight_maps({"": maps}, columns=2))
    empty = np.nan
    assert np.array_equal(
        sheet,
        np.array(
            [
                [1, 2, 3, empty, 7, 8, 9],
                [4, 5, 6, empty, 10, 11, 12],
                [empty] * 7,
                [13, 14, 15, empty, empty, empty, empty],
                [16, 17, 18, empty, empty, empty, empty],
            ]
        ),
        equal_nan=True,
    )


def test_all_panels_have_one_scale_with_0_in_its_middle():
    figure = weight_maps({"reads": torch.tensor([[[1.0, -5.0]]]), "writes": torch.tensor([[[2.0]]])}, label="W")
    assert [ax.get_title() for ax in figure.axes[:2]] == ["reads", "writes"]
    assert [ax.images[0].get_clim() for ax in figure.axes[:2]] == [(-5.0, 5.0)] * 2
    assert figure.axes[2].get_ylabel() == "W"
    assert tuple(figure.get_size_inches()) <= (6.0, 4.0)


def test_panels_stand_farther_apart_than_the_maps_of_one_panel():
    maps = torch.ones(16, 7, 7)
    figure = weight_maps({"reads": maps, "writes": maps})
    figure.draw_without_rendering()
    left, right = (ax.get_position() for ax in figure.axes[:2])
    between_maps = left.width / len(drawn(figure)[0][0])
    assert right.x0 - left.x1 > 2 * between_maps


def test_weights_that_are_all_0_and_whole_numbers_are_drawn():
    (sheet,) = drawn(weight_maps({"": torch.zeros(1, 1, 1, dtype=torch.long)}))
    assert sheet.tolist() == [[0.0]]


NO_PANELS = [{}, {"": torch.zeros(2, 3)}, {"": torch.zeros(0, 2, 2)}, dict.fromkeys("abcd", torch.ones(1, 1, 1))]


@pytest.mark.parametrize("panels", NO_PANELS)
def test_what_is_no_panel_of_maps_is_refused(panels):
    with pytest.raises(ValueError, match="one to three panels"):
        weight_maps(panels)
