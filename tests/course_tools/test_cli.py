"""The `course` command: arguments, exit statuses, and what it prints."""

import json
import subprocess
import sys

import pytest

from course_tools import cli as command
from course_tools.bank import exercise, exercises
from course_tools.microscope import ROOMS
from course_tools.publishing import lectures, project_root


def test_exercises_are_listed_as_json(capsys):
    assert command.main(["exercises", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [item["id"] for item in listed] == [item.id for item in exercises()]
    first = listed[0]
    assert set(first) == {"id", "lecture", "title", "points", "function", "wrong", "right"}
    assert len(first["wrong"]) == len(exercise(first["id"]).wrong)
    assert all(item["function"].startswith(("course_lib.", "course_tools.bank.")) for item in listed)


def test_exercises_are_listed_in_words(capsys):
    assert command.main(["exercises"]) == 0
    printed = capsys.readouterr().out
    for item in exercises():
        assert f"{item.id}  {item.title}" in printed
        assert item.wrong[0].__name__ in printed


@pytest.mark.parametrize(
    ("arguments", "status"), [(["build", "99"], 2), (["run", "99"], 2), (["run", "--json", "/no/such/x"], 1)]
)
def test_what_does_not_exist_is_said_in_one_line(course, monkeypatch, capsys, arguments, status):
    monkeypatch.setattr(command, "project_root", lambda: course)
    assert command.main(arguments) == status
    said = capsys.readouterr().err
    assert said.startswith("course: there is no ")
    assert said.count("\n") == 1


def test_check_says_what_is_stale_and_changes_nothing(course, monkeypatch, capsys):
    monkeypatch.setattr(command, "project_root", lambda: course)
    before = sorted(course.rglob("*"))
    assert command.main(["build", "--check"]) == 1
    assert "lectures/04_tiny.ipynb does not exist: run `python course.py build 04`" in capsys.readouterr().out
    assert sorted(course.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["build", "--nothing"], ["exercises", "04"], ["study", "-j", "0"], ["run", "--threads", "x"]]
)
def test_a_wrong_command_line_is_explained(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert "usage: course" in capsys.readouterr().err


def test_the_command_starts_without_torch():
    code = "import sys, course_tools.cli, course_tools.publishing; print('torch' in sys.modules or 'IPython' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_the_microscope_is_written_with_its_rooms_beside_it(tmp_path, capsys):
    assert command.main(["microscope", "--out", str(tmp_path / "new" / "page.html")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'new' / 'page.html'}\n"
    assert "<title>Attention microscope</title>" in (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    for room in ROOMS:
        assert (tmp_path / "new" / f"page_{room}.html").is_file()


def test_an_exam_gets_what_was_asked_for_and_a_refusal_is_one_line(tmp_path, monkeypatch, capsys):
    import course_tools.exams as exams

    asked = []
    monkeypatch.setattr(exams, "write_exam", lambda *given: asked.append(given) or [tmp_path / "form_A.pdf"])
    assert command.main(["exam", "--lectures", "2,04", "--forms", "4", "--seed", "9", "--out", str(tmp_path)]) == 0
    assert asked == [(tmp_path, ["02", "04"], 4, 40, 9)]
    assert capsys.readouterr().out == f"wrote {tmp_path / 'form_A.pdf'}\n"
    monkeypatch.undo()
    assert command.main(["exam", "--lectures", "99", "--out", str(tmp_path)]) == 1
    last = lectures(project_root())[-1].number
    assert capsys.readouterr().err == f"course: there is no lecture 99; there are 01 to {last}.\n"
