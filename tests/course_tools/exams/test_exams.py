"""Exams: seeded, forms of equal difficulty, balanced letters, no second true option, no answer revealed."""

import ast
import random
import re
from collections import Counter

import jaxtyping
import pytest

from course_tools.bank import exercise
from course_tools.exams import CannotCompose, compose, write_exam
from course_tools.exams.forms import LETTERS
from course_tools.exams.page import form_page, key_page
from course_tools.exams.printed_code import Unprintable, footnotes, printed
from course_tools.exams.questions import (
    MINUTES,
    diagnosis_questions,
    prediction_questions,
    repair_questions,
    shape_questions,
    statuses,
)
from course_tools.publishing import browser
from course_tools.publishing.browser import chromium

LECTURES, N_FORMS = ("02", "14"), 2


@pytest.fixture(scope="module")
def forms():
    """Return the forms of one exam. The slow type checks are switched off here, before `unchecked` does so."""
    jaxtyping.config.update("jaxtyping_disable", True)
    return compose(LECTURES, N_FORMS, minutes=40, seed=1)


def questions(forms):
    return [item.question for form in forms for item in form.items]


def test_the_same_seed_gives_the_same_exam_and_another_seed_another(forms):
    assert compose(LECTURES, N_FORMS, minutes=40, seed=1) == forms
    assert compose(LECTURES, N_FORMS, minutes=40, seed=2) != forms


def test_forms_have_one_plan_other_questions_and_equal_difficulty(forms):
    assert [form.name for form in forms] == ["A", "B"]
    plans = {tuple((item.question.exercise, item.question.kind) for item in form.items) for form in forms}
    assert len(plans) == 1
    asked = [(q.exercise, q.kind, q.source) for q in questions(forms)]
    assert len(set(asked)) == len(asked)
    difficulties = [form.difficulty for form in forms]
    assert max(difficulties) - min(difficulties) <= 0.05 * max(difficulties)


def test_a_form_fills_its_minutes_with_several_kinds_from_every_lecture(forms):
    for form in forms:
        assert 34 <= form.minutes <= 40
        assert {item.question.exercise[:2] for item in form.items} == set(LECTURES)
        assert {"diagnose", "shape", "repair"} <= {item.question.kind for item in form.items}


def test_a_form_prints_code_of_an_exercise_once(forms):
    for form in forms:
        printed_of = [item.question.exercise for item in form.items if item.question.kind in ("diagnose", "repair")]
        assert len(set(printed_of)) == len(printed_of)


def test_each_letter_is_right_as_often_as_another_or_once_more(forms):
    for form in forms:
        counts = Counter(item.letter for item in form.items if item.letter)
        assert max(counts.values()) - min(counts[letter] for letter in LETTERS) <= 1


def test_the_letter_is_that_of_the_right_option(forms):
    for item in (item for form in forms for item in form.items if item.letter):
        assert item.options[LETTERS.index(item.letter)] == item.question.options[0]
        assert sorted(option.text for option in item.options) == sorted(option.text for option in item.question.options)


@pytest.mark.parametrize("id", ["02.4", "13.3"])
def test_what_another_option_says_breaks_a_property_that_the_code_keeps(id):
    asked = exercise(id)
    judged = statuses(asked)
    by_mistake = {" ".join(answer.__doc__.split()): own for answer, own in judged.items()}
    by_name = {answer.__name__: own for answer, own in judged.items()}
    made = list(diagnosis_questions(asked, random.Random(0)))
    assert len(made) > 5
    for question in made:
        own = by_name[question.source]
        assert by_mistake[question.options[0].text] == own
        for option in question.options[1:]:
            assert any(status == "fails" and own[name] == "holds" for name, status in by_mistake[option.text].items())


def test_the_right_result_and_the_right_shape_are_those_of_the_library():
    found = list(prediction_questions(exercise("04.3"), random.Random(0)))
    assert found
    for question in found:
        lengths, T_k = (line.split(maxsplit=1)[1] for line in question.code.splitlines())
        rows = [[[t < n for t in range(int(T_k))]] for n in ast.literal_eval(lengths)]
        assert question.options[0].text == str(rows).replace("True", "T").replace("False", "F")
    for question in shape_questions(exercise("04.1"), random.Random(0)):
        q, _, v = (ast.literal_eval(line.split(maxsplit=1)[1]) for line in question.code.splitlines())
        assert question.options[0].text == str((*q[:-1], v[-1]))
        assert len({option.text for option in question.options}) == 4


def test_no_name_and_no_docstring_gives_a_mistake_away(forms):
    for question in (q for q in questions(forms) if q.kind in ("diagnose", "repair")):
        text = form_page(forms[0], "Exam")
        assert question.source not in question.code
        assert "@wrong" not in question.code
        assert '"""' not in question.code
        assert f"{question.exercise}, {question.source}" not in text
        assert question.code.startswith(f"def {exercise(question.exercise).reference.__name__}(")
        ast.parse(question.code)


def test_helpers_are_explained_in_footnotes():
    asked = exercise("02.4")
    answer = next(answer for answer in asked.wrong if answer.__name__ == "scores_scaled_by_the_number_of_keys")
    (note,) = footnotes(answer)
    assert note.text.startswith("attend(scores, values, mask): Normalise the scores over the keys")
    step = next(answer for answer in exercise("05.7").wrong if "_best_of_all" in answer.__code__.co_names)
    assert {"_best_of_all"} <= {note.name for note in footnotes(step) if note.is_code}
    assert not any('"""' in note.text for note in footnotes(step))


def _with_a_docstring_alone(x):
    """Only this."""


def test_code_is_printed_without_its_docstring_under_another_name():
    def answer(q, k,
               v=None):  # fmt: skip
        """Two
        lines."""
        return q  # kept

    assert printed(answer, "attend") == "def attend(q, k,\n           v=None):  # fmt: skip\n    return q  # kept"
    with pytest.raises(Unprintable):
        printed(max, "attend")
    assert ast.parse(printed(_with_a_docstring_alone, "f"))


def test_the_key_explains_every_option(forms):
    key = key_page(forms, "Exam", seed=1)
    for form in forms:
        assert f"<tr><th>Form {form.name}</th>" in key
    n_choices = sum(bool(item.options) for form in forms for item in form.items)
    assert key.count('class="right"') == n_choices
    assert key.count('class="wrong"') == 3 * n_choices
    assert not re.search(r"<p>\s*</p>", key)


def test_a_repair_names_the_property_and_its_key_a_right_answer():
    made = list(repair_questions(exercise("02.4"), random.Random(0)))
    assert made
    for question in made:
        assert "This property does not hold: “" in question.text
        assert "def attend(" in question.answer


@pytest.mark.parametrize(
    ("lectures", "n_forms", "minutes", "words"),
    [
        (("99",), 2, 40, "no lecture 99"),
        ((), 2, 40, "needs a lecture"),
        (("02",), 0, 40, "1 to 26"),
        (("14",), 26, 12, "too few"),
    ],
)
def test_what_the_bank_cannot_give_is_said(lectures, n_forms, minutes, words):
    with pytest.raises(CannotCompose, match=words):
        compose(lectures, n_forms, minutes)


def test_without_a_browser_the_pages_are_written_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "chromium", lambda: None)
    written = write_exam(tmp_path / "exam", ["14"], 2, minutes=12, seed=3)
    assert [path.name for path in written] == ["form_A.html", "form_B.html", "answer_key.html"]
    assert not re.search(r"""(?:src|href)=["']""", written[0].read_text(encoding="utf-8"))


@pytest.mark.browser
def test_a_page_is_printed_as_pdf(tmp_path):
    if chromium() is None:
        pytest.skip("no Chromium or Chrome is installed")
    page = tmp_path / "form.html"
    page.write_text(form_page(compose(["14"], 1, minutes=12)[0], "Exam"), encoding="utf-8")
    assert browser.print_pdf(page, tmp_path / "form.pdf")
    assert (tmp_path / "form.pdf").read_bytes().startswith(b"%PDF")


def test_a_question_names_the_defaults_and_says_what_its_letters_are():
    (first, *_) = prediction_questions(exercise("04.2"), random.Random(0))
    assert first.text.startswith("`causal_mask(T_q, T_k=None, device=None)`: ")
    assert first.text.endswith("T stands for True, F for False.")


def test_points_are_minutes(forms):
    assert all(question.points == MINUTES[question.kind] for question in questions(forms))
