"""The cells of a solved lecture, made from the authoring source: exercises, bug hunts, checks, hints and diagrams.

An exercise cell names a function of the library in one import; its text is taken from there. The student's notebook is
made from the solved one, so there is only one draft.
"""

import ast
import hashlib
from collections import Counter

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_tools.bank import UnknownExercise, exercise
from course_tools.checks import Exercise
from course_tools.notebook.predict import folded
from course_tools.publishing import cell_width, diagram_cells
from course_tools.publishing import nbgrader_cells as nbgrader
from course_tools.publishing.outputs import tags
from course_tools.publishing.prediction_cells import prediction_of, question
from course_tools.publishing.project import Lecture, PublishingFailed
from course_tools.publishing.source import FunctionSource, ReferenceImport
from course_tools.publishing.student_time import FURTHER, opens_further, order_of_exercises, time_phrase

NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"},
}
GUARD = "guard"
"""The tag of cells that guard what the lecture says, such as claims that teach nothing: only solutions contain them."""
_JUPYTEXT_KEYS = ("lines_to_next_cell", "lines_to_end_of_cell_marker")


def draft(lecture: Lecture, measured: str) -> NotebookNode:
    """Make the solved notebook of a lecture, not yet executed.

    Args:
        lecture: the lecture whose authoring source is read.
        measured: the sentence on run time and memory that replaces `{measured}` in the header cell; the order of the
            exercises follows it. `{minutes}` is replaced by the time that the lecture takes a student.

    Raises:
        PublishingFailed: an exercise, bug hunt or check cell is invalid; the text names file and line.
    """
    text = lecture.authoring.read_text(encoding="utf-8")
    lines = [i for i, line in enumerate(text.splitlines(), start=1) if line.startswith("# %%")]
    cells: list[NotebookNode] = []
    facts = f"{measured} {order_of_exercises(lecture)}".strip()
    drafting = _Drafting(lecture.number, {"{measured}": facts, "{minutes}": time_phrase(lecture)})
    for i, authored in enumerate(jupytext.reads(text, fmt="py:percent").cells):
        try:
            cells += drafting.cells(authored)
        except (ValueError, ImportError, UnknownExercise) as error:
            line = f":{lines[i]}" if i < len(lines) else ""
            raise PublishingFailed(f"{lecture.source_name}{line}: {error}") from error
    if drafting.unchecked:
        raise PublishingFailed(f"{lecture.source_name}: exercise {drafting.unchecked[0]} has no check cell after it")
    if needed := _needed_from_guards(cells):
        raise PublishingFailed(
            f"{lecture.source_name}: cells tagged {GUARD}, which lectures do not contain, define {', '.join(sorted(needed))}, "
            "which other cells use; define it in another cell, or tag those, too."
        )
    last = new_code_cell(
        f'from course_tools.notebook import my_progress\n\nmy_progress("{lecture.number}")', metadata={"tags": ["progress"]}
    )
    last["origin"] = "progress"
    cells.append(last)
    _identify(lecture.stem, cells)
    return new_notebook(cells=cells, metadata=NOTEBOOK_METADATA, nbformat_minor=5)


def student_version(solved: NotebookNode) -> NotebookNode:
    """Make the student's notebook from a solved one, executed or not: without the cells tagged `guard`, which only test it."""
    cells = [nbgrader.for_student(cell) for cell in solved.cells if GUARD not in tags(cell)]
    return new_notebook(cells=cells, metadata=NOTEBOOK_METADATA, nbformat_minor=5)


def check_call(source: str) -> tuple[str, str] | None:
    """Read the exercise id and the function's name from a cell with `name = check("04.1", name)`; None in any other cell."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return None
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value=str(id)), ast.Name(id=name)]),
            ) if target == name:
                return id, name
    return None


def _needed_from_guards(cells: list[NotebookNode]) -> set[str]:
    """Return the names that only cells tagged `guard` define, and that other cells use."""
    defined: dict[bool, set[str]] = {True: set(), False: set()}
    used = set()
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        guards = GUARD in tags(cell)
        for node in ast.walk(ast.parse(cell.source)):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    used |= set() if guards else {name}
                case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    defined[guards].add(name)
                case ast.alias(name=name, asname=renamed):
                    defined[guards].add(renamed or name.partition(".")[0])
    return (defined[True] - defined[False]) & used


class _Drafting:
    """State kept from cell to cell: the exercise that has no check yet, and which exercises have points and hints already."""

    def __init__(self, number: str, header: dict[str, str]) -> None:
        self.number = number
        self.header = header
        self.unchecked: tuple[str, str] | None = None
        self.seen: set[str] = set()
        self.n_predictions = 0
        self.further = False

    def cells(self, authored: NotebookNode) -> list[NotebookNode]:
        metadata = {key: value for key, value in authored.metadata.items() if key not in _JUPYTEXT_KEYS}
        if GUARD in metadata.get("tags", ()) and ("exercise" in metadata or check_call(authored.source)):
            raise ValueError(f"a student needs exercises and checks: this cell cannot be tagged {GUARD}")
        prose, drawn = authored.source, []
        if authored.cell_type == "markdown":
            prose, drawn = diagram_cells.split(authored.source)
            for picture in drawn:
                picture["origin"] = f"diagram {picture.source.rpartition('.')[2].removesuffix('()')}"
        cell = self._cell(authored.cell_type, prose, metadata)
        cell["origin"] = authored.source
        added = [*([cell] if prose or not drawn else []), *drawn]
        if "predict" in metadata.get("tags", ()):
            added.append(self._asked(cell))
        if authored.cell_type == "code" and (call := check_call(authored.source)):
            added += self._checked(cell, *call)
        return added

    def _asked(self, cell: NotebookNode) -> NotebookNode:
        """Remove the explanations from a prediction, and return the cell that calls `predict`, with what it shows."""
        self.n_predictions += 1
        id = f"{self.number}.p{self.n_predictions}"
        asked = prediction_of(id, cell.source)
        shown = new_output("display_data", folded(asked))
        cell.source = question(cell.source)
        call = new_code_cell(
            f'predict("{id}"{", ..." if asked.within else ""})', metadata={"tags": ["predict"]}, outputs=[shown]
        )
        call["origin"] = f"prediction {id}"
        return call

    def _cell(self, kind: str, source: str, metadata: dict) -> NotebookNode:
        if kind == "markdown":
            self.further = self.further or opens_further(source)
            filled = source
            for placeholder, text in self.header.items() if "header" in metadata.get("tags", ()) else ():
                filled = filled.replace(placeholder, text)
            return new_markdown_cell(filled, metadata=metadata)
        if kind != "code":
            raise ValueError(f"a {kind} cell: a lecture has only code and Markdown cells")
        if "exercise" not in metadata:
            return new_code_cell(source, metadata=metadata)
        if self.unchecked:
            raise ValueError(f"exercise {self.unchecked[0]} has no check cell before this one")
        asked = exercise(metadata["exercise"])
        named = ReferenceImport.parse(source)
        if named is None:
            raise ValueError(f"the cell of exercise {asked.id} must be one import, `from module import function [as name]`")
        if "bug" in metadata:
            return new_code_cell(_bug(asked, named, metadata["bug"]), metadata=metadata)
        if named.load() is not asked.reference:
            raise ValueError(f"{named.module}.{named.function} is not the reference of exercise {asked.id}")
        if asked.extra != self.further and asked.id not in self.seen:
            placed = f"stands {'after' if self.further else 'before'} the heading {FURTHER!r}"
            raise ValueError(f"exercise {asked.id} {placed}: in its file of the bank, `extra` must be {self.further}")
        self.unchecked = (asked.id, named.name)
        marks = nbgrader.answer(_grade_id("exercise", asked, named))
        return new_code_cell(_solved(asked, named, metadata), metadata=metadata | {"nbgrader": marks})

    def _checked(self, cell: NotebookNode, id: str, name: str) -> list[NotebookNode]:
        """Mark the check of an exercise, the first time with its points, and return the cell with its hints."""
        asked = exercise(id)
        if self.unchecked is None:
            return []
        if self.unchecked != (id, name):
            raise ValueError(f'expected `check("{self.unchecked[0]}", {self.unchecked[1]})` after the exercise')
        self.unchecked = None
        grade_id = _grade_id("check", asked, ReferenceImport("", asked.reference.__name__, name))
        if id in self.seen:
            cell.metadata["nbgrader"] = nbgrader.read_only(grade_id)
            return []
        self.seen.add(id)
        cell.metadata["nbgrader"] = nbgrader.graded_check(grade_id, asked.points)
        hints = new_markdown_cell(_hints(asked), metadata={"tags": ["hints"]})
        hints["origin"] = f"hints {id}"
        return [hints]


def _grade_id(kind: str, asked: Exercise, named: ReferenceImport) -> str:
    renamed = "" if named.name == named.function else f"-{named.name}"
    return f"{kind}-{asked.id.replace('.', '-')}{renamed}"


def _solved(asked: Exercise, named: ReferenceImport, metadata: dict) -> str:
    minutes = f"about {metadata['minutes']} minutes" if "minutes" in metadata else ""
    kind = "Exercise" if asked.training is None else "Build task"
    points = f"{asked.points} {'extra ' * asked.extra}points"
    facts = (f"{kind} {asked.id}", asked.title, metadata.get("difficulty", ""), minutes, points)
    function = FunctionSource.of(asked.reference).named(named.name)
    text = function.text(nbgrader.solved_body(function.body)).replace("    Raises:\n", "    Raises (not graded):\n")
    return f"{cell_width.comment(' · '.join(fact for fact in facts if fact))}\n{cell_width.wrapped(text)}"


def _bug(asked: Exercise, named: ReferenceImport, wanted: str) -> str:
    suspect = named.load()
    if suspect not in asked.wrong:
        raise ValueError(f"{named.function} is not a wrong answer of exercise {asked.id}")
    if wanted != suspect.__name__:
        raise ValueError(f"the cell has bug={wanted!r} but imports {suspect.__name__}")
    function = FunctionSource.of(suspect).named(named.name)
    text = cell_width.wrapped(function.text(documented=False))
    return f"# Bug hunt · exercise {asked.id} · something is wrong here\n{text}"


def _hints(asked: Exercise) -> str:
    folded = (f"<details>\n<summary>Hint {n}</summary>\n\n{hint}\n\n</details>" for n, hint in enumerate(asked.hints, start=1))
    return "\n\n".join((f"Stuck on {asked.id}? Open one hint at a time.", *folded))


def _identify(stem: str, cells: list[NotebookNode]) -> None:
    """Assign each cell a stable id: a hash of lecture, type, authoring source and occurrence."""
    occurrences: Counter[str] = Counter()
    for cell in cells:
        key = "\0".join((stem, cell.cell_type, cell.pop("origin")))
        occurrences[key] += 1
        cell["id"] = hashlib.sha256(f"{key}\0{occurrences[key]}".encode()).hexdigest()[:16]
