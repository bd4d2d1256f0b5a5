"""The figures of rotary positions, windows and longer texts state in words what they show."""

import pytest
import torch

from course_lib.attention import rotate
from course_lib.primitives import window_of_tokens
from course_tools.lectures.lecture_17 import figures


def test_a_pair_turns_in_proportion_to_its_speed(capsys):
    figures.show_turned(rotate, torch.tensor([1.0, 0.25]), T=5)
    assert "At position 4 they have turned by 4.00, 1.00 radians" in capsys.readouterr().out


def test_a_score_depends_on_the_distance_alone(capsys):
    figures.draw_scores(rotate, 0)
    near = capsys.readouterr().out.partition("equal key")[2]
    figures.draw_scores(rotate, 300)
    assert capsys.readouterr().out.partition("equal key")[2] == near
    figures.draw_scores(rotate, 0, base=100)
    assert capsys.readouterr().out.partition("equal key")[2] != near


def test_a_second_layer_adds_one_window_less_the_token_itself(capsys):
    figures.show_reach(window_of_tokens(13, 5))
    assert "the last token reaches 5 through one layer, 9 through two" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("trained", "inside"), [(64, "55.50 at the positions 48 to 63"), (32, "23.50 at the positions 16 to 31")]
)
def test_a_block_is_the_mean_of_its_positions(capsys, trained, inside):
    figures.show_bits_by_position({"as trained": torch.arange(1.0, 256)}, trained, {"a rival": 2.0})
    said = capsys.readouterr().out
    assert f"as trained {inside}, 247.50 at the positions 240 to 255; a rival 2.00." in said
