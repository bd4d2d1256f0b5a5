"""The instructor's rules for marks: attempts, late penalty, extensions, dropped lectures, overrides, marks given by hand.

They are in a TOML file and in CSV tables in the same folder, and are applied to the results of the checks each time `course
grade` runs: they survive every regrade, and the journal does not contain them.
"""

import csv
import io
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from course_tools.bank import exercise, exercises
from course_tools.grading.files import CannotGrade, reason, shown
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import NotebookResult
from course_tools.grading.report.results import MarkByHand, Result, Results

_UNITS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_COUNTS = ("newest", "best")
_KEYS = {"counts", "drop_lowest", "due", "late", "handed_in", "extensions", "overrides", "by_hand"}
_LATE_KEYS = {"percent", "per", "at_most", "grace_minutes"}


@dataclass(frozen=True)
class Override:
    """Points that replace those of the checks for one student and exercise, and why."""

    student: str
    exercise: str
    points: float
    reason: str


@dataclass(frozen=True)
class LatePenalty:
    """Percentage of a lecture's points deducted for each started hour or day, and the maximum deduction."""

    percent: float = 0.0
    per: str = "day"
    at_most: float = 100.0
    grace_minutes: float = 0.0

    def share_left(self, late: timedelta) -> float:
        """Return the fraction of the points that remains, 0 to 1."""
        late -= timedelta(minutes=self.grace_minutes)
        units = max(0, math.ceil(late / _UNITS[self.per]))
        return 1 - min(self.percent * units, self.at_most, 100.0) / 100


@dataclass(frozen=True)
class Policy:
    """All rules; by default none. Times are stored by (student, lecture), in UTC.

    `counts` decides which of several notebooks of one lecture counts: the "newest", if they are numbered, or the "best".
    """

    counts: str = "newest"
    drop_lowest: int = 0
    due: Mapping[str, datetime] = field(default_factory=dict)
    late: LatePenalty = LatePenalty()
    handed_in: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    extensions: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    by_hand: tuple[tuple[str, MarkByHand], ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Policy":
        """Read a policy file and the tables that it names, which are in the same folder.

        Raises:
            CannotGrade: a file cannot be read or is invalid; the message says what is wrong.
        """
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise CannotGrade(f"the policy {path} cannot be read: {reason(error)}") from error
        except ValueError as error:
            raise CannotGrade(f"the policy {path} is not TOML: {error}") from error
        try:
            return cls._from(data, path.parent)
        except _Misunderstood as error:
            raise CannotGrade(f"the policy {path} is invalid: {error}") from None
        except (AttributeError, TypeError):
            raise CannotGrade(f"the policy {path} is invalid: a value has the wrong type; see docs/grading.md.") from None

    @classmethod
    def _from(cls, data: dict, folder: Path) -> "Policy":
        _known(data, _KEYS)
        late = data.get("late", {})
        _known(late, _LATE_KEYS)
        if data.get("counts", "newest") not in _COUNTS:
            raise _Misunderstood(f"counts is {data['counts']!r}, but must be {' or '.join(map(repr, _COUNTS))}.")
        if late.get("per", "day") not in _UNITS:
            raise _Misunderstood(f"late.per is {late['per']!r}, but must be {' or '.join(map(repr, _UNITS))}.")
        tables = {name: _rows(folder / data[name]) if name in data else [] for name in ("handed_in", "extensions")}
        overrides = _rows(folder / data["overrides"]) if "overrides" in data else []
        by_hand = _rows(folder / data["by_hand"]) if "by_hand" in data else []
        return cls(
            data.get("counts", "newest"),
            int(_number(data.get("drop_lowest", 0), "drop_lowest")),
            {lecture.zfill(2): _time(text, "due") for lecture, text in data.get("due", {}).items()},
            LatePenalty(**{name: value if name == "per" else _number(value, f"late.{name}") for name, value in late.items()}),
            *({(r["id"], r["lecture"].zfill(2)): _time(r["time"], name) for r in rows} for name, rows in tables.items()),
            tuple(map(_override, overrides)),
            tuple((row["id"], _by_hand(row)) for row in by_hand),
        )


NO_RULES = Policy()


class _Misunderstood(ValueError):
    """A file of a policy is invalid; the message says what is wrong."""


def apply(policy: Policy, results: Results) -> tuple[Results, tuple[str, ...]]:
    """Apply the rules to the results of the checks.

    Args:
        policy: the rules.
        results: of the class; `collect` has chosen the notebooks that count.

    Returns:
        the results, and messages for the instructor.
    """
    known = {result.student.id for result in results.students}
    named = [*(o.student for o in policy.overrides), *(id for id, _ in policy.by_hand), *(id for id, _ in policy.extensions)]
    strangers = sorted({shown(id) for id in named if id not in known})
    messages = [f"In the policy, but without a submission ({len(strangers)}): {', '.join(strangers)}."] if strangers else []
    students = [_late(policy, _overridden(policy, result)) for result in results.students]
    students = [replace(result, by_hand=_of(policy, result)) for result in students]
    applied = replace(results, students=tuple(students))
    if policy.drop_lowest:
        students = [replace(result, dropped=_lowest(policy.drop_lowest, result, applied)) for result in students]
    untimed = sum(result.late and not any(id == result.student.id for id, _ in policy.handed_in) for result in students)
    if untimed and policy.late.percent:
        messages.append(f"Marked late by the LMS, but without a time in the table handed_in; not reduced: {untimed}.")
    return replace(applied, students=tuple(students)), tuple(messages)


def _overridden(policy: Policy, result: Result) -> Result:
    lectures = dict(result.by_lecture)
    for override in policy.overrides:
        if override.student != result.student.id:
            continue
        item = exercise(override.exercise)
        notebook = lectures.get(item.lecture, NotebookResult(item.lecture))
        none = Mark(item.id, "not found", 0, item.points, False, None, (), "", (), 0.0)
        marks = {mark.exercise: mark for mark in notebook.marks}
        before, points = marks.get(item.id, none), _plain(override.points)
        marks[item.id] = replace(
            before, points=points, passed=points >= item.points, override=override.reason, by_checks=before.points
        )
        lectures[item.lecture] = replace(notebook, marks=tuple(marks[id] for id in sorted(marks)))
    return replace(result, by_lecture=dict(sorted(lectures.items())))


def _late(policy: Policy, result: Result) -> Result:
    left, notes = {}, []
    for lecture in result.by_lecture:
        key = (result.student.id, lecture)
        due, came = policy.extensions.get(key, policy.due.get(lecture)), policy.handed_in.get(key)
        if due is None or came is None:
            continue
        share = policy.late.share_left(came - due)
        if share < 1:
            left[lecture] = share
            late = str(came - due).removesuffix(":00")
            notes.append(
                f"Lecture {lecture} was submitted {late} late: {round(100 * (1 - share), 2):g} % of its points are deducted."
            )
    return replace(result, share_left=left, notes=(*result.notes, *notes), late=result.late or bool(left))


def _of(policy: Policy, result: Result) -> tuple[MarkByHand, ...]:
    return tuple(mark for id, mark in policy.by_hand if id == result.student.id)


def _lowest(n: int, result: Result, results: Results) -> tuple[str, ...]:
    """The lectures in which a student earned the smallest fraction of the points; missing submissions come first."""

    def share(lecture: str) -> float:
        return (result.points_of(lecture) or 0) / (results.max_points_of(lecture) or 1)

    return tuple(sorted(sorted(results.lectures, key=share)[: max(0, min(n, len(results.lectures) - 1))]))


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _Misunderstood(f"{path} cannot be read: {reason(error)}") from None
    except ValueError:
        raise _Misunderstood(f"{path} is not in UTF-8.") from None
    rows = csv.DictReader(io.StringIO(text), restval="")
    return [_Row(path, number, row) for number, row in enumerate(rows, start=2)]


class _Row(dict):
    """A row of a table; the error for a missing column names the file and the line."""

    def __init__(self, path: Path, number: int, cells: Mapping[str, str]) -> None:
        super().__init__({name: (text or "").strip() for name, text in cells.items() if name is not None})
        self.place = f"{path.name}, line {number}"

    def __missing__(self, name: str) -> str:
        raise _Misunderstood(f"{self.place}: there is no column {name!r}; the columns are {', '.join(self)}.")


def _override(row: _Row) -> Override:
    if not row["reason"]:
        raise _Misunderstood(f"{row.place}: an override needs a reason.")
    known = {item.id: item.points for item in exercises()}
    if row["exercise"] not in known:
        raise _Misunderstood(f"{row.place}: there is no exercise {shown(row['exercise'])!r}.")
    return Override(row["id"], row["exercise"], _number(row["points"], row.place), row["reason"])


def _by_hand(row: _Row) -> MarkByHand:
    points, of = _number(row["points"], row.place), _number(row["of"], row.place)
    return MarkByHand(row["lecture"].zfill(2), row["item"], _plain(points), _plain(of), row["comment"])


def _known(data: Mapping[str, object], keys: Iterable[str]) -> None:
    if unknown := sorted(set(data) - set(keys)):
        raise _Misunderstood(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(keys))}.")


def _number(value: object, place: str) -> float:
    try:
        number = float(str(value).replace(",", "."))
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise _Misunderstood(f"{place}: {shown(str(value))!r} is not a number that is at least 0.")
    return number


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _time(value: object, place: str) -> datetime:
    """Read a time in TOML or ISO 8601 format; without a time zone, that of this machine is used."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise _Misunderstood(f"{place}: {shown(str(value))!r} is not a time such as 2026-11-02T23:59+01:00.") from None
    return time.astimezone(UTC)
