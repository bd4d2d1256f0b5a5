"""The figures state the weights that they draw; softmax saturates without the scale, and costs cross where the formula says."""

import math

import pytest
import torch

from course_lib.attention import split_heads
from course_tools.lectures.lecture_04 import figures
from course_tools.lectures.lecture_04.figures import (
    attention_cheaper_until,
    measure_saturation,
    show_lookup,
    show_query,
    show_split_heads,
)


@pytest.fixture
def shown(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: drawn.append((figure, alt)))
    return drawn


def test_a_query_by_hand_has_the_weights_of_a_gaussian_kernel(shown):
    show_query(1.0, 2.0)
    similarity = [math.exp(-squared / 2) for squared in (5, 1, 13)]
    for each, name in zip(similarity, ("k4", "k15", "k9"), strict=True):
        assert f"{each / sum(similarity):.3f} for {name} " in shown[0][1]


def test_the_blocks_are_those_of_the_function_and_a_view_cuts_a_token(shown):
    show_split_heads(split_heads, n_heads=3)
    ((figure, alt),) = shown
    assert "head 0 are of the tokens a, b, c; after a plain view, they are of the tokens a, a, a" in alt
    rows = [[text.get_text() for text in ax.texts if not text.get_text().startswith("head")] for ax in figure.axes]
    assert rows[1][:6] == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert rows[2][:6] == ["a0", "a1", "a2", "a3", "a4", "a5"]


def test_the_map_of_a_look_up_outlines_the_pair_of_each_question(shown):
    keys, values = torch.arange(12) % 8, torch.tensor([*range(8), 8, 8, 8, 8])
    weights = torch.eye(12)
    weights[8:10] = torch.eye(12)[:2]
    show_lookup(weights, keys, values)
    ((figure, alt),) = shown
    assert [round(patch.get_x() + 0.5) for patch in figure.axes[0].patches] == [0, 1, 2, 3]
    assert "in 2 of 4 rows" in alt


# Without the scale, the spread of the scores grows as √d_k and the softmax saturates; the figure states it.


@pytest.fixture(scope="module")
def found():
    return measure_saturation([2, 7, 257], n_keys=11, n_queries=499)


def test_the_spread_of_the_scores_is_the_root_of_the_size(found):
    assert found.spread == pytest.approx([math.sqrt(d) for d in (2, 7, 257)], rel=0.1)


def test_only_without_the_scale_does_the_largest_weight_approach_one(found):
    assert found.largest["without"][-1] > 0.8
    assert max(found.largest["with 1/√d_k"]) < 0.5
    assert found.slope["without"] < found.slope["with 1/√d_k"]


def test_the_same_seed_gives_the_same_numbers():
    first, again, other = (measure_saturation([3], n_queries=13, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


# The printed and drawn costs are those that were measured; attention becomes dearer where the formula says.


def test_attention_is_cheaper_than_an_lstm_below_twice_the_size_and_never_cheaper_than_an_rnn():
    assert attention_cheaper_until(5) == [4, 0, 9]
