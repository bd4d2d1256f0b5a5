"""The printed and drawn costs are those that were measured; attention becomes dearer where the formula says."""

import pytest

from course_tools.lectures.lecture_04 import figures
from course_tools.lectures.lecture_04.figures import attention_cheaper_until, show_costs, show_times
from course_tools.notebook.layer_costs import LayerCosts


@pytest.fixture
def shown(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: drawn.append((figure, alt)))
    return drawn


def test_every_layer_has_a_line_and_a_curve(shown, capsys):
    costs = LayerCosts({"A": [1, 4], "B": [2, 4]}, {"A": 2.0, "B": 1.0}, {"A": [2, 2], "B": [3, 5]}, {"A": [1, 1], "B": [2, 4]})
    show_costs(costs, [10, 20], [3, 5])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("n = 3, 5")
    assert [line.split() for line in lines[1:]] == [
        ["A", "2.00", "[2,", "2]", "[1,", "1]"],
        ["B", "1.00", "[3,", "5]", "[2,", "4]"],
    ]
    ((figure, alt),) = shown
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["A", "B"]
    assert "A 2.00, B 1.00" in alt


def test_attention_is_cheaper_than_an_lstm_below_twice_the_size_and_never_cheaper_than_an_rnn():
    assert attention_cheaper_until(5) == [4, 0, 9]


def test_times_are_drawn_for_both_layers(shown):
    show_times([2, 3], d=4)
    ((figure, alt),) = shown
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["self-attention (fused)", "GRU (fused)"]
    assert "from 2 to 3" in alt
