"""The figures of rotary positions, windows and longer texts state in words what they show."""

import pytest
import torch

from course_lib.attention import rotate
from course_lib.metrics import cache_bytes
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


def test_the_cache_of_a_long_text_by_hand(capsys):
    figures.show_caches(cache_bytes)  # 2 · 96 layers · 128 features · 2 bytes · 2^20 tokens are 51.5 GB a head
    assert (
        "at 1,048,576 tokens: 96 heads 4.95e+03, 8 heads 412, 1 head 51.5, 8 heads, window of 4,096 1.61"
        in capsys.readouterr().out
    )


def test_bars_say_which_pair_is_held(capsys):
    figures.show_pairs([4.0, 2.5], {"window": 2.0}, torch.tensor([1.0, 0.25]), 5, 9)
    assert "no key were further than 4: pair 0 4.00, pair 1 2.50, window 2.00" in capsys.readouterr().out
