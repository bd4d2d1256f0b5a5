"""Without the scale, the spread of the scores grows as √d_k and the softmax saturates; the figure states it."""

import math

import pytest

from course_tools.lectures.lecture_04.figures import measure_saturation, show_saturation


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


def test_the_alternative_text_has_the_ends_of_both_curves(found, capsys):
    show_saturation(found)
    text = capsys.readouterr().out
    for values in found.largest.values():
        assert f"{values[0]:.2f}" in text
        assert f"{values[-1]:.2f}" in text
