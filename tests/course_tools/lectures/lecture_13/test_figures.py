"""Maps of the weights that training added, and the numbers that describe them, on maps made by hand."""

from copy import deepcopy

import pytest
import torch

from course_lib.blocks import MixerSizes, TokenMixing
from course_lib.models import Mixer
from course_tools.lectures.lecture_13.figures import (
    added_maps,
    correlation_at,
    largest_maps,
    show_added,
    show_hidden_unit,
    uniform_fraction,
)


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


def small_mixer():
    torch.manual_seed(0)
    return Mixer(3, (1, 9, 9), 3, MixerSizes(5, 7, 11, 2))


def test_uniform_output_weights_and_one_input_weight_are_found_in_their_blocks(capsys):
    initial = small_mixer()
    trained = deepcopy(initial)
    with torch.no_grad():
        trained.stack.blocks[0].mixer.W_1.weight[4, 2] += 1
        trained.stack.blocks[1].mixer.W_2.weight[:, 3] += 2
    added = show_added([trained], [initial])
    assert (added.first, added.last) == (pytest.approx(1 / 9), pytest.approx(1))
    assert "11 % of the squared weights in the first and 100 % in the last" in capsys.readouterr().out


def test_the_unit_of_rank_one_has_the_largest_input_weights(capsys):
    model = small_mixer()
    with torch.no_grad():
        network = model.stack.blocks[1].mixer
        network.W_1.weight[6, 5] = 50
        network.W_2.weight[:, 6] = -network.W_1.weight[6]
    show_hidden_unit(model, block=2, rank=1)
    assert "row 2, column 3; its input and output weights correlate by -1.00" in capsys.readouterr().out
