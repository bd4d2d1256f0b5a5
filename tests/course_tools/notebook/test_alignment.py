"""Alignments of a translation model: what is measured and drawn of its weights."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.datasets import Vocabulary
from course_tools.lectures.lecture_02 import experiments
from course_tools.lectures.lecture_02.experiments import show_alignment, weight_in_own_date

ANSWER = "1987-03-05; 1988-04-06"
SOURCE = "5 mars; 6 avr"
WORDS = Vocabulary.of([SOURCE]), Vocabulary.of([ANSWER])
PAIR = SimpleNamespace(source=SOURCE, target=ANSWER)


@pytest.fixture
def attends(monkeypatch):
    """Give what every text is translated to, and the weights."""

    def to(answer, weights):
        monkeypatch.setattr(experiments, "aligned", lambda model, texts, words, most=36: ([answer] * len(texts), weights))

    return to


def own_dates(right):
    """Weights of 21 rows over the source: all on the own date where `right`, else all on the other."""
    half = SOURCE.index(";")
    first, second = torch.zeros(len(SOURCE)), torch.zeros(len(SOURCE))
    first[:half], second[half:] = 1 / half, 1 / (len(SOURCE) - half)
    rows = [first] * 11 + [second] * 11 if right else [second] * 11 + [first] * 11
    return torch.stack(rows)[None]


ANSWER_OF_21 = "1987-03-05;1988-04-06"


@pytest.mark.parametrize("right", [True, False])
def test_the_weight_in_the_own_date_is_all_or_nothing(attends, right):
    attends(ANSWER_OF_21, own_dates(right))
    assert weight_in_own_date(None, [PAIR], WORDS) == pytest.approx(float(right))


def test_uniform_weights_give_about_a_half(attends):
    attends(ANSWER_OF_21, torch.full((1, 22, len(SOURCE)), 1 / len(SOURCE)))
    assert weight_in_own_date(None, [PAIR], WORDS) == pytest.approx(0.5, abs=0.05)


def test_answers_of_another_length_are_refused(attends):
    attends("1987-03-05", torch.zeros(1, 11, len(SOURCE)))
    with pytest.raises(ValueError, match="no answer has the length of two dates"):
        weight_in_own_date(None, [PAIR], WORDS)


def test_a_model_without_attention_is_refused(attends):
    attends(ANSWER_OF_21, None)
    with pytest.raises(ValueError, match="the model has no attention"):
        weight_in_own_date(None, [PAIR], WORDS)
    with pytest.raises(ValueError, match="the model has no attention"):
        show_alignment(None, SOURCE, WORDS)


def test_a_map_has_a_row_for_each_token_of_the_answer_and_its_end(attends, monkeypatch):
    shown = []
    monkeypatch.setattr(experiments, "show", lambda figure, alt: shown.append((figure, alt)))
    attends("zwei und", torch.eye(3)[None])
    show_alignment(None, "two and x", WORDS, str.split, "English", "German")
    ((figure, alt),) = shown
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["zwei", "und", "end"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["two", "and", "x"]
    assert alt.startswith("Attention map for 'two and x', answered by 'zwei und'.")
    assert "zwei at two (1.00)" in alt
