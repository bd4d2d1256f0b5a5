"""The recorded result of a study in a lecture: its numbers, and its figure with its cost in the caption.

recorded("12_crowds").scores("matched", "ap50")          # one number per seed
show_study("10_windows")                                 # the study's figure, as recorded
"""

from pathlib import Path

from course_tools.notebook.show import show
from course_tools.studies import RecordedStudy, load, studies_folder
from course_tools.studies.runner import require_fresh
from course_tools.studies.study_record import read, record_path


def recorded(name: str, folder: Path | None = None, *, device: str = "cpu") -> RecordedStudy:
    """Read the recorded result of a study.

    Args:
        name: such as "12_crowds".
        folder: the folder of the studies; that of the course by default.
        device: "cpu", or "cuda" for the larger settings of a GPU, which have a record of their own.

    Raises:
        UnknownStudy: there is no such study; the message lists similar names.
        CannotStudy: it was never run; `course study NAME` runs it.
        StaleStudy: it has changed since it was run.
    """
    study = load(name, folder)
    return require_fresh(study, read(record_path(folder or studies_folder(), study.name, device)), device)


def show_study(name: str, folder: Path | None = None, *, device: str = "cpu") -> RecordedStudy:
    """Show the figure of a study as recorded, with the cost of the study in the caption; return the record.

    Args:
        name: such as "10_windows".
        folder: the folder of the studies; that of the course by default.
        device: "cpu", or "cuda" for the larger settings of a GPU, which have a record of their own.

    Raises:
        UnknownStudy: there is no such study; the message lists similar names.
        CannotStudy: it was never run, or it draws no figure.
        StaleStudy: it has changed since it was run.
    """
    record = recorded(name, folder, device=device)
    study = load(name, folder)
    drawn, alt = study.drawn(record)
    show(drawn, alt=f"{alt} As recorded by `{study.command_on(device)}`: {record.cost}.")
    return record
