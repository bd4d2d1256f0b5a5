"""The result of grading one notebook, as the journal keeps it and the reports show it."""

from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from course_tools.checks import Finding
from course_tools.grading.intake.submissions import Submission
from course_tools.grading.marks import Mark, NotRun


@dataclass(frozen=True)
class NotebookResult:
    """The marks of one notebook.

    `lecture` is None, and there are no marks, where the notebook could not be read, is of another lecture, or of none; `note`
    says so. `shapes` holds for each exercise the fingerprints of what the student wrote, by which look-alikes are found;
    `isolation` names the isolation layers that were active around the student's code.
    """

    lecture: str | None
    marks: tuple[Mark, ...] = ()
    note: str = ""
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    isolation: str = ""

    @property
    def points(self) -> float:
        """What its exercises earned together."""
        return sum(mark.points for mark in self.marks)

    def to_json(self) -> dict:
        """Give it as lists, numbers and texts; running times, which differ from run to run, are left out."""
        data = asdict(self)
        for mark in data["marks"]:
            del mark["seconds"]
        return data

    @classmethod
    def from_json(cls, data: dict) -> "NotebookResult":
        """Take it from there again; KeyError, TypeError or ValueError where it is not one."""
        marks = tuple(
            Mark(
                **mark
                | {
                    "findings": tuple(Finding(**finding) for finding in mark["findings"]),
                    "flags": tuple(mark["flags"]),
                    "not_run": tuple(NotRun(**statement) for statement in mark["not_run"]),
                }
            )
            for mark in data["marks"]
        )
        shapes = {id: tuple(found) for id, found in data["shapes"].items()}
        return cls(data["lecture"], marks, data["note"], shapes, data["isolation"])


class Graded(NamedTuple):
    """A notebook with what came of it; `failure` says why it has no result: the grading of it failed, not the student."""

    submission: Submission
    result: NotebookResult | None
    failure: str = ""
