"""What the decks state about self-attention has the values that follow from shapes and variances."""

import pytest

from course_tools.lectures.lecture_04.errata import deck_statements


def test_each_statement_is_measured():
    found = deck_statements(seed=3)
    assert found.spread_by_values == pytest.approx((512 / 8) ** 0.5, rel=0.1)
    assert found.without_bias == [True, True]
    assert found.matches == [False, True]
    assert found.columns_miss > 0.01
    assert found.dilated_layers == 4
    assert found.features_compared == (3, 3)
    assert not found.unequal_match
    assert 1.0 < found.growth < 1.6
