"""`course build`: authoring → lectures and solutions, docs/companion.md and the numbers of the README.

Building twice changes nothing. A solution is executed only if its code, or a record of the lecture's studies, differs from the
committed one; otherwise its outputs are kept, and its claims stated anew from `claims.toml`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_tools.publishing import diagram_cells, measured
from course_tools.publishing.companion import companion
from course_tools.publishing.execute import CELL_TIMEOUT, Execution, execute
from course_tools.publishing.lecture_cells import draft, student_version
from course_tools.publishing.outputs import claims, failures, fit_to_commit, take_outputs
from course_tools.publishing.prediction_cells import FILE, predictions_json
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.publishing.readme import readme_with
from course_tools.publishing.site.evidence import FINDINGS, evidence_with
from course_tools.studies.study_record import read


@dataclass(frozen=True)
class Built:
    """A lecture as it should be on disk. `complete` is False if the solution must be executed: its code or a record changed."""

    lecture: Lecture
    solution: NotebookNode
    complete: bool

    @property
    def files(self) -> dict[Path, str]:
        """The text of both notebooks; the solution has no outputs if it is not complete."""
        return {self.lecture.unsolved: text(student_version(self.solution)), self.lecture.solution: text(self.solution)}


def build(root: Path, numbers: Iterable[str] = (), *, force: bool = False, timeout: float = CELL_TIMEOUT) -> list[str]:
    """Write the files that are out of date.

    Args:
        root: the folder of the course.
        numbers: the lectures, such as "04"; none = all. The companion and the README are always updated.
        force: execute the solutions even if neither their code nor a record of their studies has changed.
        timeout: seconds that one cell may take.

    Returns:
        the names of the files written.

    Raises:
        UnknownLecture: there is no lecture of that number.
        PublishingFailed: a source is wrong, or a cell of a solution raised; nothing of that lecture is written.
    """
    chosen = lectures(root, numbers)
    record = measured.load(root)
    todo = [lecture for lecture in chosen if force or not rebuild(lecture, record).complete]
    # Every authoring source is read before the first kernel starts, so that a mistake in the last is reported at once.
    drafts = {lecture.number: rebuild(lecture, record).solution for lecture in chosen}
    written = _write({root / FILE: predictions_json(root)})  # the solutions read it while they run
    executed = execute({lecture.number: (drafts[lecture.number], _folder(lecture)) for lecture in todo}, root, timeout=timeout)
    failed = [f"{lecture.source_name}: {line}" for lecture in todo for line in executed[lecture.number].failures]
    for lecture in chosen:
        if lecture.number in executed:
            if executed[lecture.number].failures:
                continue
            written += _take_over(lecture, executed[lecture.number], root)
        written += _write(rebuild(lecture, measured.load(root)).files)
    if not failed:
        written += _write(_documents(root))
    if failed:
        raise PublishingFailed("\n".join(failed))
    return sorted({_name(path, root) for path in written})


def stale(root: Path, numbers: Iterable[str] = ()) -> list[str]:
    """List stale files and the command that updates each; empty if none."""
    complaints = []
    record = measured.load(root)
    for lecture in lectures(root, numbers):
        built, command = rebuild(lecture, record), f"python course.py build {lecture.number}"
        for path, expected in built.files.items():
            if not path.exists():
                complaints.append(f"{lecture.name(path)} does not exist: run `{command}`")
            elif path == lecture.solution and not built.complete:
                complaints.append(
                    f"{lecture.name(path)} was executed with code that differs from {lecture.source_name}, or with another "
                    f"record of a study: run `{command}`"
                )
            elif _read(path) != expected:
                complaints.append(
                    f"{lecture.name(path)} differs from its source {lecture.source_name}: edit the source, then run `{command}`"
                )
    stems = {lecture.stem for lecture in lectures(root)}
    orphans = [
        path for folder in ("lectures", "solutions") for path in (root / folder).glob("*.ipynb") if path.stem not in stems
    ]
    outdated = [path for path, expected in _documents(root).items() if not path.exists() or _read(path) != expected]
    complaints += [f"{_name(path, root)} has no source authoring/{path.stem}.py: delete it" for path in sorted(orphans)]
    return complaints + [f"{_name(path, root)} is stale: run `python course.py build`" for path in outdated]


def rebuild(lecture: Lecture, record: dict[str, measured.MeasuredCost]) -> Built:
    """Make a lecture in memory: its draft, with the outputs of the committed solution if code and records are the same."""
    fresh = draft(lecture, measured.sentence(record.get(lecture.number)))
    if records := _records(lecture):
        fresh.metadata["studies"] = records
    earlier = [nbformat.read(path, as_version=4) for path in (lecture.unsolved, lecture.solution) if path.exists()]
    diagram_cells.fill(fresh, earlier)
    if not lecture.solution.exists():
        return Built(lecture, fresh, complete=False)
    same_code = take_outputs(fresh, earlier[-1])
    held = all(made["held"] for made in claims(fresh))
    return Built(lecture, fresh, complete=same_code and held and not failures(fresh))


def text(notebook: NotebookNode) -> str:
    """Return the text of a notebook: the same text for the same content, on every system."""
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"


def _records(lecture: Lecture) -> dict[str, str]:
    """Return the digest of each record of a lecture's studies, by the name of its file."""
    paths = sorted((lecture.root / "authoring" / "studies").glob(f"{lecture.number}_*.json"))
    return {path.stem: record.digest for path in paths if (record := read(path)) is not None}


def _folder(lecture: Lecture) -> Path:
    lecture.solution.parent.mkdir(exist_ok=True)
    return lecture.solution.parent


def _take_over(lecture: Lecture, execution: Execution, root: Path) -> list[Path]:
    """Write an executed solution and its cost, from which the notebooks are rebuilt."""
    fit_to_commit(execution.notebook, root)
    record = measured.load(root)
    cost = measured.refreshed(record.get(lecture.number), execution.processor_seconds, execution.peak_mb)
    measured.save(root, record | {lecture.number: cost})
    return _write({lecture.solution: text(execution.notebook)})


def _documents(root: Path) -> dict[Path, str]:
    """Return the generated files besides the notebooks: companion, README, findings, the data of the predictions."""
    found = {root / "docs" / "evidence.md": evidence_with(root)} if (root / FINDINGS).exists() else {}
    return found | {
        root / FILE: predictions_json(root),
        root / "docs" / "companion.md": companion(root),
        root / "README.md": readme_with(lectures(root), root),
    }


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8").replace("\r\n", "\n")


def _write(files: dict[Path, str]) -> list[Path]:
    """Write the files whose text differs; return those written."""
    changed = [path for path, new in files.items() if not path.exists() or path.read_bytes() != new.encode()]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path].encode())
    return changed
