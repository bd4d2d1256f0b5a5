"""The result of grading one notebook, as stored in the journal and shown in the reports."""

from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from course_tools.checks import Finding
from course_tools.grading.intake.submissions import Submission
from course_tools.grading.marks import Mark, NotRun


@dataclass(frozen=True)
class NotebookResult:
    """The marks of one notebook.

    `lecture` is None, and there are no marks, if the notebook could not be read or belongs to another or an unknown lecture;
    then `note` says so. `code` holds the student's own code for each exercise, and `shapes` its fingerprints, used to find
    similar solutions; `isolation` names the isolation layers that were active while the student's code ran.
    """

    lecture: str | None
    marks: tuple[Mark, ...] = ()
    note: str = ""
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    isolation: str = ""
    code: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The sum of the points of its exercises."""
        return sum(mark.points for mark in self.marks)

    @property
    def seconds(self) -> float:
        """How long its exercises took to grade; 0 for a result from a journal."""
        return sum(mark.seconds for mark in self.marks)

    def to_json(self) -> dict:
        """Convert it to lists, numbers and texts, without running times, which differ from run to run."""
        data = asdict(self)
        for mark in data["marks"]:
            del mark["seconds"]
        return data

    @classmethod
    def from_json(cls, data: dict) -> "NotebookResult":
        """Restore a result from the output of `to_json`; raises KeyError, TypeError or ValueError if `data` is malformed."""
        marks = tuple(
            Mark(
                **mark
                | {
                    "findings": tuple(Finding(**finding) for finding in mark["findings"]),
                    "flags": tuple(mark["flags"]),
                    "not_run": tuple(NotRun(**statement) for statement in mark["not_run"]),
                    "comments": (),
                }
            )
            for mark in data["marks"]
        )
        shapes = {id: tuple(found) for id, found in data["shapes"].items()}
        code = {id: str(text) for id, text in data["code"].items()}
        return cls(data["lecture"], marks, data["note"], shapes, data["isolation"], code)


class Graded(NamedTuple):
    """A submission and its result; `failure` says why there is none: an error of the grading, not of the student."""

    submission: Submission
    result: NotebookResult | None
    failure: str = ""
