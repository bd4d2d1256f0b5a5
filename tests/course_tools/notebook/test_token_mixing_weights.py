"""Maps of the weights that training added, and the numbers that describe them, on maps made by hand."""

import pytest
import torch

from course_lib.blocks import TokenMixing
from course_tools.notebook.token_mixing_weights import added_maps, correlation_at, largest_maps, uniform_fraction


def test_only_what_training_added_is_in_the_maps():
    before, after = TokenMixing(9, 4), TokenMixing(9, 4)
    after.load_state_dict(before.state_dict())
    with torch.no_grad():
        after.W_1.weight[2, 5] += 1
        after.W_2.weight[7, 3] += 2
    reads, writes = added_maps(after, before, read=True), added_maps(after, before, read=False)
    assert (reads.nonzero().tolist(), writes.nonzero().tolist()) == ([[2, 1, 2]], [[3, 2, 1]])
    assert largest_maps(reads, 1).allclose(reads[2:3])


def test_uniform_maps_have_fraction_one_and_stripes_correlate_at_two():
    assert uniform_fraction(torch.tensor([2.0, -3.0]).view(2, 1, 1).expand(2, 5, 5)) == pytest.approx(1)
    checkers = (torch.arange(6)[:, None] + torch.arange(6)).remainder(2).float()[None]
    assert correlation_at(checkers, 1) == pytest.approx(-1)
    assert correlation_at(checkers, 2) == pytest.approx(1)
