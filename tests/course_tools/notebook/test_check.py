"""`check`: what a notebook gets back from it, and what it prints outside a kernel."""

import pytest

from course_lib.primitives import rnn_step
from course_tools.bank import UnknownExercise, exercise
from course_tools.notebook import check
from tests.course_tools.bank.answers.unusual import raises


def test_a_right_answer_comes_back_itself(asked, capsys):
    for right in asked.right:
        assert check(asked.id, right) is right
    assert capsys.readouterr().out == f"{asked.id} {asked.title}: {asked.points} of {asked.points} points. Right.\n" * len(
        asked.right
    )


def test_for_a_wrong_answer_the_reference_comes_back_and_its_misconception_is_printed(asked, capsys):
    for wrong in asked.wrong:
        assert check(asked.id, wrong) is asked.reference
        printed = capsys.readouterr()
        assert " ".join(wrong.__doc__.split()) in printed.out
        assert printed.err == ""


@pytest.mark.parametrize("answer", [raises(NotImplementedError()), raises(SystemExit()), None, 3])
def test_no_wrong_answer_raises(answer, capsys):
    assert check("01.1", answer) is rnn_step
    assert capsys.readouterr().err == ""


def test_an_empty_exercise_says_how_to_begin(capsys):
    check("01.1", raises(NotImplementedError()))
    assert "Not started yet: replace `raise NotImplementedError()` by your own code." in capsys.readouterr().out


def test_an_unknown_exercise_raises_and_names_those_that_come_near(capsys):
    with pytest.raises(UnknownExercise, match=r"there is no exercise '04\.9'; did you mean 04\."):
        check("04.9", rnn_step)
    assert capsys.readouterr().out == ""


def test_one_exercise_is_found_by_its_id(asked):
    assert exercise(asked.id) is asked
    assert asked.lecture == asked.id[:2]
