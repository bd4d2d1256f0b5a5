"""Difficulty, discrimination, attempts and time, by hand; and a page that names no student."""

import csv
import io
import json
from pathlib import Path

import pytest

from course_tools import cli as command
from course_tools.grading.files import CannotGrade
from course_tools.grading.report.item_analysis import analyse, correlation, items_csv, items_page
from course_tools.grading.report.results import Results, report_json
from tests.course_tools.grading.report.test_results import graded_notebook, settled


def written(folder: Path, results: Results) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text(report_json(results), encoding="utf-8")
    return folder


@pytest.fixture
def weeks(tmp_path) -> list[Path]:
    """Six students in two lectures; the better in the one are the worse in the other."""
    names = ("zoe", "yan", "xia", "wim", "val", "uma")
    points = (0, 2, 4, 6, 8, 12)
    first = [
        graded_notebook(id, n, lecture="01", misconception="It <forgets> the mask." if n < 5 else None, passed=n == 12)
        for id, n in zip(names, points, strict=True)
    ]
    second = [
        graded_notebook(id, 12 - n, lecture="04", misconception="Only mine." if n == 0 else None)
        for id, n in zip(names, points, strict=True)
    ]
    return [written(tmp_path / "week1", settled(*first)), written(tmp_path / "week2", settled(*second))]


def test_difficulty_discrimination_and_misconceptions_are_those_worked_by_hand(weeks):
    first, second = analyse(weeks)
    assert (first.exercise.id, first.students, first.right) == ("01.1", 6, 1)
    assert first.share == pytest.approx(32 / 72)
    assert first.discrimination == pytest.approx(-1)
    assert first.misconceptions == ((3, "It <forgets> the mask."),)
    assert second.misconceptions == ()  # one student alone would be named by it
    assert (first.attempts, first.minutes) == (None, None)


def test_of_an_exercise_that_was_graded_twice_the_last_counts(weeks, tmp_path):
    again = written(tmp_path / "again", settled(graded_notebook("zoe", 12, lecture="01", passed=True)))
    first, _ = analyse([*weeks, again])
    assert (first.students, first.right) == (6, 2)
    assert first.share == pytest.approx(44 / 72)


@pytest.mark.parametrize("pairs", [[(0, 1)] * 6, [(0, 0), (1, 1)]], ids=["no spread", "few"])
def test_where_nothing_can_be_said_nothing_is(pairs):
    assert correlation(pairs) is None


def test_attempts_and_minutes_end_with_the_first_success_and_pauses_are_left_out(weeks, tmp_path):
    def events(*tries: tuple[str, bool]) -> str:
        lines = [{"time": f"2026-11-0{t}:00+00:00", "kind": "check", "id": "01.1", "points": 0, "passed": p} for t, p in tries]
        return "\n".join(map(json.dumps, lines)) + "\nbroken {\n"

    (tmp_path / "a.jsonl").write_text(events(("2T10:00", False), ("2T10:10", False), ("3T09:00", False), ("3T09:05", True)))
    (tmp_path / "b.jsonl").write_text(events(("2T10:00", True), ("2T11:00", False)))
    (tmp_path / "c.jsonl").write_text(events(("2T10:00", False)))
    first, second = analyse(weeks, [tmp_path / f"{name}.jsonl" for name in "abc"])
    assert (first.attempts, first.minutes) == (2.5, 7.5)  # 4 and 1 attempts, 15 and 0 minutes
    assert second.attempts is None


def test_page_and_table_name_no_student_and_show_every_exercise(weeks):
    items = analyse(weeks)
    page, text = items_page(items), items_csv(items)
    assert not [name for name in ("zoe", "yan", "xia", "wim", "val", "uma", "Only mine") if name in page + text]
    assert "It &lt;forgets&gt; the mask." in page
    assert page.count("<circle") == 2
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))
    assert [(row["exercise"], row["discrimination"], row["minutes"]) for row in rows] == [
        ("01.1", "-1.0", ""),
        ("04.1", "-1.0", ""),
    ]


def test_the_command_writes_both_and_refuses_what_is_no_grading(weeks, tmp_path, capsys):
    out = tmp_path / "class.html"
    assert command.main(["item-analysis", *map(str, weeks), "--out", str(out)]) == 0
    assert out.exists()
    assert out.with_suffix(".csv").exists()
    assert command.main(["item-analysis", str(tmp_path)]) == 1
    assert "report.json cannot be read" in capsys.readouterr().err
    (tmp_path / "report.json").write_text("[]")
    with pytest.raises(CannotGrade, match="is not a report"):
        analyse([tmp_path])
