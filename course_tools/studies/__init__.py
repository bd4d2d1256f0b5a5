"""Studies: long experiments in authoring/studies, recorded once with their cost, plotted by the lectures as recorded."""

from course_tools.studies.runner import check, run_missing
from course_tools.studies.study import CannotStudy, StaleStudy, Study, UnknownStudy, load, names, studies_folder
from course_tools.studies.study_record import RecordedRun, RecordedStudy

__all__ = [
    "CannotStudy",
    "RecordedRun",
    "RecordedStudy",
    "StaleStudy",
    "Study",
    "UnknownStudy",
    "check",
    "load",
    "names",
    "run_missing",
    "studies_folder",
]
