"""Estimate how long the core of a lecture takes a student, and what goes further; name the exercises in their order."""

import re
from typing import NamedTuple

import jupytext

from course_tools.bank import exercise
from course_tools.publishing.project import Lecture

FURTHER = "# Going further"
"""The heading after which nothing is needed later: sections that a student may leave out, and exercises for extra points."""
WORDS_PER_MINUTE = 60
"""Pace of a student who also answers predictions, runs the cells and looks at the figures: about 50 minutes for 3,000 words."""

_NO_PROSE = re.compile(
    r"<details>.*?</details>|<img [^>]*>|</?\w+[^>]*>|\$\$.*?\$\$|\$[^$\n]*\$|^\|[^\n]*$|\]\([^)]*\)|https?://[^\s)]+",
    re.DOTALL | re.MULTILINE,
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


class StudentTime(NamedTuple):
    """The minutes that a lecture takes a student, rounded to five: its core, and the sections that go further."""

    core: int
    further: int


def opens_further(source: str) -> bool:
    """Whether a Markdown cell ends the core of its lecture."""
    return any(line.strip() == FURTHER for line in source.splitlines())


def student_time(lecture: Lecture) -> StudentTime:
    """Estimate the time that a lecture takes a student; an exercise that occurs twice counts where it occurs first."""
    minutes, exercises, further = [0.0, 0.0], exercise_minutes(lecture), False
    for cell in _cells(lecture):
        if cell.cell_type == "markdown":
            further = further or opens_further(cell.source)
            minutes[further] += n_words(cell.source) / WORDS_PER_MINUTE
        else:
            minutes[further] += exercises.pop(cell.metadata.get("exercise"), 0)
    return StudentTime(*(5 * round(each / 5) for each in minutes))


def time_phrase(lecture: Lecture) -> str:
    """State for the header how long a lecture takes, such as "about 70 minutes, and 55 more for *Going further*"."""
    time = student_time(lecture)
    return f"about {time.core} minutes" + (f", and {time.further} more for *Going further*" if time.further else "")


def order_of_exercises(lecture: Lecture) -> str:
    """Name the exercises of the core, for the header of a lecture whose exercises do not follow one another by number."""
    ids = list(exercise_minutes(lecture))
    if ids == sorted(ids):
        return ""
    core = [id for id in ids if not exercise(id).extra]
    return f"The numbers of exercises are names: the core has {', '.join(core[:-1])} and {core[-1]}, in this order."


def _cells(lecture: Lecture) -> list:
    return jupytext.reads(lecture.authoring.read_text(encoding="utf-8"), fmt="py:percent").cells
