"""The figures of lecture 01 show the values that they are given, and say them in words."""

import pytest
import torch

from course_lib.primitives import lstm_step
from course_tools.bank.lecture_01.flip_flop_weights import flip_flop_weights
from course_tools.lectures.lecture_01 import figures


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: found.append((figure, alt)))
    return found


def test_a_step_is_as_dark_as_its_gradient_and_fainter_than_the_scale_is_white(shown):
    figures.show_fading({"plain": torch.tensor([1e-20, 1e-6, 1.0]), "kept": torch.tensor([0.5, 0.7, 1.0])})
    ((figure, alt),) = shown
    plain, kept = (row.get_array().tolist() for row in figure.axes[0].collections)
    assert plain == pytest.approx([-20, -6, 0], abs=1e-5)
    assert kept[0] == pytest.approx(-0.30103)
    assert "3 steps" in alt
    assert "plain: 1e-20" in alt


def test_a_loss_starts_where_its_first_block_does_beside_a_guess(shown):
    figures.show_losses({"5 symbols": [2.0] * 30, "60 symbols": [2.1] * 30})
    ((figure, alt),) = shown
    assert figure.axes[0].get_ylim()[0] == 0
    assert "5 symbols from 2.00 to 2.00" in alt
    assert "2.08" in alt


def test_the_norms_of_the_updates_stand_beside_the_limit(shown):
    figures.show_norms([0.5, 0.5, 40.0], limit=1.0)
    ((figure, alt),) = shown
    norms, limit = (line.get_ydata()[-1] for line in figure.axes[0].lines)
    assert (norms, limit) == (40.0, 1.0)
    assert "half are at most 0.5, the largest is 40" in alt


def test_a_unit_is_drawn_with_what_its_gates_do_at_each_input(shown):
    x = torch.tensor([[1.0, 1, 0], [-1, 0, 0], [-1, 1, 0]])
    figures.show_unit(lstm_step, x, *flip_flop_weights(3))
    ((figure, alt),) = shown
    rows = figure.axes[0].images[0].get_array()
    assert rows.round(1).tolist()[2:6] == [[1, 0, 1], [0, 1, 0], [1, 1, -1], [1, 1, 1]]
    assert alt.endswith("at 0 the bit 1, c 1.00; at 2 the bit -1, c -1.00; at the end c is -1.00.")
