"""Estimate how long a lecture takes a student: the minutes of its exercises, and the time to read and run the rest."""

import re

import jupytext

from course_tools.publishing.project import Lecture

WORDS_PER_MINUTE = 60
"""Pace of a student who also answers predictions, runs the cells and looks at the figures: about 50 minutes for 3,000 words."""

_NO_PROSE = re.compile(
    r"<details>.*?</details>|<img [^>]*>|</?\w+[^>]*>|\$\$.*?\$\$|\$[^$\n]*\$|^\|[^\n]*$|\]\([^)]*\)", re.DOTALL | re.MULTILINE
)


def n_words(text: str) -> int:
    """Count the words of a Markdown text, without folded answers, tables, formulas and addresses."""
    return len(re.findall(r"[^\W\d_]{2,}|\b[aAI]\b", _NO_PROSE.sub(" ", text)))


def exercise_minutes(lecture: Lecture) -> dict[str, int]:
    """Map each exercise of a lecture, such as "04.1", to the minutes that its cell states."""
    stated: dict[str, int] = {}
    for cell in _cells(lecture):
        if "exercise" in cell.metadata and "minutes" in cell.metadata:
            stated.setdefault(cell.metadata["exercise"], int(cell.metadata["minutes"]))
    return stated


def student_minutes(lecture: Lecture) -> int:
    """Estimate the minutes that a lecture takes a student, rounded to ten."""
    words = sum(n_words(cell.source) for cell in _cells(lecture) if cell.cell_type == "markdown")
    return 10 * round((words / WORDS_PER_MINUTE + sum(exercise_minutes(lecture).values())) / 10)


def time_phrase(lecture: Lecture) -> str:
    """State for the header how long a lecture takes, such as "about 120 minutes, 78 of them for exercises"."""
    return f"about {student_minutes(lecture)} minutes, {sum(exercise_minutes(lecture).values())} of them for exercises"


def _cells(lecture: Lecture) -> list:
    return jupytext.reads(lecture.authoring.read_text(encoding="utf-8"), fmt="py:percent").cells
