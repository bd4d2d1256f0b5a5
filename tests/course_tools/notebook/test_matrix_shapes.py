"""Two matrices conform where the columns of the left are the rows of the right."""

import pytest
import torch

from course_tools.notebook.matrix_shapes import conforms


@pytest.mark.parametrize(("left", "right", "fits"), [((3, 5), (5, 1), True), ((5, 3), (5, 1), False), ((2, 2), (3, 2), False)])
def test_matrices_conform(left, right, fits):
    assert conforms(torch.ones(left), torch.ones(right)) is fits


def test_matrices_can_be_added_where_their_shapes_are_equal():
    assert conforms(torch.ones(3, 5), torch.ones(3, 5), torch.add)
    assert not conforms(torch.ones(3, 5), torch.ones(5, 3), torch.add)
