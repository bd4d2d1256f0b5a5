"""The instructor's rules for marks: attempts, groups, late penalty, dropped lectures, overrides, comments, marks by hand.

They are in a TOML file and in CSV tables in the same folder, and are applied to the results of the checks each time `course
grade` runs: they survive every regrade, and the journal does not contain them.
"""

import csv
import io
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from course_tools.bank import exercises
from course_tools.grading.files import CannotGrade, shown
from course_tools.grading.marks import Comment
from course_tools.grading.report.results import MarkByHand
from course_tools.whole_file import reason

_OF_MOODLE = "%A, %d %B %Y, %I:%M %p"
"""A time in a worksheet that Moodle exports in English: Wednesday, 11 November 2026, 10:00 AM."""
_UNITS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_COUNTS = ("newest", "best")
_KEYS = {
    "counts",
    "drop_lowest",
    "due",
    "late",
    "handed_in",
    "extensions",
    "overrides",
    "by_hand",
    "groups",
    "rubric",
    "comments",
}
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
    """All rules; by default none. Times are stored by (student, lecture), in UTC; groups by student.

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
    groups: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[tuple[str, str], tuple[Comment, ...]] = field(default_factory=dict)

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
        tables = [_rows(folder / data[name]) if name in data else [] for name in ("handed_in", "extensions")]
        overrides = _rows(folder / data["overrides"]) if "overrides" in data else []
        by_hand = _rows(folder / data["by_hand"]) if "by_hand" in data else []
        groups = _rows(folder / data["groups"]) if "groups" in data else []
        return cls(
            data.get("counts", "newest"),
            int(_number(data.get("drop_lowest", 0), "drop_lowest")),
            {lecture.zfill(2): _time(text, "due") for lecture, text in data.get("due", {}).items()},
            LatePenalty(**{name: value if name == "per" else _number(value, f"late.{name}") for name, value in late.items()}),
            *({(r["id"], r["lecture"].zfill(2)): _time(r["time"], r.place) for r in rows} for rows in tables),
            tuple(map(_override, overrides)),
            tuple((row["id"], _by_hand(row)) for row in by_hand),
            _groups(groups),
            _comments(data.get("comments", {}), _rubric(data.get("rubric", {}))),
        )


NO_RULES = Policy()


class _Misunderstood(ValueError):
    """A file of a policy is invalid; the message says what is wrong."""


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
    return Override(row["id"], row["exercise"], _at_most(known[row["exercise"]], row), row["reason"])


def _groups(rows: Iterable[_Row]) -> dict[str, str]:
    """Read the group of each student, from a table of one's own or a group CSV of Canvas."""
    found: dict[str, str] = {}
    for row in rows:
        id, group = (
            row[name] if name in row else row[own] for name, own in (("canvas_user_id", "id"), ("group_name", "group"))
        )
        if group and found.setdefault(id, group) != group:
            raise _Misunderstood(f"{row.place}: {shown(id)} is in two groups, {shown(found[id])!r} and {shown(group)!r}.")
    return found


def _rubric(data: Mapping[str, Mapping[str, object]]) -> dict[str, Comment]:
    found = {}
    for name, item in data.items():
        _known(item, ("points", "comment"))
        points = item.get("points", 0)
        if type(points) not in (int, float) or not isinstance(item.get("comment"), str):
            raise _Misunderstood(
                f"rubric.{name} needs a comment and a number of points, such as {{ points = -2, comment = '…' }}."
            )
        found[name] = Comment(item["comment"], points)
    return found


def _comments(
    data: Mapping[str, Mapping[str, object]], rubric: Mapping[str, Comment]
) -> dict[tuple[str, str], tuple[Comment, ...]]:
    """Read the comments on each answer: names of the rubric, or sentences."""
    known, found = {item.id for item in exercises()}, {}
    for student, answers in data.items():
        for id, said in answers.items():
            if id not in known:
                raise _Misunderstood(f"comments.{shown(student)}: there is no exercise {shown(id)!r}.")
            texts = [said] if isinstance(said, str) else said
            if missing := [text for text in texts if text not in rubric and re.fullmatch(r"[\w-]+", text)]:
                listed = ", ".join(rubric) or "none"
                raise _Misunderstood(
                    f"comments.{shown(student)}: the rubric has no {shown(missing[0])!r}; its items are: {listed}. A comment "
                    "that is a single word ends with a full stop."
                )
            found[student, id] = tuple(rubric.get(text, Comment(text, 0)) for text in texts)
    return found


def _by_hand(row: _Row) -> MarkByHand:
    of = _number(row["of"], row.place)
    points = _at_most(of or math.inf, row)
    return MarkByHand(row["lecture"].zfill(2), row["item"], plain(points), plain(of), row["comment"])


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


def _at_most(maximum: float, row: _Row) -> float:
    """Read the points of a row, which are at most this; a bonus is an item by hand that adds nothing to the maximum."""
    points = _number(row["points"], row.place)
    if points > maximum:
        raise _Misunderstood(
            f"{row.place}: {points:g} points are more than the {maximum:g} possible. Enter a bonus in a row of by_hand with "
            "of = 0."
        )
    return points


def plain(number: float) -> int | float:
    """Return a whole number as an int, so that it is shown without a decimal point."""
    return int(number) if number == int(number) else number


def _time(value: object, place: str) -> datetime:
    """Read a time in TOML's, ISO 8601's or Moodle's format; without a time zone, that of this machine is used."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        time = None
    with suppress(ValueError):
        time = time or datetime.strptime(str(value), _OF_MOODLE)
    if time is None:
        raise _Misunderstood(f"{place}: {shown(str(value))!r} is not a time such as 2026-11-02T23:59+01:00.")
    return time.astimezone(UTC)
