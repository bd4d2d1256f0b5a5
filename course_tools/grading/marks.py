"""The mark of one exercise of one submission, passed from the engine to the reports."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from course_tools.checks import Finding

Status = Literal["judged", "not started", "not found", "no answer"]


@dataclass(frozen=True)
class NotRun:
    """A statement of a student's notebook that did not run in grading: its cell, from 1, its first line, and the reason."""

    cell: int
    line: str
    why: str


class Comment(NamedTuple):
    """A remark of the instructor on an answer, and the points that it adds, 0 or less than 0 included."""

    text: str
    points: float


@dataclass(frozen=True)
class Mark:
    """The mark of one exercise of one submission.

    `status` is "judged" if the answer was called and compared; "not started" if the exercise was submitted unchanged; "not
    found" if no cell defines it; "no answer" if the answer crashed, did not end, was refused or returned malformed data.
    `findings` may be shown to a student: they contain no values of the reference and no hidden inputs. `detail` is a sentence
    for the student if the status is not "judged", or if the answer was judged in a variant and is wrong. `flags` are for the
    instructor and never change the points. `not_run` names the statements that did not run although the wrong answer may depend
    on them. `shortened` is a sentence if the answer was stopped at a limit shorter than the usual one. `override` is the
    instructor's reason if the points are set by hand, `comments` are the instructor's remarks, and `by_checks` are then the
    points of the checks. `seconds` is the time that grading took, 0 if the result was read from a journal.
    """

    exercise: str
    status: Status
    points: float
    max_points: int
    passed: bool
    misconception: str | None
    findings: tuple[Finding, ...]
    detail: str
    flags: tuple[str, ...]
    seconds: float = field(default=0.0, compare=False)
    override: str = ""
    by_checks: float = 0
    not_run: tuple[NotRun, ...] = ()
    shortened: str = ""
    comments: tuple[Comment, ...] = ()
