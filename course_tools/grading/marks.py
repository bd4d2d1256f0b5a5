"""Marks of one exercise of one submission, as the engine gives it to the reports."""

from dataclasses import dataclass, field
from typing import Literal

from course_tools.checks import Finding

Status = Literal["judged", "not started", "not found", "no answer"]


@dataclass(frozen=True)
class NotRun:
    """A statement of a student's notebook that did not run in the grading: its cell, from 1, its first line, and why."""

    cell: int
    line: str
    why: str


@dataclass(frozen=True)
class Mark:
    """The mark of one exercise of one submission.

    `status` is "judged" where the answer was called and compared; "not started" where the empty exercise was handed in;
    "not found" where no cell holds it; "no answer" where the answer crashed, hung, was refused or spoke nonsense. `findings`
    are fit for a student: they hold no reference value and no hidden input. `detail` is a sentence for the student where the
    status is not "judged", or where it was judged in a variant and is not right; `flags` are for the instructor and never
    change the points. `not_run` names the statements that did not run though the answer, which is not right, may depend on
    them. `shortened` is a sentence where the answer was stopped at a limit shorter than the usual one. `override` is the
    instructor's reason where the points are theirs, and `by_checks` what the checks had given then. `seconds` is how long it
    took to grade, 0 where a journal gave it.
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
