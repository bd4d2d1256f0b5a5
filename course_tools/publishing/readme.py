"""Generated parts of the README: its line of numbers and its table of lectures, written by `course build`."""

from collections.abc import Sequence
from pathlib import Path

import nbformat

from course_tools.bank import exercises
from course_tools.publishing.claims_table import cell
from course_tools.publishing.measured import load
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import Lecture, PublishingFailed
from course_tools.publishing.student_time import student_time


def readme_with(lectures: Sequence[Lecture], root: Path) -> str:
    """Return the README's text with its numbers and its table of lectures rewritten between their markers.

    Args:
        lectures: the lectures of the course.
        root: the folder of the course.

    Raises:
        PublishingFailed: the README lacks a marker.
    """
    asked = {each.number: exercises(each.number) for each in lectures}
    n_wrong = sum(len(item.wrong) for items in asked.values() for item in items)
    built = [nbformat.read(each.solution, as_version=4) for each in lectures if each.solution.exists()]
    n_claims = sum(len(claims(solution)) for solution in built)
    numbers = (
        "| lectures | exercises | wrong answers tested | claims measured and asserted | data downloads |\n"
        "| --- | --- | --- | --- | --- |\n"
        f"| {len(lectures)} | {sum(map(len, asked.values()))} | {_about(n_wrong)} | {_about(n_claims)} | 0 |"
    )
    costs = load(root)
    head = "Minutes of a student: for the core, and for what goes further. Runs in: the notebook, on one CPU thread.\n"
    rows = [head, "| | Lecture | Exercises | Minutes | Runs in |", "| --- | --- | --- | --- | --- |"]
    for lecture in lectures:
        link = f"[{cell(lecture.title)}]({lecture.name(lecture.unsolved)})"
        time = student_time(lecture)
        minutes = f"{time.core} + {time.further}" if time.further else str(time.core)
        seconds = f"{costs[lecture.number]['seconds']} s" if lecture.number in costs else ""
        rows.append(f"| {lecture.number} | {link} | {len(asked[lecture.number])} | {minutes} | {seconds} |")
    text = (root / "README.md").read_text(encoding="utf-8")
    return between(between(text, "numbers", numbers), "lectures", "\n".join(rows))


def _about(n: int) -> str:
    """Round a count down to hundreds, so that it changes rarely: "1,600+"; a small one is exact."""
    return f"{n // 100 * 100:,}+" if n >= 100 else str(n)


def between(text: str, name: str, new: str, file: str = "README.md") -> str:
    """Replace the text between the markers of that name.

    Raises:
        PublishingFailed: the file lacks a marker.
    """
    before, begin, rest = text.partition(f"<!-- {name}:begin -->")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    if not begin or not end:
        raise PublishingFailed(f"{file} lacks the markers <!-- {name}:begin --> and <!-- {name}:end -->.")
    return f"{before}{begin}\n{new}\n{end}{after}"
