"""What of a notebook is run for one exercise: the student's function, and whatever of the notebook it needs by name.

Cells are found by their marks (nbgrader's `grade_id`, our `exercise`, the cell's id), else by the name that they define, as a
kernel would: the last definition before the check counts. Of all other cells only the statements that bind a needed name are
taken, so that no test, experiment or training ever runs; nor does anything that stands in the solution cell and is not needed.
An earlier exercise that is needed by name is the library's own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.grading.extract.dependency_search import At, NotFound, Search
from course_tools.grading.extract.notebook_reader import Cell, cells_in
from course_tools.grading.extract.statements import Read, Statement, Unparsable, read_all
from course_tools.publishing import NotACourse, UnknownLecture, lectures, lectures_root

_LOOKS_LIKE_CODE = re.compile(r"^(def|class|import|from|\w+ *=) ?", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """One cell of a program: a name for tracebacks, its text, and the numbers of the statements that are run."""

    name: str
    source: str
    take: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """What is run for an exercise, and the name of the function that it should define.

    `untouched` says whether the answer is still what was handed out: an empty function, or the bug that was to be found.
    """

    function: str
    parts: tuple[Part, ...]
    untouched: bool = False

    @property
    def text(self) -> str:
        """All that the student wrote of it."""
        return "\n".join(part.source for part in self.parts)


class Notebook:
    """The cells of a submission, parsed once, and beneath them those that the course handed out."""

    def __init__(self, cells: Sequence[Cell], lecture: str) -> None:
        """Parse every cell; what is no Python is kept as its error."""
        self.exercises = [exercise for exercise in exercises() if exercise.lecture == lecture]
        self.cells = list(cells)
        self.given = list(handed_out(lecture))
        self.read = [*read_all([_code(cell) for cell in self.cells]), *_read_once(lecture)]
        self.original = {cell.source for cell in self.given}
        self._by_name = {what: _by_name(self.read, what) for what in ("binds", "changes", "stores", "calls")}

    def program(self, exercise: Exercise) -> Program:
        """Put together what is run for an exercise; the earlier ones of its lecture are taken from the library.

        Raises:
            NotFound: no cell defines its function.
            Unparsable: the cell that should define it is no Python.
        """
        name, at = self.answer(exercise)
        ready = {other.reference.__name__: other for other in self.exercises if other.id < exercise.id}
        later = {other.reference.__name__: other for other in self.exercises if other.id > exercise.id}
        search = Search(self, at, ready, later)
        search.take()
        untouched = self.at(at).is_stub or self.cells[at[0]].source in self.original
        imports = (Part("<course>", line, (0,)) for line in search.imports())
        return Program(name, (*imports, *self._parts(search.taken)), untouched)

    def answer(self, exercise: Exercise) -> tuple[str, At]:
        """Find the statement that defines the function of an exercise, and the name it has there."""
        name, marked = exercise.reference.__name__, self._marked(exercise)
        found = sorted(
            at for places in self._by_name["binds"].get(name, {}).values() for at in places if self._is_own(at, marked)
        )
        whole = [at for at in found if not self.at(at).is_stub]
        check = self._check(exercise)
        code = [at for at in whole if self.cells[at[0]].type == "code"]
        for places in ([at for at in code if at[0] <= check], code, whole):
            if places:
                return name, places[-1]
        for cell in marked:
            functions = [(n, at) for at in self._in_cell(cell) for n in self.at(at).binds if not self.at(at).assigns]
            if len(functions) == 1 and not self.at(functions[0][1]).is_stub:
                return functions[0]
        for cell in marked:
            if isinstance(self.read[cell], Unparsable):
                raise self.read[cell]
        if found:
            return name, found[-1]
        raise NotFound(f"No cell of this notebook defines `{name}`.")

    def _is_own(self, at: At, marked: list[int]) -> bool:
        """Whether a definition is the student's: not an import of the library, a check, or a cell that was handed out."""
        if at[0] >= len(self.cells) or (at[0] not in marked and self.cells[at[0]].source in self.original):
            return False
        return not (self.at(at).is_check or self.at(at).is_from_the_course)

    def _marked(self, exercise: Exercise) -> list[int]:
        ids = {cell.id for cell in self.given if cell.id and _is_marked(cell, exercise)}
        return [i for i, cell in enumerate(self.cells) if cell.id in ids or _is_marked(cell, exercise)]

    def _check(self, exercise: Exercise) -> int:
        """The number of the cell that checks an exercise; that of the last cell where there is none."""
        wanted = f"check-{exercise.id.replace('.', '-')}"
        checks = [i for i, cell in enumerate(self.cells) if _grade_id(cell) == wanted]
        return checks[0] if checks else len(self.cells)

    def _in_cell(self, cell: int) -> list[At]:
        read = self.read[cell]
        return [] if isinstance(read, Unparsable) else [(cell, j) for j in range(len(read[1]))]

    def at(self, at: At) -> Statement:
        """The statement at a place."""
        return self.read[at[0]][1][at[1]]

    def binders(self, name: str, cell: int) -> list[At]:
        """The statements of one cell that bind a name or change it; none where the cell only changes it."""
        own = [at for at in self._by_name["binds"].get(name, {}).get(cell, ()) if not self.at(at).is_check]
        return sorted({*own, *self._changers(name, own, cell)}) if own else []

    def changers(self, name: str, binders: list[At], until: int) -> list[At]:
        """The statements that change a name between the cell that binds it and another cell: the student's own ones."""
        start = min(at[0] for at in binders) + 1 if binders[0][0] < len(self.cells) else 0
        return [at for cell in range(start, until + 1) if self._is_new(cell) for at in self._changers(name, binders, cell)]

    def callers(self, names: frozenset[str], until: int) -> list[At]:
        """The statements of the student that call a function for what it does, up to a cell."""
        places = [at for name in names for cell in self._by_name["calls"].get(name, {}).values() for at in cell]
        return [at for at in places if at[0] <= until and self._is_new(at[0])]

    def _changers(self, name: str, binders: list[At], cell: int) -> list[At]:
        """A method may be called on what was assigned; of functions, classes and modules only parts are assigned."""
        what = "changes" if all(self.at(at).assigns for at in binders) else "stores"
        return self._by_name[what].get(name, {}).get(cell, [])

    def _is_new(self, cell: int) -> bool:
        return self.cells[cell].type == "code" and self.cells[cell].source not in self.original

    def is_fresh(self, name: str, at: At) -> bool:
        """Whether a statement gives a name a value that does not come from the value before."""
        statement = self.at(at)
        return not statement.assigns or (name in statement.binds and name not in statement.needs)

    def stars(self) -> list[At]:
        """Every `from … import *`."""
        return [at for i in range(len(self.read)) for at in self._in_cell(i) if self.at(at).is_star]

    def around(self, name: str, cell: int) -> list[int]:
        """The other cells that bind a name: code first, the nearest before, then the nearest after; last our own cells."""

        def distance(other: int) -> tuple[int, bool, int]:
            ours = other >= len(self.cells)
            return (2 if ours else self.cells[other].type != "code"), other > cell, other if ours else abs(other - cell)

        return sorted(self._by_name["binds"].get(name, {}).keys() - {cell}, key=distance)

    def _parts(self, taken: set[At]) -> Iterator[Part]:
        ours = len(self.cells)
        for cell in sorted({cell for cell, _ in taken}, key=lambda cell: (cell < ours, cell)):
            yield Part(f"<cell {cell + 1}>", self.read[cell][0], tuple(sorted(j for i, j in taken if i == cell)))


@cache
def handed_out(lecture: str) -> tuple[Cell, ...]:
    """The cells of a lecture as the course hands it out; none where its notebooks are not installed."""
    try:
        (found,) = lectures(lectures_root(), [lecture])
        return tuple(cell for cell in cells_in(found.unsolved.read_bytes()) if cell.type == "code")
    except (NotACourse, UnknownLecture, OSError, ValueError):
        return ()


def _by_name(read: Sequence[Read], what: str) -> dict[str, dict[int, list[At]]]:
    """For each name the cells, and in each the statements, that bind or change it: looked up often, so found once."""
    found: dict[str, dict[int, list[At]]] = {}
    for i, cell in enumerate(read):
        for j, statement in enumerate(() if isinstance(cell, Unparsable) else cell[1]):
            for name in getattr(statement, what):
                found.setdefault(name, {}).setdefault(i, []).append((i, j))
    return found


@cache
def _read_once(lecture: str) -> Sequence[Read]:
    return read_all([cell.source for cell in handed_out(lecture)])


def _code(cell: Cell) -> str:
    """The source of a cell that may be code; a cell of text may be if it looks like it."""
    return cell.source if cell.type == "code" or _LOOKS_LIKE_CODE.search(cell.source) else ""


def _is_marked(cell: Cell, exercise: Exercise) -> bool:
    """Whether a cell is an exercise's own; that of a bug hunt names it too, and holds a wrong answer of ours."""
    named = cell.metadata.get("exercise") == exercise.id and "bug" not in cell.metadata
    return named or _grade_id(cell) == f"exercise-{exercise.id.replace('.', '-')}"


def _grade_id(cell: Cell) -> object:
    marks = cell.metadata.get("nbgrader")
    return marks.get("grade_id") if isinstance(marks, dict) else None
