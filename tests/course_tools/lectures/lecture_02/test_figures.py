"""The figures have a row for each token and a frame for each step, and say in words what they show."""

from types import SimpleNamespace

import pytest
import torch

from course_tools.lectures.lecture_02 import figures


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: found.append((figure, alt)))
    return found


def translates_to(answer, weights):
    return SimpleNamespace(translate=lambda texts: ([answer] * len(texts), weights))


def written(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_batch_is_a_rectangle_with_grey_cells_at_padding(shown):
    figures.show_padded_batch(["ab", "abcd"])
    ((figure, alt),) = shown
    assert written(figure) == ["length 2", "a", "b", "", "", "length 4", "a", "b", "c", "d"]
    assert [cell.get_facecolor()[0] < 1 for cell in figure.axes[0].patches] == [False, False, True, True] + [False] * 4
    assert alt == "A batch of 2 sources as a rectangle of width 4; grey padding cells: 2, 0."


def test_what_is_read_is_what_was_to_be_predicted_one_position_before(shown):
    figures.show_teacher_forcing("19")
    assert written(shown[0][0]) == ["reads", "BEGIN", "1", "9", "END", "must predict", "1", "9", "END", ""]


def test_a_map_has_a_row_for_each_token_of_the_answer_and_its_end(shown):
    figures.show_alignment(translates_to("zwei und", torch.eye(3)[None]), "two and x", str.split, "English", "German")
    ((figure, alt),) = shown
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["zwei", "und", "end"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["two", "and", "x"]
    assert alt.startswith("Attention map for 'two and x', answered by 'zwei und'.")
    assert "zwei at two (1.00)" in alt


def test_a_frame_shows_the_weights_of_one_step(shown):
    figures.show_steps(translates_to("19", torch.eye(3)[None]), "abc", first=1, n=3)
    ((figure, alt),) = shown
    assert [ax.get_title() for ax in figure.axes] == ["reads 1, writes 9", "reads 9, writes END"]
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0, 1, 0]
    assert "9 from 'b' (1.00), END from 'c' (1.00)" in alt
