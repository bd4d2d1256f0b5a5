"""`course study`: list the studies, run what is missing, or check records by repeating a run."""

from collections.abc import Sequence
from pathlib import Path

from course_tools.studies.runner import check, run_missing, state, workers
from course_tools.studies.study import load, names, studies_folder
from course_tools.studies.study_record import read, record_path


def list_all(folder: Path, device: str = "cpu") -> str:
    """List each study with its question and the state of its record, as text."""
    found = (load(name, folder) for name in names(folder))
    return (
        "\n".join(f"{study.name}  {study.question}\n    {state(study, device)}" for study in found) or "there are no studies."
    )


def run_all(
    wanted: Sequence[str], folder: Path, seeds: Sequence[int] | None, device: str, jobs: int, dask: str | None = None
) -> int:
    """Run what is missing of the given studies and print their findings; return the exit status."""
    for study in [load(name, folder) for name in wanted]:
        with workers(jobs, dask) as executor:
            record = run_missing(study, executor, seeds, device, _of_workers(folder))
        print(f"{study.name}: {record.cost}")
        if study.finding:
            print(study.finding(record))
    return 0


def check_all(wanted: Sequence[str], folder: Path, device: str, jobs: int, dask: str | None = None) -> int:
    """Repeat one run of each given study, or of all that have a record; return the exit status."""
    status = 0
    for study in [load(name, folder) for name in wanted or names(folder)]:
        if not wanted and read(record_path(folder, study.name, device)) is None:
            print(f"{study.name}: not recorded")
            continue
        with workers(jobs, dask) as executor:
            differences = check(study, executor, device, _of_workers(folder))
        print("\n".join(differences) or f"{study.name}: the repeated run agrees with the record")
        status = status or int(bool(differences))
    return status


def _of_workers(folder: Path) -> Path | None:
    """Return the folder to pass to workers: None for the course's own studies, which each worker has in its own copy."""
    return None if folder == studies_folder() else folder
