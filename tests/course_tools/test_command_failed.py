"""Every failure of a command ends with one sentence and the right exit status."""

import pytest

from course_tools import cli
from course_tools.command_failed import CommandFailed
from course_tools.exams import CannotCompose
from course_tools.grading.files import CannotGrade
from course_tools.publishing import NotACourse, PublishingFailed, UnknownLecture
from course_tools.studies import CannotStudy, UnknownStudy


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CannotCompose, 1),
        (CannotGrade, 1),
        (CannotStudy, 1),
        (PublishingFailed, 1),
        (NotACourse, 2),
        (UnknownLecture, 2),
        (UnknownStudy, 2),
    ],
)
def test_a_command_that_fails_says_why_in_one_line(monkeypatch, capsys, error, status):
    def refuse(options, rest):
        raise error("there is no such thing.")

    assert issubclass(error, CommandFailed)
    monkeypatch.setitem(cli._COMMANDS, "exercises", refuse)
    assert cli.main(["exercises"]) == status
    assert capsys.readouterr().err == "course: there is no such thing.\n"


def test_an_error_of_the_course_itself_keeps_its_traceback(monkeypatch):
    def break_down(options, rest):
        raise ValueError("a mistake in the course")

    monkeypatch.setitem(cli._COMMANDS, "exercises", break_down)
    with pytest.raises(ValueError, match="a mistake"):
        cli.main(["exercises"])
