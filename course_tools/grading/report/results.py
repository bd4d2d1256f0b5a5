"""The results of a class: which notebook of a student counts, and all marks as a table and as JSON.

Where a student has several notebooks of one lecture, the newest resubmission counts by Canvas's number (NB.ipynb, NB-1.ipynb,
…); between notebooks that no number orders, the one with more points does. Either way a note says so.
"""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from course_tools.bank import exercises
from course_tools.checks import Exercise, Finding
from course_tools.grading.intake.submissions import Intake, Note, Student
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.flags import Flag, look_alikes, published_solutions

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


@dataclass(frozen=True)
class Result:
    """One student: for each lecture the notebook that counts, notes, and whether something came late.

    `failures` are for the instructor: notebooks whose grading failed, and how.
    """

    student: Student
    by_lecture: dict[str, NotebookResult]
    notes: tuple[str, ...]
    late: bool = False
    failures: tuple[str, ...] = ()

    @property
    def marks(self) -> dict[str, Mark]:
        """The marks that count, by exercise."""
        return {mark.exercise: mark for notebook in self.by_lecture.values() for mark in notebook.marks}

    @property
    def points(self) -> int | None:
        """What all lectures earned together; None where no notebook was graded."""
        return sum(notebook.points for notebook in self.by_lecture.values()) if self.by_lecture else None


@dataclass(frozen=True)
class Results:
    """All students in the order of their names, and a line on each file that belongs to no student."""

    students: tuple[Result, ...]
    unassigned: tuple[Note, ...]
    seed: int | None = 0

    @cached_property
    def lectures(self) -> list[str]:
        """The lectures of which something was graded."""
        return sorted({number for result in self.students for number in result.by_lecture})

    @cached_property
    def exercises(self) -> list[Exercise]:
        """The exercises of these lectures."""
        return [item for item in exercises() if item.lecture in self.lectures]

    @cached_property
    def max_points(self) -> int:
        """What everything right would earn."""
        return sum(item.points for item in self.exercises)

    @cached_property
    def isolation(self) -> list[str]:
        """Which isolation layers were active: one sentence, more where a grading went on elsewhere."""
        return sorted({notebook.isolation for result in self.students for notebook in result.by_lecture.values()})

    @cached_property
    def flags(self) -> list[Flag]:
        """What an instructor may want to look at; no mark depends on it."""
        seen = [
            Flag("forbidden or suspicious", (result.student.id,), (mark.exercise,), text)
            for result in self.students
            for mark in result.marks.values()
            for text in mark.flags
        ]
        wrote = {
            result.student.id: {id: parts for notebook in result.by_lecture.values() for id, parts in notebook.shapes.items()}
            for result in self.students
        }
        return [*seen, *published_solutions(wrote), *look_alikes(wrote)]

    @cached_property
    def misconceptions(self) -> list[tuple[int, str, str]]:
        """How many students show which misconception, the most common first: (number, exercise, text)."""
        seen = Counter(
            (mark.exercise, mark.misconception)
            for result in self.students
            for mark in result.marks.values()
            if mark.misconception
        )
        return [(n, id, text) for (id, text), n in sorted(seen.items(), key=lambda item: (-item[1], item[0]))]

    def marks_of(self, id: str) -> list[Mark]:
        """Give every mark of an exercise."""
        return [result.marks[id] for result in self.students if id in result.marks]


def collect(intake: Intake, graded: Sequence[Graded], seed: int | None = 0) -> Results:
    """Put the notebooks of each student together.

    Args:
        intake: what was handed in.
        graded: its notebooks, with what came of them.
        seed: with which the inputs were drawn.
    """
    students: dict[str, Student] = {}
    handed: dict[str, list[Graded]] = defaultdict(list)
    notes: dict[str, list[str]] = defaultdict(list)
    for item in graded:
        students.setdefault(item.submission.student.id, item.submission.student)
        handed[item.submission.student.id].append(item)
    for note in intake.notes:
        if note.student is not None:
            students.setdefault(note.student.id, note.student)
            notes[note.student.id].append(f"{note.source} {note.text}")
    results = [_result(student, handed[id], notes[id]) for id, student in students.items()]
    results.sort(key=lambda result: (result.student.name.casefold(), result.student.id))
    return Results(tuple(results), tuple(note for note in intake.notes if note.student is None), seed)


def with_names(results: Results, names: Mapping[str, str]) -> Results:
    """Show students by the names of the instructor's table, by id; others keep the name of their file or folder."""
    named = [
        replace(result, student=result.student._replace(name=names.get(result.student.id, result.student.name)))
        for result in results.students
    ]
    named.sort(key=lambda result: (result.student.name.casefold(), result.student.id))
    return replace(results, students=tuple(named))


def _result(student: Student, handed: list[Graded], notes: list[str]) -> Result:
    counting = {}
    graded_notes = [f"{item.submission.source}: {item.result.note}" for item in handed if item.result and item.result.note]
    failures = tuple(f"{item.submission.source}: {item.failure}" for item in handed if item.failure)
    several_of: dict[str, list[Graded]] = defaultdict(list)
    for item in handed:
        if item.result is not None and item.result.lecture is not None:
            several_of[item.result.lecture].append(item)
    for lecture, several in sorted(several_of.items()):
        counted, why = _counted(several)
        counting[lecture] = counted.result
        graded_notes += [why] if why else []
    late = any(item.submission.late for item in handed)
    return Result(student, counting, (*graded_notes, *notes), late, failures)


def _counted(several: list[Graded]) -> tuple[Graded, str]:
    """Choose among the notebooks of one student and lecture, and say why."""
    newest: dict[str, Graded] = {}
    for item in sorted(several, key=lambda item: (item.submission.attempt, item.result.points)):
        newest[item.submission.series] = item
    counted = max(newest.values(), key=lambda item: item.result.points)
    if len(several) == 1:
        return counted, ""
    rule = "the newest resubmission counts" if len(newest) == 1 and counted.submission.attempt else "the better one counts"
    listed = ", ".join(f"{item.submission.source} ({item.result.points})" for item in several)
    return (
        counted,
        f"{len(several)} notebooks of lecture {counted.result.lecture}: {rule}, {counted.submission.source}. Points: {listed}.",
    )


def grades_csv(results: Results) -> str:
    """Give the marks as a table, one row a student: quoted, and no cell that a spreadsheet would take for a formula."""
    header = ["id", "name", *(item.id for item in results.exercises), *(f"lecture {n}" for n in results.lectures)]
    rows: list[list[object]] = [[*header, "points", "of", "late", "notes"]]
    for result in results.students:
        marks, notebooks = result.marks, result.by_lecture
        row: list[object] = [*result.student]
        row += [marks[item.id].points if item.id in marks else "" for item in results.exercises]
        row += [notebooks[number].points if number in notebooks else "" for number in results.lectures]
        total = "" if result.points is None else result.points
        rows.append(
            [*row, total, results.max_points, "late" if result.late else "", " ".join([*result.failures, *result.notes])]
        )
    return _csv(rows)


def flags_csv(results: Results) -> str:
    """Give the flags as a table, one row each."""
    rows: list[list[object]] = [["kind", "students", "exercises", "what"]]
    rows += [[flag.kind, "; ".join(flag.students), "; ".join(flag.exercises), flag.what] for flag in results.flags]
    return _csv(rows)


def report_json(results: Results) -> str:
    """Give everything but names of files on this machine and running times, which differ from run to run."""
    report = {
        "seed": results.seed,
        "isolation": results.isolation,
        "max_points": results.max_points,
        "exercises": [_exercise(item, results) for item in results.exercises],
        "misconceptions": [{"students": n, "exercise": id, "text": text} for n, id, text in results.misconceptions],
        "students": [_student(result) for result in results.students],
        "flags": [flag._asdict() for flag in results.flags],
        "other_files": [{"file": note.source, "note": note.text} for note in results.unassigned],
    }
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def _exercise(item: Exercise, results: Results) -> dict:
    marks = results.marks_of(item.id)
    passed, earned = sum(mark.passed for mark in marks), sum(mark.points for mark in marks)
    return {
        "id": item.id,
        "title": item.title,
        "points": item.points,
        "handed_in": len(marks),
        "right": passed,
        "share_of_points": round(earned / (item.points * len(marks)), 4) if marks and item.points else None,
    }


def _student(result: Result) -> dict:
    marks = [{**asdict(mark), "findings": [_finding(f) for f in mark.findings]} for mark in result.marks.values()]
    for mark in marks:
        del mark["seconds"]
    return {
        "id": result.student.id,
        "name": result.student.name,
        "points": result.points,
        "late": result.late,
        "notes": list(result.notes),
        "failures": list(result.failures),
        "marks": marks,
    }


def _finding(finding: Finding) -> dict:
    return {"name": finding.name, "law": finding.law, "status": finding.status, "points": finding.points}


def _csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[_defused(cell) for cell in row] for row in rows])
    return "\ufeff" + text.getvalue()


def _defused(cell: object) -> str:
    """Put an apostrophe before what a spreadsheet would run."""
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
