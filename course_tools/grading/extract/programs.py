"""Program of one exercise for the sandbox: the text of a notebook's cells, each with its role.

Nothing is parsed here. The student's cells run in order. Unchanged cells of the original notebook, and cells of the lecture
that are missing, provide the names that the student's cells need. `sandbox.notebook_runner` does the rest, inside the sandbox.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.grading.extract.notebook_reader import Cell, cells_in
from course_tools.publishing import NotACourse, UnknownLecture, lectures, lectures_root

Role = Literal["own", "marked", "given", "missing"]


@dataclass(frozen=True)
class Part:
    """One cell of a program: a name for tracebacks, its text, and its role.

    `own` is a student's cell, `marked` a student's cell that is tagged as that of the exercise, `given` an unchanged cell of
    the original notebook, `missing` a cell of the lecture that is not in the notebook.
    """

    name: str
    source: str
    role: Role

    @property
    def of_student(self) -> bool:
        """Whether the student wrote it."""
        return self.role in ("own", "marked")


class Needed(NamedTuple):
    """A statement on which an answer may depend: its cell, its index there, its line, and why it does not run, or ""."""

    cell: int
    number: int
    line: int
    why: str


@dataclass(frozen=True)
class Program:
    """What is run for an exercise.

    `function` is the required name of the answer, `references` maps each other exercise of the lecture to the library's
    function, "module:name", and `skip` holds the statements, as (cell, number), that are known to take too long. `texts` are
    the cells that run although they are not code, and `chosen` the statements that run, as (cell, number), as selected in the
    sandbox for another exercise, before any of them ran; None if they remain to be selected.
    """

    exercise: str
    function: str
    cells: tuple[Part, ...]
    references: dict[str, str]
    skip: tuple[tuple[int, int], ...] = ()
    texts: tuple[int, ...] = ()
    chosen: list[tuple[int, int]] | None = None

    @property
    def text(self) -> str:
        """All of the student's text."""
        return "\n".join(part.source for part in self.cells if part.of_student)


class Notebook:
    """The cells of a submission, compared with those of the original notebook.

    `late` collects the statements that were stopped in one exercise, so that they are skipped in the next. `n_never_loaded`
    counts the consecutive exercises whose cells could not be stopped. `seconds_lost` is the sum of the limits at which answers
    were stopped. `chosen` caches the statements that run, by the `texts` of the program for which they were selected: they
    depend on nothing else in an exercise. `not_run` holds for each exercise the statements that did not run although its answer
    may depend on them: the number of the cell, the line, and why ("trains", "handed out", "no Python", "stopped", or "raised"
    and the type of the error).
    """

    def __init__(self, cells: Sequence[Cell], lecture: str) -> None:
        """Compare the cells of a submission with those of the lecture's notebook."""
        self.exercises = exercises(lecture)
        self.cells = list(cells)
        self.late: set[tuple[int, int]] = set()
        self.n_never_loaded = 0
        self.seconds_lost = 0.0
        self.chosen: dict[tuple[int, ...], list[tuple[int, int]] | None] = {}
        self.not_run: dict[str, list[tuple[int, str, str]]] = {}
        self._needed: dict[tuple[int, ...], dict[str, list[Needed]]] = {}
        self._given = handed_out(lecture)
        own, original = ([cell.source.strip() for cell in cells] for cells in (self.cells, self._given))
        both = set(own).intersection(original)
        missing = [cell.source if text not in both else "" for cell, text in zip(self._given, original, strict=True)]
        self._missing = [Part(f"<lecture {i + 1}>", source, "missing") for i, source in enumerate(missing)]
        self._is_given = [text in both or "bug" in cell.metadata for cell, text in zip(self.cells, own, strict=True)]

    def program(self, exercise: Exercise) -> Program:
        """Assemble the program of an exercise."""
        ids = {cell.id for cell in self._given if cell.id and is_marked(cell, exercise)}
        parts, texts = [*self._missing], []
        for i, (cell, is_given) in enumerate(zip(self.cells, self._is_given, strict=True)):
            marked = cell.id in ids or is_marked(cell, exercise)
            runs = cell.type == "code" or marked
            texts += [i] if runs and cell.type != "code" else []
            role = "given" if is_given else "marked" if marked else "own"
            parts.append(Part(f"<cell {i + 1}>", cell.source if runs else "", role))
        chosen = self.chosen.get(tuple(texts))
        if chosen is not None:
            needed = {cell for cell, _ in chosen}
            parts = [part if i in needed or part.of_student else replace(part, source="") for i, part in enumerate(parts)]
        others = [other for other in self.exercises if other is not exercise]
        references = {other.id: f"{other.reference.__module__}:{other.reference.__name__}" for other in others}
        late = tuple(sorted(self.late))
        return Program(exercise.id, exercise.reference.__name__, tuple(parts), references, late, tuple(texts), chosen)

    def note(
        self,
        program: Program,
        chosen: list[tuple[int, int]] | None,
        needed: dict[str, list[Needed]],
        raised: Mapping[tuple[int, int], str],
    ) -> None:
        """Record what the sandbox reported about a program.

        Args:
            program: what was run.
            chosen: the statements that run, as (cell, number); None if they were known or must be selected again.
            needed: for each exercise, the statements on which its answer may depend; empty if they were known.
            raised: the statements that raised an error, and the type of the error.
        """
        self.chosen.setdefault(program.texts, chosen)
        if needed:
            self._needed[program.texts] = needed
        late = self.late.union(program.skip)
        found = []
        for cell, number, line, why in self._needed.get(program.texts, {}).get(program.exercise, ()):
            place, first = (cell, number), len(self._missing)
            why = why or "stopped" * (place in late) or (f"raised {raised[place]}" if place in raised else "")
            if why and first <= cell < len(program.cells):
                lines = self.cells[cell - first].source.split("\n")
                found.append((cell - first + 1, lines[line - 1] if 0 < line <= len(lines) else "", why))
        self.not_run[program.exercise] = found


@cache
def handed_out(lecture: str) -> tuple[Cell, ...]:
    """The cells of a lecture's original notebook; empty if the notebooks are not installed."""
    try:
        (found,) = lectures(lectures_root(), [lecture])
        return tuple(cell for cell in cells_in(found.unsolved.read_bytes()) if cell.type == "code")
    except (NotACourse, UnknownLecture, OSError, ValueError):
        return ()


def is_marked(cell: Cell, exercise: Exercise) -> bool:
    """Whether a cell is tagged as that of an exercise; a bug hunt, which names it but holds a wrong answer, is not."""
    if not cell.metadata:
        return False
    named = cell.metadata.get("exercise") == exercise.id and "bug" not in cell.metadata
    return named or _grade_id(cell) == f"exercise-{exercise.id.replace('.', '-')}"


def _grade_id(cell: Cell) -> object:
    marks = cell.metadata.get("nbgrader")
    return marks.get("grade_id") if isinstance(marks, dict) else None
