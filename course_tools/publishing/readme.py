"""Generated parts of the README: its line of numbers and its table of lectures, written by `course build`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_tools.bank import exercises
from course_tools.publishing.claims_table import cell
from course_tools.publishing.measured import load
from course_tools.publishing.project import Lecture, PublishingFailed
from course_tools.publishing.student_time import student_minutes


@dataclass(frozen=True)
class _Count:
    """Counts of one lecture."""

    exercises: int
    wrong: int
    claims: int


def readme_with(lectures: Sequence[Lecture], claims_of: dict[str, tuple[str, str, list[dict]]], root: Path) -> str:
    """Return the README's text with its numbers and its table of lectures rewritten between their markers.

    Args:
        lectures: the lectures of the course.
        claims_of: lecture number -> title, path and claims, as for docs/claims.md.
        root: the folder of the course.

    Raises:
        PublishingFailed: the README lacks a marker.
    """
    counts = {lecture.number: _count(lecture, claims_of) for lecture in lectures}
    total = [sum(getattr(count, name) for count in counts.values()) for name in ("exercises", "wrong", "claims")]
    numbers = (
        "| lectures | exercises | wrong answers tested | claims measured and asserted | data downloads |\n"
        f"| --- | --- | --- | --- | --- |\n| {len(counts)} | {total[0]} | {total[1]:,} | {total[2]} | 0 |"
    )
    costs = load(root)
    times = sorted(map(student_minutes, lectures))
    head = f"Each takes {times[0]} to {times[-1]} minutes. The last column is the run time of the notebook on one CPU thread.\n"
    rows = [head, "| | Lecture | Exercises | Claims | Runs in |", "| --- | --- | --- | --- | --- |"]
    for lecture in lectures:
        link = f"[{cell(lecture.title)}]({lecture.name(lecture.unsolved)})"
        seconds = f"{costs[lecture.number]['seconds']} s" if lecture.number in costs else ""
        count = counts[lecture.number]
        rows.append(f"| {lecture.number} | {link} | {count.exercises} | {count.claims} | {seconds} |")
    text = (root / "README.md").read_text(encoding="utf-8")
    return _between(_between(text, "numbers", numbers), "lectures", "\n".join(rows))


def _count(lecture: Lecture, claims_of: dict[str, tuple[str, str, list[dict]]]) -> _Count:
    asked = [item for item in exercises() if item.lecture == lecture.number]
    claims = claims_of[lecture.number][2] if lecture.number in claims_of else []
    return _Count(len(asked), sum(len(item.wrong) for item in asked), len(claims))


def _between(text: str, name: str, new: str) -> str:
    """Replace the text between the markers of that name."""
    before, begin, rest = text.partition(f"<!-- {name}:begin -->")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    if not begin or not end:
        raise PublishingFailed(f"README.md lacks the markers <!-- {name}:begin --> and <!-- {name}:end -->.")
    return f"{before}{begin}\n{new}\n{end}{after}"
