"""docs/rivals.md: which claims of each lecture compare a mechanism with its obvious rival, or take its cause away."""

from collections.abc import Sequence

import nbformat

from course_tools.publishing.claims_table import cell, number_in_words
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import Lecture

FILE = "docs/rivals.md"

RIVALS = {
    "01": "j k p q r x y za",
    "02": "h i k",
    "03": "a h i j k n o p q r w",
    "04": "a e f l p u v x",
    "05": "m a n p",
    "06": "l u m b",
    "07": "t u v w h",
    "08": "h i j k w x",
    "09": "stride m k l",
    "10": "m n v w p",
    "11": "e p u z",
    "12": "s t y z",
    "13": "h a i k m o z",
    "14": "z A B C E F",
    "15": "a d e f j l p r s v w",
    "16": "a e g h j k",
}
"""By lecture, the claims in the order in which the page lists them, a control after what it controls."""
_HEAD = """# Rivals and controls

What a mechanism is worth shows beside its obvious rival. A control takes away what is said to be the cause, and the effect must
go with it. These claims make such comparisons, some of them in the rival's favour; the lectures say what was held equal.
[studies.md](studies.md) holds the longer runs. This page is written by `course build`.
"""


def rivals_page(lectures: Sequence[Lecture]) -> str:
    """Write one table for each lecture: the comparison, what was measured, and the threshold that is asserted.

    Raises:
        KeyError: a lecture does not make a claim that `RIVALS` lists.
    """
    lines = [_HEAD]
    for lecture in lectures:
        made = {claim["id"]: claim for claim in claims(nbformat.read(lecture.solution, as_version=4))}
        chosen = [made[f"{lecture.number}.{letter}"] for letter in RIVALS.get(lecture.number, "").split()]
        if chosen:
            rows = [f"| {cell(c['text'])} | {cell(number_in_words(c['value']))} | {cell(c['threshold'])} |" for c in chosen]
            head = f"## [{lecture.number} {lecture.title}](../solutions/{lecture.stem}.ipynb)"
            lines += [head, "", "| Comparison | Measured | Asserted |", "| --- | --- | --- |", *rows, ""]
    return "\n".join(lines)
