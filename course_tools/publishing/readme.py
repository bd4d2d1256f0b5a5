"""Generated parts of the README: its line of numbers and its table of lectures, written by `course build`."""

from collections.abc import Sequence
from pathlib import Path

import nbformat

from course_tools.bank import exercises
from course_tools.publishing.claims_table import cell
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import Lecture, PublishingFailed
from course_tools.publishing.student_time import student_time

BUILT = {
    "01": "a network that writes plays",
    "02": "a translator of dates",
    "03": "a captioner that looks before each word",
    "04": "attention that writes your name backwards",
    "05": "a Transformer that translates",
    "06": "a network that adds binary numbers",
    "07": "a GPT, from an empty cell",
    "08": "a small BERT",
    "09": "a network that colours creatures",
    "10": "a network that removes noise",
    "11": "a ViT that reads the legend of a map",
    "12": "a detector for crowds",
    "13": "a Mixer for patches out of order",
    "14": "a language model with a state of fixed size",
    "15": "a network that finds out whom to listen to",
    "16": "SimCLR, which learns without labels",
    "17": "a small Llama",
    "18": "a memory that corrects itself",
    "19": "attention in tiles; text from half the calls",
}
"""What a student builds, in a few words, by the number of the lecture."""


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
    counts = {
        "lectures": len(lectures),
        "exercises": sum(map(len, asked.values())),
        "wrong answers tested": _about(n_wrong),
        "claims measured and asserted": _about(n_claims),
        "data downloads": 0,
    }
    numbers = " · ".join(f"**{n}** {what}" for what, n in counts.items())
    rows = ["| Lecture | You build | Minutes: core + further |", "| --- | --- | --- |"]
    for lecture in lectures:
        link = f"[{lecture.number} {cell(lecture.title)}]({lecture.name(lecture.unsolved)})"
        time = student_time(lecture)
        minutes = f"{time.core} + {time.further}" if time.further else str(time.core)
        rows.append(f"| {link} | {BUILT.get(lecture.number, '')} | {minutes} |")
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
