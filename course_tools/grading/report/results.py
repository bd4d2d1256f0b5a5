"""The results of a class: which notebook of a student counts, and all marks as a table and as JSON.

If a student has several notebooks of one lecture, the newest resubmission counts, by Canvas's number (NB.ipynb, NB-1.ipynb, …).
If the notebooks are not numbered, the one with the most points counts. In both cases a note says so.
"""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from course_tools.bank import exercise, exercises
from course_tools.checks import Exercise, Finding
from course_tools.grading.intake.submissions import Intake, Note, Student
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.flags import Flag, likeness_to_published, look_alikes, published_solutions

_TRY_BY_HAND = "Run its check in the student's notebook; if the answer is right there, set the points by `overrides`."
_MOST_NOTES = 20
_LONGEST_CELL = 32_000
_FORMULA = re.compile(r"(^|[;,\t|])(?=[=+\-@\t\r\n＝＋－＠])")


class MarkByHand(NamedTuple):
    """Points from the instructor for an item without a check, such as a written answer."""

    lecture: str
    item: str
    points: float
    of: float
    comment: str


@dataclass(frozen=True)
class Result:
    """One student: for each lecture the notebook that counts, notes, and whether a submission was late.

    `failures` are for the instructor: notebooks whose grading failed, and why. `has_canvas_id` is False if files were submitted
    but not downloaded from Canvas: then an id of digits is not a number of Canvas, and may be chosen by the student. The other
    fields come from the instructor's policy: marks given by hand, the fraction of a lecture's points that remains after a late
    penalty, lectures that do not count, and the id of the group's member whose notebook counts, by lecture, if it is another
    student.
    """

    student: Student
    by_lecture: dict[str, NotebookResult]
    notes: tuple[str, ...]
    late: bool = False
    failures: tuple[str, ...] = ()
    by_hand: tuple[MarkByHand, ...] = ()
    share_left: Mapping[str, float] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    has_canvas_id: bool = True

    @property
    def code(self) -> dict[str, str]:
        """The student's own code for each exercise, in the notebooks that count."""
        return {id: text for notebook in self.by_lecture.values() for id, text in notebook.code.items()}

    @property
    def shapes(self) -> dict[str, tuple[str, ...]]:
        """The fingerprints of that code, without notebooks that another member of the group submitted."""
        own = [notebook for lecture, notebook in self.by_lecture.items() if lecture not in self.shared]
        return {id: parts for notebook in own for id, parts in notebook.shapes.items()}

    @property
    def marks(self) -> dict[str, Mark]:
        """The marks that count, by exercise."""
        return {mark.exercise: mark for notebook in self.by_lecture.values() for mark in notebook.marks}

    def points_of(self, lecture: str) -> float | None:
        """The points of a lecture, with marks given by hand and after a late penalty; None if nothing was marked."""
        given = [mark.points for mark in self.by_hand if mark.lecture == lecture]
        if lecture in self.by_lecture:
            given.append(self.by_lecture[lecture].points)
        if not given:
            return None
        points = round(sum(given) * self.share_left.get(lecture, 1.0), 2)
        return int(points) if points == int(points) else points

    @property
    def extra_points(self) -> float:
        """The points of exercises that the maximum leaves out, in the lectures that count, before a late penalty."""
        asked = ((mark, exercise(mark.exercise)) for mark in self.marks.values())
        return sum(mark.points for mark, item in asked if item.extra and item.lecture not in self.dropped)

    @property
    def points(self) -> float | None:
        """The points of all lectures that count, extra points included; None if nothing was marked."""
        lectures = self.by_lecture.keys() | {mark.lecture for mark in self.by_hand}
        points = [self.points_of(lecture) for lecture in sorted(lectures) if lecture not in self.dropped]
        return round(sum(points), 2) if lectures else None


@dataclass(frozen=True)
class Results:
    """All students in the order of their names, and a remark on each file that does not belong to a student."""

    students: tuple[Result, ...]
    unassigned: tuple[Note, ...]
    seed: int | None = 0

    @cached_property
    def lectures(self) -> list[str]:
        """The lectures of which a notebook was graded or an item was marked by hand."""
        of_hand = {mark.lecture for result in self.students for mark in result.by_hand}
        return sorted({number for result in self.students for number in result.by_lecture} | of_hand)

    @cached_property
    def exercises(self) -> list[Exercise]:
        """The exercises of the lectures of which a notebook was graded."""
        return [item for number in sorted({n for r in self.students for n in r.by_lecture}) for item in exercises(number)]

    @cached_property
    def items_by_hand(self) -> dict[tuple[str, str], float]:
        """The items marked by hand, as (lecture, item), and their maximum points; no student needs to have all of them."""
        marks = [mark for result in self.students for mark in result.by_hand]
        return {
            (mark.lecture, mark.item): mark.of for mark in sorted(marks, key=lambda mark: (mark.lecture, mark.item, mark.of))
        }

    def max_points_of(self, result: Result, *lectures: str) -> float:
        """The maximum points of a student in some lectures, without extra points: a student can have more.

        Of the items marked by hand only the student's own count, so that an item for one student scales no other mark.
        """
        by_hand = sum(mark.of for mark in result.by_hand if mark.lecture in lectures)
        return sum(item.points for item in self.exercises if item.lecture in lectures and not item.extra) + by_hand

    def of(self, result: Result) -> float:
        """The maximum points of the lectures that count for a student."""
        return self.max_points_of(result, *(lecture for lecture in self.lectures if lecture not in result.dropped))

    @cached_property
    def same_maximum(self) -> float | None:
        """The maximum points of every student who has points; None if they differ."""
        found = {self.of(result) for result in self.students if result.points is not None}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def isolation(self) -> list[str]:
        """Which isolation layers were active: one sentence, or more if grading was continued on another machine."""
        return sorted({notebook.isolation for result in self.students for notebook in result.by_lecture.values()} - {""})

    @cached_property
    def flags(self) -> list[Flag]:
        """What an instructor may want to inspect; no mark depends on it."""
        seen = [
            Flag("forbidden or suspicious", (result.student.id,), (mark.exercise,), text)
            for result in self.students
            for mark in result.marks.values()
            for text in mark.flags
        ]
        seen += [
            Flag("shorter time limit", (result.student.id,), (mark.exercise,), f"{mark.shortened} {_TRY_BY_HAND}")
            for result in self.students
            for mark in result.marks.values()
            if mark.shortened and not mark.override
        ]
        wrote = {result.student.id: result.shapes for result in self.students}
        return [*seen, *published_solutions(wrote), *look_alikes(wrote)]

    @cached_property
    def misconceptions(self) -> list[tuple[int, str, str]]:
        """The misconceptions, the most common first: (number of students, exercise, text)."""
        seen = Counter(
            (mark.exercise, mark.misconception)
            for result in self.students
            for mark in result.marks.values()
            if mark.misconception and not mark.override
        )
        return [(n, id, text) for (id, text), n in sorted(seen.items(), key=lambda item: (-item[1], item[0]))]

    def marks_of(self, id: str) -> list[Mark]:
        """Return all marks of an exercise."""
        return [result.marks[id] for result in self.students if id in result.marks]


def collect(intake: Intake, graded: Sequence[Graded], seed: int | None = 0, counts: str = "newest") -> Results:
    """Collect the notebooks of each student.

    Args:
        intake: the submissions.
        graded: its notebooks, with their results.
        seed: the seed of the inputs.
        counts: which of several notebooks of one lecture counts: the "newest", if they are numbered, or always the "best".
    """
    students: dict[str, Student] = {}
    handed: dict[str, list[Graded]] = defaultdict(list)
    notes: dict[str, list[Note]] = defaultdict(list)
    for item in graded:
        students.setdefault(item.submission.student.id, item.submission.student)
        handed[item.submission.student.id].append(item)
    for note in intake.notes:
        if note.student is not None:
            students.setdefault(note.student.id, note.student)
            notes[note.student.id].append(note)
    results = [_result(student, handed[id], _first(notes[id]), counts) for id, student in students.items()]
    results.sort(key=lambda result: (result.student.name.casefold(), result.student.id))
    return Results(tuple(results), tuple(note for note in intake.notes if note.student is None), seed)


def _first(notes: Sequence[Note]) -> list[str]:
    """One note for each remark on a student's files: a zip can hold a thousand other files."""
    about: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        about[note.text].append(note.source)
    lines = [f"{files[0]} {text}{_same_for(len(files) - 1)}" for text, files in about.items()]
    more = len(lines) - _MOST_NOTES
    return lines if more <= 0 else [*lines[:_MOST_NOTES], f"{more} more remarks are left out."]


def _same_for(n: int) -> str:
    return f" The same holds for {n} more file{'s' * (n > 1)}." if n else ""


def with_names(results: Results, names: Mapping[str, str]) -> Results:
    """Replace the names of students by those in the instructor's table, by id; others keep the name of their file or folder."""
    named = [
        replace(result, student=result.student._replace(name=names.get(result.student.id, result.student.name)))
        for result in results.students
    ]
    named.sort(key=lambda result: (result.student.name.casefold(), result.student.id))
    return replace(results, students=tuple(named))


def _result(student: Student, handed: list[Graded], notes: list[str], counts: str) -> Result:
    counting = {}
    graded_notes = [f"{item.submission.source}: {item.result.note}" for item in handed if item.result and item.result.note]
    failures = tuple(f"{item.submission.source}: {item.failure}" for item in handed if item.failure)
    several_of: dict[str, list[Graded]] = defaultdict(list)
    for item in handed:
        if item.result is not None and item.result.lecture is not None:
            several_of[item.result.lecture].append(item)
    for lecture, several in sorted(several_of.items()):
        counted, why = _counted(several, counts)
        counting[lecture] = counted.result
        graded_notes += [why] if why else []
    late = any(item.submission.late for item in handed)
    has_canvas_id = not handed or any(item.submission.lms == "Canvas" for item in handed)
    return Result(student, counting, (*graded_notes, *notes), late, failures, has_canvas_id=has_canvas_id)


def _counted(several: list[Graded], counts: str) -> tuple[Graded, str]:
    """Choose among the notebooks of one student and lecture, and say why."""
    newest: dict[str, Graded] = {}
    for item in sorted(several, key=lambda item: (item.submission.attempt, item.result.points)):
        newest[item.submission.series if counts == "newest" else item.submission.source] = item
    counted = max(newest.values(), key=lambda item: item.result.points)
    if len(several) == 1:
        return counted, ""
    is_newest = len(newest) == 1 and counted.submission.attempt
    which = f"{len(several)} notebooks of lecture {counted.result.lecture}"
    if not any(item.result.marks for item in several):  # a dry run
        return counted, f"{which}: the {'newest resubmission' if is_newest else 'one with the most points'} will count."
    rule = "the newest resubmission counts" if is_newest else "the one with the most points counts"
    listed = ", ".join(f"{item.submission.source} ({item.result.points})" for item in several)
    return (
        counted,
        f"{which}: {rule}, {counted.submission.source}. Points: {listed}.",
    )


def grades_csv(results: Results) -> str:
    """Write the marks as a table, one row per student: quoted, and without cells that a spreadsheet would run as formulas."""
    header = ["id", "name", *(item.id for item in results.exercises)]
    header += [f"{lecture} {item}" for lecture, item in results.items_by_hand] + [f"lecture {n}" for n in results.lectures]
    rows: list[list[object]] = [[*header, "points", "of", "late", "notes"]]
    for result in results.students:
        marks, by_hand = result.marks, {(mark.lecture, mark.item): mark.points for mark in result.by_hand}
        row: list[object] = [*result.student]
        row += [marks[item.id].points if item.id in marks else "" for item in results.exercises]
        row += [by_hand.get(item, "") for item in results.items_by_hand]
        row += ["" if (points := result.points_of(number)) is None else points for number in results.lectures]
        total = "" if result.points is None else result.points
        rows.append(
            [*row, total, results.of(result), "late" if result.late else "", " ".join([*result.failures, *result.notes])]
        )
    return _csv(rows)


def flags_csv(results: Results) -> str:
    """Write the flags as a table, one per row."""
    rows: list[list[object]] = [["kind", "students", "exercises", "what"]]
    rows += [[flag.kind, "; ".join(flag.students), "; ".join(flag.exercises), flag.what] for flag in results.flags]
    return _csv(rows)


def report_json(results: Results) -> str:
    """Write everything except file names of this machine and running times, which differ from run to run."""
    report = {
        "seed": results.seed,
        "isolation": results.isolation,
        "exercises": [_exercise(item, results) for item in results.exercises],
        "misconceptions": [{"students": n, "exercise": id, "text": text} for n, id, text in results.misconceptions],
        "students": [_student(result, results) for result in results.students],
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


def _student(result: Result, results: Results) -> dict:
    marks = [{**asdict(mark), "findings": [_finding(f) for f in mark.findings]} for mark in result.marks.values()]
    for mark in marks:
        del mark["seconds"]
    return {
        "id": result.student.id,
        "name": result.student.name,
        "points": result.points,
        "of": results.of(result),
        "lectures": {lecture: result.points_of(lecture) for lecture in results.lectures},
        "late": result.late,
        "share_left": dict(result.share_left),
        "dropped": list(result.dropped),
        "by_hand": [mark._asdict() for mark in result.by_hand],
        "notes": list(result.notes),
        "failures": list(result.failures),
        "marks": marks,
        "likeness_to_published": {id: round(likeness_to_published(id, parts), 2) for id, parts in result.shapes.items()},
    }


def _finding(finding: Finding) -> dict:
    return {"name": finding.name, "law": finding.law, "status": finding.status, "points": finding.points}


def _csv(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[defused(cell) for cell in row] for row in rows])
    return "\ufeff" + text.getvalue()


def defused(cell: object) -> str:
    """Put an apostrophe before whatever a spreadsheet would run as a formula, with whichever separator it splits the cells.

    A long cell is cut: Excel continues one of more than 32,767 characters in the row below.
    """
    text = _FORMULA.sub(r"\1'", str(cell))
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
