"""Which notebook counts, and tables that no name and no text of a student can break."""

import csv
import io
import json
from dataclasses import replace

import pytest

from course_tools.bank import exercise, exercises
from course_tools.checks import Finding
from course_tools.grading.intake.submissions import Intake, Note, Student, Submission
from course_tools.grading.marks import Mark, NotRun
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report import results as report_results
from course_tools.grading.report.results import collect, flags_csv, grades_csv, report_json, with_names

IDS = [item.id for item in exercises() if item.lecture == "04"]


def mark(id: str = "04.1", points: int = 0, **more) -> Mark:
    given = {"status": "judged", "max_points": 12, "passed": False, "misconception": None, "findings": (), "detail": ""}
    return Mark(exercise=id, points=points, seconds=0.5, **({"flags": ()} | given | more))


def graded_notebook(
    id: str, points: int, source: str = "", attempt: int = 0, late: bool = False, lecture: str = "04", **more
) -> Graded:
    name = source.rpartition("/")[2] or f"{id}.ipynb"
    submission = Submission(Student(id, more.pop("name", id)), source or name, name, bytes, attempt, late)
    return Graded(submission, NotebookResult(lecture, (mark(f"{lecture}.1", points, **more),), "", {}, "Every layer holds."))


def settled(*graded: Graded, notes: tuple[Note, ...] = ()):
    return collect(Intake(tuple(item.submission for item in graded), notes), graded)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))


def test_the_newest_resubmission_counts_even_where_it_is_worse():
    (result,) = settled(graded_notebook("7", 12, "a_7_1_nb.ipynb"), graded_notebook("7", 3, "a_7_2_nb-1.ipynb", 1)).students[:1]
    assert result.points == 12  # other names: nothing options them, so the one with the most points counts
    (result,) = settled(graded_notebook("7", 12, "x/nb.ipynb"), graded_notebook("7", 3, "x/nb-1.ipynb", 1)).students
    assert result.points == 3
    assert result.notes == (
        "2 notebooks of lecture 04: the newest resubmission counts, x/nb-1.ipynb. Points: x/nb.ipynb (12), x/nb-1.ipynb (3).",
    )


def test_between_notebooks_that_no_number_orders_the_better_one_counts():
    (result,) = settled(
        graded_notebook("7", 3, "7/a.ipynb"),
        graded_notebook("7", 12, "7/a (1).ipynb"),
        graded_notebook("7", 5, "7/b-4.ipynb", 4),
    ).students
    assert result.points == 12
    assert "the one with the most points counts, 7/a (1).ipynb" in result.notes[0]


def test_before_grading_no_points_are_said():
    several = [graded_notebook("7", 0, source) for source in ("7/a.ipynb", "7/a (1).ipynb")]
    unjudged = [Graded(item.submission, NotebookResult("04")) for item in several]
    assert settled(*unjudged).students[0].notes == ("2 notebooks of lecture 04: the one with the most points will count.",)


def test_an_unreadable_resubmission_costs_no_mark_of_the_one_before():
    empty = Graded(graded_notebook("7", 0, "x/nb-1.ipynb", 1).submission, NotebookResult(None, note="The file is empty."))
    (result,) = settled(graded_notebook("7", 12, "x/nb.ipynb"), empty).students
    assert result.points == 12
    assert result.notes == ("x/nb-1.ipynb: The file is empty.",)


def test_lectures_add_up():
    results = settled(graded_notebook("7", 12), graded_notebook("7", 4, "y.ipynb", lecture="01"), graded_notebook("8", 1))
    assert results.lectures == ["01", "04"]
    assert [result.points for result in results.students] == [16, 1]
    header, first, second = rows(grades_csv(results))
    assert first[header.index("lecture 01")] == "4"
    assert second[header.index("lecture 01")] == second[header.index("01.1")] == ""
    assert first[header.index("of")] == str(
        sum(item.points for item in exercises() if item.lecture in ("01", "04") and not item.extra)
    )


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "＝1", '=cmd|"/c calc"!A1'])
def test_no_cell_is_a_formula_to_a_spreadsheet(name):
    results = settled(graded_notebook(name, 2), notes=(Note(Student("-9", "-9"), "=x", "is odd"),))
    for row in rows(grades_csv(results)):
        assert not [cell for cell in row if cell[:1] in set("=+-@\t\r＝")]
    assert f"'{name}" in rows(grades_csv(results))[2] + rows(grades_csv(results))[1]


@pytest.mark.parametrize("separator", list(",;\t|"))
def test_no_part_of_a_cell_is_a_formula_whatever_separates_cells(separator):
    notes = (Note(Student("9", "x"), f"a{separator}=cmd|' /C calc'!A1{separator}.txt", "is odd"),)
    table = grades_csv(settled(graded_notebook("7", 2), notes=notes))
    assert "calc" in table
    for row in csv.reader(io.StringIO(table), delimiter=separator):
        assert not [cell for cell in row if cell[:1] in set("=+-@\t\r＝")]


@pytest.mark.parametrize("name", ['O, "Hara"', "Zoë; Søren", "李小龍", "a\u2028b", "x'y"])
def test_names_come_through_the_table_as_they_are(name):
    results = settled(graded_notebook("7", 2, name=name))
    header, row = rows(grades_csv(results))
    assert row[:2] == ["7", name]
    assert len(row) == len(header)
    assert grades_csv(results).count('"') % 2 == 0
    assert grades_csv(results).startswith('\ufeff"id","name"')


def test_who_has_no_graded_notebook_has_no_number_and_is_listed():
    pdf = Note(Student("9", "Kim"), "Kim.pdf", "is not a notebook (.ipynb); not graded.")
    failed = Graded(graded_notebook("8", 0).submission, None, "the process that graded it died, twice.")
    results = settled(graded_notebook("7", 0), failed, notes=(pdf, Note(None, "readme.txt", "is not a notebook.")))
    header, seven, eight, kim = rows(grades_csv(results))
    at = header.index("points")
    assert (seven[at], eight[at], kim[at]) == ("0", "", "")
    assert "died, twice" in eight[-1]
    assert "Kim.pdf is not a notebook" in kim[-1]
    assert [note.source for note in results.unassigned] == ["readme.txt"]


def test_the_report_holds_no_value_of_a_check_and_no_running_time():
    finding = Finding(
        "scale", "The law.", "fails", 2, "context is wrong. Furthest apart: expected 0.1234, got 5.678", "q (2, 3)"
    )
    text = report_json(settled(graded_notebook("7", 3, findings=(finding,), misconception="You forget the scale.")))
    reported = json.loads(text)
    assert not [value for value in ("0.1234", "5.678", "(2, 3)", "seconds") if value in text]
    assert reported["students"][0]["marks"][0]["findings"] == [
        {"name": "scale", "law": "The law.", "status": "fails", "points": 2},
    ]
    assert reported["misconceptions"] == [{"students": 1, "exercise": "04.1", "text": "You forget the scale."}]
    assert reported["isolation"] == ["Every layer holds."]


def test_the_hardest_and_the_most_common_are_counted():
    output = {"misconception": "You forget."}
    results = settled(
        graded_notebook("a", 3, **output), graded_notebook("b", 3, **output), graded_notebook("c", 12, passed=True)
    )
    first = json.loads(report_json(results))["exercises"][0]
    assert (first["id"], first["handed_in"], first["right"], first["share_of_points"]) == (
        "04.1",
        3,
        1,
        round(18 / (3 * exercise("04.1").points), 4),
    )
    assert results.misconceptions == [(2, "04.1", "You forget.")]


def test_flags_change_no_mark_and_are_one_row_each():
    flagged = graded_notebook("7", 12)
    result = NotebookResult("04", (Mark("04.1", "judged", 12, 12, True, None, (), "", ("=calls F.x",), 0.1),), "", {}, "")
    results = settled(Graded(flagged.submission, result))
    assert results.students[0].points == 12
    assert rows(flags_csv(results))[1:] == [["forbidden or suspicious", "7", "04.1", "'=calls F.x"]]


def test_a_shortened_limit_is_a_kind_of_its_own_until_the_mark_is_set_by_hand():
    shorter = "Its time limit was 2 instead of 10 seconds."
    (flag,) = settled(graded_notebook("7", 0, shortened=shorter)).flags
    assert (flag.kind, flag.what.startswith(f"{shorter} Run its check")) == ("shorter time limit", True)
    assert settled(graded_notebook("7", 12, shortened=shorter, override="right by hand")).flags == []


def test_the_journal_keeps_everything_of_a_mark_but_its_running_time():
    kept = graded_notebook(
        "7", 0, not_run=(NotRun(3, "x = 1 / 0", "it raised ZeroDivisionError"),), shortened="It had 2."
    ).result
    assert NotebookResult.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_the_order_of_the_students_does_not_hang_on_that_of_the_files():
    notebooks = [graded_notebook("b", 1, name="Åse"), graded_notebook("a", 2, name="bob"), graded_notebook("c", 3, name="Ada")]
    assert grades_csv(settled(*notebooks)) == grades_csv(settled(*reversed(notebooks)))


def test_students_are_shown_by_the_names_of_the_roster():
    results = with_names(
        settled(graded_notebook("7", 3, name="haraola"), graded_notebook("8", 1, name="b")), {"7": "O'Hara, Åse"}
    )
    assert [result.student for result in results.students] == [Student("8", "b"), Student("7", "O'Hara, Åse")]


def test_extra_points_count_beside_the_maximum(monkeypatch):
    """No lecture needs them to have all points, and a student may have more than all."""
    asked = exercise("04.1")
    known = {item.id: replace(item, extra=item is asked) for item in exercises("04")}
    monkeypatch.setattr(report_results, "exercise", known.get)
    monkeypatch.setattr(report_results, "exercises", lambda number: list(known.values()))
    results = settled(graded_notebook("7", asked.points))
    assert results.same_maximum == sum(item.points for item in known.values() if not item.extra)
    assert (results.students[0].points, results.students[0].extra_points) == (asked.points, asked.points)


def test_a_thousand_files_of_one_student_fill_no_table():
    """Excel continues a cell of more than 32,767 characters in the row below, where it could imitate another student."""
    notes = tuple(
        Note(Student("7", "eve"), f"{'x' * 150}{n}.txt", "is not a notebook (.ipynb); not graded.") for n in range(1000)
    )
    many = [graded_notebook("7", 3, f"7/{'y' * 2000}{n}.ipynb") for n in range(40)]
    results = settled(*many, notes=notes)
    assert len(results.students[0].notes) < 40
    assert "The same holds for 999 more files." in results.students[0].notes[-1]
    assert max(len(cell) for row in rows(grades_csv(results)) for cell in row) < 32_767
