"""Write marks into the instructor's table: one column is filled, and every other byte is kept.

Canvas: the exported gradebook (Student, ID, SIS …, Section, one column per assignment), matched by ID. Moodle: the grading
worksheet (Identifier "Participant 123456", Grade, Maximum Grade). If the table states a maximum that differs from the points of
the exercises, the marks are scaled to it.
"""

import re
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from course_tools.grading.files import CannotGrade, shown
from course_tools.grading.intake.recognise import Course
from course_tools.grading.lms.csv_table import Broken, RawTable
from course_tools.grading.report.results import Result, Results
from course_tools.whole_file import reason

_ASSIGNMENT = re.compile(r"(?P<title>.*\S)\s*\((?P<id>\d+)\)", re.DOTALL)
_MOST_BYTES = 64 << 20
_MOST_LISTED = 20
_NAMES = ("Student", "Full name")
"""The titles of the column with the students' names, in a table of Canvas and of Moodle."""


@dataclass(frozen=True)
class Filled:
    """A table with its marks: the bytes to write, and messages for the instructor on the marks and on the students.

    `n_held` of the cells with a mark had one before.
    """

    data: bytes
    column: str
    n_marks: int
    n_held: int
    on_marks: tuple[str, ...]
    on_students: tuple[str, ...]


class Roster:
    """The table of an LMS, read and validated before anything is graded."""

    def __init__(self, path: Path, id_columns: tuple[str, ...]) -> None:
        """Read a table.

        Args:
            path: the file that the LMS exported.
            id_columns: the columns that may identify a student; the first one is required.

        Raises:
            CannotGrade: it cannot be read, is not a table, or is not a table of this LMS.
        """
        self.path = path
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES)
            self.table = RawTable.read(data)
        except OSError as error:
            raise CannotGrade(f"the roster {path} cannot be read: {reason(error)}") from error
        except Broken as error:
            raise CannotGrade(f"the roster {path} is not a valid table: {error}") from error
        self.header = [name.strip() for name in self.table.values(0)]
        if id_columns[0] not in self.header:
            listed = ", ".join(self.header[:8])
            missing = f"the roster {path} has no column {id_columns[0]!r}; its columns are {listed}"
            raise CannotGrade(f"{missing}. Export it from the LMS again, with the LMS set to English.")
        self.ids = [self.header.index(name) for name in id_columns if name in self.header]
        self.name = next((self.header.index(name) for name in _NAMES if name in self.header), 0)

    def names(self) -> dict[str, str]:
        """Return the name of each student in the table, by every id of the student."""
        column = self.name
        found: dict[str, str] = {}
        known = set(self.students())
        for row in range(1, len(self.table.rows)) if self.header[column] in _NAMES else ():
            values = self.table.values(row)
            if column < len(values) and values[column].strip():
                found.update({id: shown(values[column].strip()) for id in self._ids(values, known) if id})
        return found

    def _ids(self, values: list[str], known: Set[str]) -> list[str]:
        """The ids of a row; one of another column that is also `known` as an id of the LMS belongs to that student alone."""
        first, *others = [_id(values[place]) for place in self.ids if place < len(values)] or [""]
        return [first, *(id for id in others if id not in known)]

    def students(self) -> list[str]:
        """Return the id of each student in the form that the names of downloaded files contain."""
        rows = (self.table.values(row) for row in range(1, len(self.table.rows)))
        ids = [_id(values[self.ids[0]]) for values in rows if self.ids[0] < len(values)]
        return [id for id in ids if id]

    def fill(self, column: int, marks: dict[str, str]) -> tuple[list[int], list[str], dict[str, int]]:
        """Write marks into a column.

        Args:
            column: its index.
            marks: for each student, by id, the text to write.

        Returns:
            the rows written, the students without a mark, and the number of rows of each student with a mark.
        """
        written, without, rows_of = [], [], dict.fromkeys(marks, 0)
        name, known_ids = self.name, set(self.students())
        for row in range(1, len(self.table.rows)):
            values = self.table.values(row)
            names = self._ids(values, known_ids)
            if not names[0] or len(values) <= column:
                continue
            known = next((name for name in names if name in marks), None)
            if known is None:
                without += [values[name].strip() or names[0]] if values[name].strip() != "Student, Test" else []
            else:
                rows_of[known] += 1
                self.table.replace(row, column, marks[known])
                written.append(row)
        return written, without, rows_of


def canvas(path: Path) -> Roster:
    """Read a gradebook that Canvas exported (Grades → Export)."""
    return Roster(path, ("ID", "SIS Login ID", "SIS User ID"))


def moodle(path: Path) -> Roster:
    """Read a grading worksheet that Moodle exported (View all submissions → Download grading worksheet)."""
    return Roster(path, ("Identifier",))


def fill_canvas(roster: Roster, results: Results, course: Course, lecture: str | None, column: str | None) -> Filled:
    """Fill the column of one assignment of a gradebook.

    Args:
        roster: from `canvas`.
        results: of the class.
        course: recognises a lecture's column by its title.
        lecture: the lecture whose marks are written; None if only one was graded.
        column: its title, with or without the number after it; None if its title names the lecture, or it is the only one.

    Raises:
        CannotGrade: it is not clear which lecture or column is meant.
    """
    lecture = _lecture(results, lecture)
    titles = {place: found["title"] for place, name in enumerate(roster.header) if (found := _ASSIGNMENT.fullmatch(name))}
    if column is not None:
        chosen = [place for place, title in titles.items() if column.strip() in (title, roster.header[place])]
    else:
        chosen = [p for p, title in titles.items() if course.named(title) == lecture] or list(titles)
    if len(chosen) != 1:
        listed = ", ".join(repr(title) for title in titles.values()) or "none"
        raise CannotGrade(
            f"which column of {roster.path} is lecture {lecture}? Specify it with --column; the assignments are: {listed}."
        )
    first = next((roster.table.values(row) for row in range(1, len(roster.table.rows)) if _is_possible(roster, row)), [])
    possible = first[chosen[0]] if chosen[0] < len(first) else ""
    return _filled(roster, results, lecture, chosen[0], possible)


def fill_moodle(roster: Roster, results: Results, lecture: str | None, column: str | None) -> Filled:
    """Fill the Grade column of a worksheet; arguments and errors as for Canvas."""
    lecture, name = _lecture(results, lecture), column or "Grade"
    if name not in roster.header or roster.header.index(name) in roster.ids:
        raise CannotGrade(
            f"{roster.path} has no column {name!r}. Specify the column with --column: {', '.join(roster.header)}."
        )
    maximum = next((n for n, title in enumerate(roster.header) if title.casefold() == "maximum grade"), None)
    rows = [roster.table.values(row) for row in range(1, len(roster.table.rows))]
    possible = next((row[maximum] for row in rows if maximum is not None and maximum < len(row)), "")
    return _filled(roster, results, lecture, roster.header.index(name), possible)


def _filled(roster: Roster, results: Results, lecture: str, column: int, possible: str) -> Filled:
    most = _number(possible)
    have = {result.student.id: result for result in results.students if result.points_of(lecture) is not None}
    maxima = {id: results.max_points_of(result, lecture) for id, result in have.items()}
    scales = {id: most / maximum if most and maximum else 1.0 for id, maximum in maxima.items()}
    marks = {id: _text(result.points_of(lecture) * scales[id], "," in possible) for id, result in have.items()}
    before = [roster.table.values(row)[column : column + 1] for row in range(len(roster.table.rows))]
    written, without, rows_of = roster.fill(column, marks)
    held = [row for row in written if _number(*before[row]) is not None]
    rows = {row: roster.table.values(row) for row in held}
    changed = [
        f"{shown(values[roster.name].strip())} ({before[row][0].strip()} → {values[column]})"
        for row, values in rows.items()
        if _number(*before[row]) != _number(values[column])
    ]
    replaced = "; ".join(
        [*changed[:_MOST_LISTED], *([f"and {len(changed) - _MOST_LISTED} more"] * (len(changed) > _MOST_LISTED))]
    )
    unmatched = [_named(have[id]) for id, n in rows_of.items() if not n]
    twice = [_named(have[id]) for id, n in rows_of.items() if n > 1]
    scaled = sorted({maxima[id] for id, scale in scales.items() if scale != 1.0})
    ungraded = [_named(result) for result in results.students if result.student.id not in have]
    listed = " or ".join(f"{maximum:g}" for maximum in scaled)
    on_marks = [
        (scaled, f"The marks were scaled from {listed} points to the {possible.strip()} of the table."),
        (changed, f"Existing marks that differed and were replaced ({len(changed)}): {replaced}."),
    ]
    on_students = [
        (without, f"Without a graded notebook, left unchanged ({len(without)}): {'; '.join(without)}."),
        (unmatched, f"Graded, but not in the table ({len(unmatched)}): {'; '.join(unmatched)}."),
        (twice, f"In several rows, each filled ({len(twice)}): {'; '.join(twice)}."),
        (
            ungraded,
            f"With a submission that could not be graded as lecture {lecture} ({len(ungraded)}): {'; '.join(ungraded)}.",
        ),
    ]
    said = (tuple(text for shown, text in lines if shown) for lines in (on_marks, on_students))
    return Filled(roster.table.data(), roster.header[column], len(written), len(held), *said)


def _is_possible(roster: Roster, row: int) -> bool:
    values = roster.table.values(row)
    return bool(values) and values[0].strip() == "Points Possible"


def _lecture(results: Results, lecture: str | None) -> str:
    if lecture is not None:
        return lecture
    if len(results.lectures) != 1:
        found = ", ".join(results.lectures) or "none"
        raise CannotGrade(f"the graded lectures are: {found}. Specify the one for the roster with --lecture NN.")
    return results.lectures[0]


def _named(result: Result) -> str:
    return result.student.name if result.student.name == result.student.id else f"{result.student.name} ({result.student.id})"


def _id(value: str) -> str:
    """Return the id in a cell: 123456 for Moodle's "Participant 123456", else the text."""
    found = re.fullmatch(r"\D+ (\d+)", value.strip())
    return found[1] if found else value.strip()


def _number(text: str = "") -> float | None:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _text(points: float, comma: bool) -> str:
    """Format a mark with at most two decimals, and with a decimal comma if the table uses one."""
    text = f"{points:.2f}".rstrip("0").rstrip(".")
    return text.replace(".", ",") if comma else text
