"""Changes of marks in a regrade, compared with the previous report: who gains or loses, in which exercise and why."""

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import NamedTuple

from course_tools.grading.marks import Mark
from course_tools.grading.report.results import Result, Results, defused


class Change(NamedTuple):
    """One changed mark; `exercise` is "total" in the last row of each student."""

    student: str
    name: str
    exercise: str
    before: float | None
    after: float | None
    why: str


def changes(report: Path, results: Results, lecture: str | None = None) -> list[Change]:
    """Compare results with the `report.json` of an earlier grading.

    Args:
        report: the file; if it is missing or is not a report, nothing has changed.
        results: those that would be written now. New students, and students who are no longer included, do not count as
            changes.
        lecture: the only lecture that was graded now; then marks of the others are not compared.
    """
    before: dict[str, dict] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        before = {student["id"]: student for student in json.loads(report.read_text(encoding="utf-8"))["students"]}
    pairs = [(before[result.student.id], result) for result in results.students if result.student.id in before]
    return [change for old, result in pairs for change in _of_student(old, result, lecture)]


def changes_csv(found: list[Change]) -> str:
    """Write the changes as a table, one per row."""
    text = io.StringIO()
    rows = [["id", "name", "exercise", "before", "after", "why"], *found]
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["" if c is None else defused(c) for c in row] for row in rows])
    return "\ufeff" + text.getvalue()


def summary(found: list[Change]) -> str:
    """Summarise in a sentence how many students gain and lose."""
    differences = [(change.after or 0) - (change.before or 0) for change in found if change.exercise == "total"]
    gain, lose = (sum(sign * difference > 0 for difference in differences) for sign in (1, -1))
    return f"The marks of {len(differences)} students differ from the previous ones: {gain} gain, {lose} lose."


def _of_student(old: dict, result: Result, lecture: str | None) -> list[Change]:
    marks = {mark["exercise"]: mark for mark in old["marks"] if lecture is None or mark["exercise"].startswith(f"{lecture}.")}
    now = result.marks
    found = []
    for id in sorted(marks.keys() | now.keys()):
        before, after = marks.get(id), now.get(id)
        points = (before and before["points"], after and after.points)
        if points[0] != points[1]:
            found.append(Change(result.student.id, result.student.name, id, *points, _why(before, after)))
    explained = sum((change.after or 0) - (change.before or 0) for change in found)
    earlier = old["points"] if lecture is None else old.get("lectures", {}).get(lecture)
    now_earned = result.points if lecture is None else result.points_of(lecture)
    total = (now_earned or 0) - (earlier or 0)
    why = _why_of_total(old, result) if round(total - explained, 2) else ""
    if not found and not why:
        return []
    return [*found, Change(result.student.id, result.student.name, "total", earlier, now_earned, why)]


def _why_of_total(old: dict, result: Result) -> str:
    """Which rule changes the total of a student beyond the marks of the exercises."""
    by_hand = [list(mark) for mark in result.by_hand]
    rules = {
        "late penalty": old.get("share_left") != dict(result.share_left),
        "dropped lectures": old.get("dropped") != list(result.dropped),
        "marks by hand": [list(mark.values()) for mark in old.get("by_hand", ())] != by_hand,
    }
    return ", ".join(name for name, differs in rules.items() if differs) or "the lectures that count"


def _why(before: dict | None, after: Mark | None) -> str:
    if before is None or after is None:
        return "another notebook counts"
    if after.override or before.get("override"):
        return f"override: {after.override}" if after.override else "the override was removed"
    if sum(comment.points for comment in after.comments) != sum(points for _, points in before.get("comments", ())):
        return f"comment: {' '.join(comment.text for comment in after.comments)}" if after.comments else "a comment was removed"
    if before["status"] != after.status:
        return f"{before['status']} before, {after.status} now"
    old = {finding["name"]: finding for finding in before["findings"]}
    new = {finding.name: finding for finding in after.findings}
    status = [f"{name}: {old[name]['status']} before, {new[name].status} now" for name in old.keys() & new.keys()]
    moved = sorted(
        text for name, text in zip(old.keys() & new.keys(), status, strict=True) if old[name]["status"] != new[name].status
    )
    moved += [f"{name}: new" for name in sorted(new.keys() - old.keys())]
    moved += [f"{name}: no longer checked" for name in sorted(old.keys() - new.keys())]
    return "; ".join(moved) or "the points of its properties or of its mistake changed"
