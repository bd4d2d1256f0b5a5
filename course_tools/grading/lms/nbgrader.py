"""nbgrader: a course folder, and a configuration that makes its autograder use the sandbox of this course.

nbgrader, unmodified, calls two functions in place of its `Execute`: `take` before it processes a notebook, so that it accepts
cells that were copied, deleted or changed in type, and `grade` where it would run the student's code. Marks and feedback come
from the engine; nbgrader reads them as the output of the checks. This module does not import nbgrader.
https://nbgrader.readthedocs.io
"""

import atexit
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from course_tools.bank import exercise
from course_tools.grading.batch import GradingEngine
from course_tools.grading.extract.notebook_reader import Cell, within_limits
from course_tools.grading.files import CannotGrade, make_folder, secret_seed
from course_tools.grading.intake.recognise import Course
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark
from course_tools.grading.report.student_page import section
from course_tools.publishing import lectures
from course_tools.whole_file import write_whole

_CONFIG = '''"""nbgrader for the attention course: students' code runs in the sandbox of `course grade`, never in a kernel."""

from pathlib import Path

from course_tools.grading.lms.nbgrader import Sandboxed

sandboxed = Sandboxed(Path({root!r}), Path({folder!r}), require_isolation={require_isolation})


def take(notebook, resources):
    """Restore the structure of a notebook before nbgrader processes it."""
    return sandboxed.take(notebook, resources)


def grade(notebook, resources):
    """Judge the notebook in the sandbox, in place of nbgrader's Execute."""
    return sandboxed.grade(notebook, resources)


c = get_config()
c.CourseDirectory.course_id = "attention-course"
own = "nbgrader.preprocessors."
rest = ["ClearOutput", "DeduplicateIds", "OverwriteKernelspec", "OverwriteCells", "CheckCellMetadata"]
c.Autograde.sanitize_preprocessors = [take, *(own + name for name in rest)]
rest = ["LimitOutput", "SaveAutoGrades", "AssignLatePenalties", "CheckCellMetadata"]
c.Autograde.autograde_preprocessors = [grade, *(own + name for name in rest)]
'''


def export(root: Path, folder: Path, require_isolation: bool = False) -> list[str]:
    """Write a course folder for nbgrader: source/<assignment>/<notebook> for each lecture built, and nbgrader_config.py.

    Args:
        root: the folder of the course.
        folder: the output folder; existing files of these names are replaced.
        require_isolation: refuse to grade if an isolation layer is missing.

    Returns:
        the names of the files written.

    Raises:
        CannotGrade: no lecture has been built, or the folder is not writable.
    """
    files: dict[Path, str] = {}
    built = [lecture for lecture in lectures(root) if lecture.solution.exists()]
    if not built:
        raise CannotGrade(f"{root} has no solved lecture: run `python course.py build`.")
    for lecture in built:
        source = nbformat.read(lecture.solution, as_version=4)
        for cell in source.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        files[folder / "source" / lecture.stem / f"{lecture.stem}.ipynb"] = nbformat.writes(source) + "\n"
    files[folder / "nbgrader_config.py"] = _CONFIG.format(
        root=str(root.resolve()), folder=str(folder.resolve()), require_isolation=require_isolation
    )
    for path, text in files.items():
        make_folder(path.parent)
        write_whole(path, text)
    return [str(path) for path in files]


class Sandboxed:
    """The functions that nbgrader calls for each notebook, one after another. The first notebook starts the engine.

    The seed of the inputs is drawn once and kept in `seed.txt` in nbgrader's course folder; `isolation.txt` in the same folder
    names the isolation layers that were active.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        engine: Callable[..., AbstractContextManager[GradingEngine]] = Engine,
        require_isolation: bool = False,
    ) -> None:
        """Set the course and nbgrader's folder; `engine(require_isolation=…, seed=…)` creates the grading engine.

        Grading raises NotIsolated if isolation is required and missing, and CannotGrade if the seed cannot be saved.
        """
        self._root, self._folder, self._make, self._engine = root, folder, engine, None
        self._require_isolation = require_isolation
        self._open = ExitStack()
        atexit.register(self._open.close)
        self._lecture: str | None = None
        self._marks: dict[str, Mark] = {}

    def take(self, notebook: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Judge a notebook as submitted, then restore its structure: each tagged cell of the lecture once, with its type."""
        course = Course.at(self._root)
        cells = within_limits([_cell(cell) for cell in notebook.cells])
        self._lecture = course.lecture_of(cells, str(resources.get("nbgrader", {}).get("notebook", "")))
        self._marks = {}
        if self._lecture is not None:
            self._marks = {mark.exercise: mark for mark in self._started().grade(cells, self._lecture)}
            _make_whole(notebook, self._root, self._lecture)
        return notebook, resources

    def grade(self, notebook: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Write the marks into the cells of the checks, as the output that nbgrader reads; all other outputs are removed."""
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                if cell.metadata.get("nbgrader", {}).get("grade"):
                    cell.outputs = _outputs(self._marks.get(_checked(cell)))
        return notebook, resources

    def _started(self) -> GradingEngine:
        if self._engine is None:
            seed = secret_seed(self._folder / "seed.txt")
            self._engine = self._open.enter_context(self._make(require_isolation=self._require_isolation, seed=seed))
            write_whole(self._folder / "isolation.txt", f"{self._engine.level}\n")
        return self._engine


def _cell(cell: NotebookNode) -> Cell:
    return Cell(cell.cell_type, cell.get("id", ""), dict(cell.metadata), cell.source)


def _make_whole(notebook: NotebookNode, root: Path, lecture: str) -> None:
    """Keep one cell for each of nbgrader's ids, with the lecture's metadata; append missing cells at the end."""
    (found,) = lectures(root, [lecture])
    wanted = {_grade_id(cell): cell for cell in nbformat.read(found.unsolved, as_version=4).cells if _grade_id(cell)}
    seen: set[str] = set()
    for place in reversed(range(len(notebook.cells))):
        cell, id = notebook.cells[place], _grade_id(notebook.cells[place])
        cell.metadata.pop("nbgrader", None)
        if id in wanted and id not in seen:
            seen.add(id)
            whole = deepcopy(wanted[id])
            whole.source = cell.source
            notebook.cells[place] = whole
    notebook.cells += [deepcopy(cell) for id, cell in wanted.items() if id not in seen]
    ids: set[str] = set()
    for cell in reversed(notebook.cells):
        if cell.get("id") in ids:
            cell["id"] = f"{cell['id'][:50]}-{len(ids)}"
        ids.add(cell.get("id"))


def _grade_id(cell: NotebookNode) -> str | None:
    marks = cell.metadata.get("nbgrader")
    id = marks.get("grade_id") if isinstance(marks, dict) else None
    return id if isinstance(id, str) else None


def _checked(cell: NotebookNode) -> str:
    """The exercise to which a check belongs: 04.1 for check-04-1."""
    return ".".join(cell.metadata["nbgrader"]["grade_id"].split("-")[1:3])


def _outputs(mark: Mark | None) -> list[NotebookNode]:
    """Express points in nbgrader's format: a number if there are any, else an error."""
    if mark is None:
        return [new_output("error", ename="NotFound", evalue="", traceback=["The exercise was not found."])]
    feedback = str(section(exercise(mark.exercise), mark))
    if mark.points > 0:
        data = {"text/plain": repr(float(mark.points)), "text/html": feedback}
        return [new_output("execute_result", data=data, execution_count=1)]
    shown = new_output("display_data", data={"text/html": feedback, "text/plain": ""})
    return [shown, new_output("error", ename="NoPoints", evalue="", traceback=["No points yet."])]
