"""Conditions of claims: what holds, what never holds, what is refused, and how they read."""

import pytest

from course_tools.notebook.conditions import holds, in_words, names


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("x >= 0.5", {"x": 0.5}, True),
        ("x > 0.5", {"x": 0.5}, False),
        ("0.4 <= x <= 4 / 9 + 1e-4", {"x": 0.4445}, True),
        ("0.4 <= x <= 4 / 9 + 1e-4", {"x": 0.4446}, False),
        ("min(x) - max(y) >= 0.4", {"x": [0.9, 0.8], "y": [0.4]}, True),
        ("mean(x) == 2 and not len(x) == 2", {"x": [1, 2, 3]}, True),
        ("abs(-x) * sum(y) < round(z) or all(y)", {"x": 1, "y": [1, 0], "z": 1.6}, True),
        ("sorted(x) == [1, 2]", {"x": [2, 1]}, True),
        ("x == 'key'", {"x": "key"}, True),
        ("x", {"x": True}, True),
        ("not x", {"x": True}, False),
    ],
)
def test_conditions_hold_as_in_python(condition, values, expected):
    assert holds(condition, values) is expected


@pytest.mark.parametrize(
    "condition", ["x > 0", "not x > 0", "x == x", "x != 0", "1 / (x - x) > 0", "max(y) > 0", "len(y) == 2"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_holds_for_what_is_not_finite(condition, value):
    assert not holds(condition, {"x": value, "y": [1.0, value]})


def test_a_division_by_zero_does_not_hold():
    assert not holds("1 / x > 0 or x == 0", {"x": 0})


@pytest.mark.parametrize(
    "condition",
    [
        "x[0] > 1",
        "x.y > 1",
        "open(x) > 1",
        "(lambda: x)() > 1",
        "[y for y in x] == x",
        "x ** 2 > 1",
        "f'{x}' == 'a'",
        "max(x, key=y) > 1",
    ],
)
def test_other_parts_of_python_are_refused(condition):
    with pytest.raises(ValueError, match="Compute the rest in the cell"):
        names(condition)


@pytest.mark.parametrize(
    ("condition", "values", "message"),
    [
        ("x + 1", {"x": 1}, "needs a comparison, such as `x [+] 1 >= 0.9`"),
        ("x >= 1", {"x": [1, 2]}, "compare min or max"),
        ("min(x) >= 1", {"x": 1}, "does not fit its values"),
    ],
)
def test_values_that_do_not_fit_are_refused(condition, values, message):
    with pytest.raises(ValueError, match=message):
        holds(condition, values)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (["x >= 0.5"], "at least 0.5"),
        (["x <= 1e-4"], "at most 1e-4"),
        (["0.4 <= x <= 0.6"], "between 0.4 and 0.6"),
        (["x == [1, 2]"], "equals [1, 2]"),
        (["x"], "yes"),
        (["not x"], "no"),
        (["min(x) >= 0.5"], "min(x) at least 0.5"),
        (["x >= 0.5", "min(x) - y > 0"], "x at least 0.5; min(x) - y above 0"),
        (["x > 0 or x < -1"], "x > 0 or x < -1"),
    ],
)
def test_conditions_in_words(conditions, words):
    assert in_words(conditions) == words
