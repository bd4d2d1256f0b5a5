"""Run the cells of a notebook in order and capture the function that its last `check(id, f)` receives.

The student's code runs statement by statement, each with a time limit. A statement that fails is skipped, and one that lacks a
name is tried again after the others. In unchanged cells of the original notebook, only the statements whose names the student's
code needs are run. Of the statements that may train a model, only the student's on which an answer may depend are run, with a
time limit of their own. This module runs inside the sandbox: it requires only the
standard library and IPython.
"""

import ast
import builtins
import contextlib
import linecache
import re
import signal
import symtable
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from IPython.core.inputtransformer2 import TransformerManager

LONGEST_CELL = 100_000
MOST_CODE = 500_000
"""Maximum number of characters of all cells together; the rest is ignored."""
MOST_MAGICS, MOST_LINES = 20, 5000
"""Maximum number of magics and shell lines of a cell, and of lines that are read to find them, in all rounds together."""
MOST_CHOSEN = 10_000
"""Maximum number of statements in a selection that is reused for the next exercise."""
MOST_NEEDED = 300
"""Maximum number of statements listed for one exercise on which its answer may depend."""
TRAINS = frozenset({"backward", "train", "fit"})
"""Functions whose callers may train a model, directly or through other functions."""
FUTURE = __import__("__future__").annotations.compiler_flag

_CELL_MAGIC = re.compile(r"%%(?P<name>\w+)(?P<rest>.*)")
_LINE_MAGIC = re.compile(r"(?P<indent>\s*)get_ipython\(\)\.run_line_magic\('(?P<name>\w+)', (?P<code>.*)\)\n")
_RUN_CODE = {"time", "capture", "prun"}
"""The magics that run the code after them in the notebook's namespace."""
_MISSING = object()
SUSPECT = "suspect"
"""What a lecture calls the function with a mistake that students look for: its check is no answer."""
_WORD = re.compile(r"[^\W\d]\w*")
_READS_ONLY = frozenset(vars(builtins)) - {"delattr", "eval", "exec", "iter", "next", "setattr"} | {
    "check",
    "claim",
    "display",
    "show",
}
"""Functions that do not change their arguments."""


class Unparsable(ValueError):
    """A text is not valid Python; the message says where."""


class TooLong(BaseException):
    """A statement was still running at its time limit. Not an Exception, so that `except Exception` does not catch it."""


@dataclass(eq=False)
class Statement:
    """One top-level statement: its cell, its index there, its syntax tree, the role of the cell, and its text."""

    cell: int
    number: int
    node: ast.stmt
    role: str
    text: str

    @cached_property
    def binds(self) -> set[str]:
        """The names that it binds at the top level."""
        return set(_bound(self.node))

    @cached_property
    def needs(self) -> set[str]:
        """The names of the notebook that it uses, including those inside its functions."""
        changed = (
            {self.node.target.id} if isinstance(self.node, ast.AugAssign) and isinstance(self.node.target, ast.Name) else set()
        )
        try:
            return changed | set(_global_names(symtable.symtable(self.text, "cell", "exec")))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {part.id for part in ast.walk(self.node) if isinstance(part, ast.Name)}

    @cached_property
    def changes(self) -> set[str]:
        """The names whose values it may change without binding them: by assigning to items or attributes or calling methods."""
        parts = () if self.defines else ast.walk(self.node)
        stored = {
            _base(part)
            for part in parts
            if (isinstance(part, ast.Subscript | ast.Attribute) and not isinstance(part.ctx, ast.Load))
            or (isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute))
        }
        return stored - {""}

    @cached_property
    def hands_over(self) -> set[str]:
        """The names that it passes to functions that may change their values, which excludes known read-only functions."""
        calls = [part for part in ast.walk(self.node) if isinstance(part, ast.Call) and not self.defines]
        given = [
            value
            for call in calls
            if not (isinstance(call.func, ast.Name) and call.func.id in _READS_ONLY)
            for value in (*call.args, *(keyword.value for keyword in call.keywords))
        ]
        return {value.id for value in given if isinstance(value, ast.Name)}

    @cached_property
    def calls(self) -> set[str]:
        """The last names of the functions that it calls: `backward` for `loss.sum().backward()`."""
        functions = [part.func for part in ast.walk(self.node) if isinstance(part, ast.Call)]
        return {f.id if isinstance(f, ast.Name) else f.attr for f in functions if isinstance(f, ast.Name | ast.Attribute)}

    @cached_property
    def defines(self) -> bool:
        """Whether it is a function or a class."""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)

    @cached_property
    def is_import(self) -> bool:
        """Whether it is an import that lists its names."""
        return isinstance(self.node, ast.Import | ast.ImportFrom) and all(alias.name != "*" for alias in self.node.names)

    @cached_property
    def is_check(self) -> bool:
        """Whether it passes a function to the course's check: `name = check("04.1", name)`."""
        value = getattr(self.node, "value", None)
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "check"

    @cached_property
    def checks(self) -> str:
        """The id of the exercise whose check it is, or ""."""
        match self.node:
            case (
                ast.Expr(value=ast.Call(args=[ast.Constant(value=str(id)), *_]))
                | ast.Assign(value=ast.Call(args=[ast.Constant(value=str(id)), *_]))
            ) if self.is_check:
                return id
        return ""

    @cached_property
    def assigns(self) -> bool:
        """Whether it is an assignment."""
        return isinstance(self.node, ast.Assign | ast.AnnAssign | ast.AugAssign)

    def at(self, cell: int, number: int, role: str) -> "Statement":
        """Return the same statement at another position, with its cached properties."""
        moved = object.__new__(Statement)
        vars(moved).update(vars(self), cell=cell, number=number, role=role)
        return moved

    @property
    def is_students(self) -> bool:
        """Whether the student wrote it."""
        return self.role in ("own", "marked")

    @cached_property
    def is_stub(self) -> bool:
        """Whether it is a function whose body is empty or `raise NotImplementedError()`."""
        return isinstance(self.node, ast.FunctionDef) and all(map(_is_empty, self.node.body))


@dataclass
class Found:
    """The result of running a notebook: the answer, or why there is none.

    `late` are the statements that were stopped, as (cell, number), and `raised` those that raised an error, with its type.
    """

    answer: object
    failed: BaseException | None
    started: bool
    unparsable: str
    late: list[tuple[int, int]]
    raised: list[tuple[int, int, str]]

    @property
    def is_there(self) -> bool:
        """Whether an answer was found."""
        return self.answer is not _MISSING


@dataclass
class Choice:
    """The selected statements of a notebook, in order, and why the exercise's cell cannot be parsed, or "".

    `places` are their positions, as (cell, number), for the next exercise of the notebook; None if cells had to be joined, or
    if there are too many. `needed` lists for each exercise the statements of the notebook on which its answer may depend, as
    (cell, number, line, why it does not run): "trains", "handed out", "no Python", or "" if it runs.
    """

    statements: list[Statement]
    unparsable: str
    places: list[tuple[int, int]] | None
    needed: dict[str, list[tuple[int, int, int, str]]]


def choose(request: dict) -> Choice:
    """Parse the cells of a request, which `run` describes, and select the statements to run, without running them."""
    if request["chosen"] is None:
        cells, broken, joined = _parsed_cells(request["cells"])
        every = [statement for cell in cells for statement in cell]
        trainers = _trainers(every)
        statements = _chosen(every, trainers)
        is_kept = not joined and len(statements) <= MOST_CHOSEN
        names = {id: reference.rpartition(":")[2] for id, reference in request["references"].items()}
        unread = [
            (i, int(line[1]) if (line := re.match(r"line (\d{1,6}):", why)) else 1, set(_WORD.findall(part["source"])))
            for i, why in broken.items()
            if (part := request["cells"][i])["role"] != "missing"
        ]
        names[request["exercise"]] = request["function"]

        def need(taken: list[Statement]) -> dict[str, list[tuple[int, int, int, str]]]:
            listed = {id: _needed(id, name, every, set(taken), trainers, unread) for id, name in names.items()}
            return {id: rows[:MOST_NEEDED] for id, rows in listed.items()}

        needed = need(statements)
        trained = {(cell, number) for rows in needed.values() for cell, number, _, why in rows if why == "trains"}
        if trained:
            statements = _chosen(every, trainers, trained)
            needed = need(statements)
        places = [(s.cell, s.number) for s in statements] if is_kept else None
        return Choice(statements, _of_the_exercise(request, broken), places, needed)
    known = {tuple(place) for place in request["chosen"]}
    cells, broken, _ = _parsed_cells(request["cells"], join=False)
    statements = [statement for cell in cells for statement in cell if (statement.cell, statement.number) in known]
    return Choice(statements, _of_the_exercise(request, broken), None, {})


def _of_the_exercise(request: dict, broken: dict[int, str]) -> str:
    """Why the cell that is tagged as that of the exercise cannot be parsed, or ""."""
    return next((why for i, why in broken.items() if request["cells"][i]["role"] == "marked"), "")


def run(
    request: dict,
    choice: Choice,
    namespace: dict,
    provide: Callable[[object], None],
    find: Callable[[str], object | None],
    foreign: type,
    time_slept: Callable[[], float],
) -> Found:
    """Run a notebook to its end in a namespace, and find the answer to one exercise.

    Args:
        request: `cells`, each with `name`, `source` and `role` ("own", "given", "missing" for cells of the lecture that are not
            in the notebook, "marked" for the cell of the exercise); `exercise`, its id; `function`, the required name of the
            answer; `references`, "module:name" for the other exercises of the lecture; `skip`, statements that are known to
            take too long; `chosen`, the positions that `choose` returned for an earlier exercise, or None; `seconds`, the
            limits, as `_Spent` counts time, of one statement, of all statements, of one import, which cannot be resumed once
            stopped, and of all statements that may train, which do not count among the others.
        choice: the result of `choose`.
        namespace: that of the module `__main__`.
        provide: makes `check` importable.
        find: returns the library's function for another exercise, or None.
        foreign: the type of objects that the course does not provide inside; such an object does not count as an answer.
        time_slept: returns the seconds in which this process has neither computed nor waited for a processor.
    """
    checks = _Checks(request, namespace, find, foreign)
    namespace["check"] = checks
    provide(checks)
    statements = choice.statements
    stubs = {statement.node.name for statement in statements if statement.is_stub}
    trainers = _trainers(statements)
    training = {(s.cell, s.number) for s in statements if _may_train(s, trainers)}
    runner = _Runner(request, namespace, time_slept, training)
    names = [(id, reference.rpartition(":")[2]) for id, reference in request["references"].items()]
    waiting = runner.run([statement for statement in statements if not statement.is_stub])
    for id, name in names:
        if id not in checks.seen and name not in namespace and (value := find(request["references"][id])) is not None:
            namespace[name] = value
    while waiting and len(left := runner.run(waiting)) < len(waiting):
        waiting = left
    for id, name in names:
        if id not in checks.seen and id < request["exercise"] and name in namespace:
            namespace[name] = checks(id, namespace[name])
    checks.restore()
    answer = checks.captured
    marked = [statement for statement in statements if statement.role == "marked"]
    if answer is _MISSING:
        answer = namespace.get(request["function"], _MISSING)
    if answer is _MISSING or isinstance(answer, foreign | types.ModuleType):
        functions = {s.node.name for s in marked if isinstance(s.node, ast.FunctionDef) and not s.is_stub}
        answer = namespace.get(functions.pop(), _MISSING) if len(functions) == 1 else _MISSING
    started = request["function"] not in stubs and not any(statement.is_stub for statement in marked)
    return Found(answer, runner.error(request["function"]), started, choice.unparsable, runner.late, runner.raised)


class _Checks:
    """Replaces the course's `check`: it stores the answer to one exercise, and returns the library's function for the others.

    It also stores the values of the notebook's names at that time: later cells may change them.
    """

    def __init__(self, request: dict, namespace: dict, find: Callable[[str], object | None], foreign: type) -> None:
        self._id, self._references, self._find, self._foreign = request["exercise"], request["references"], find, foreign
        self.captured: object = _MISSING
        self.seen: set[str] = set()
        self._namespace = namespace
        self._names: dict[str, object] = {}
        self._ours: list[object] = []

    def __call__(self, id: object = None, fn: object = _MISSING, *more: object, **options: object) -> object:
        fn = options.get("fn", fn)
        self.seen.add(str(id))
        if id == self._id:
            if fn is not _MISSING and not isinstance(fn, self._foreign) and getattr(fn, "__name__", "") != SUSPECT:
                self.captured, self._names = fn, dict(self._namespace)
            return fn
        reference = self._find(self._references[id]) if id in self._references else None
        if reference is None:
            return fn
        self._ours.append(reference)
        return reference

    def restore(self) -> None:
        """Restore the names of the notebook to their values at the check, except those that now hold a library function."""
        for name, value in self._names.items():
            if not any(self._namespace.get(name, _MISSING) is ours for ours in self._ours):
                self._namespace[name] = value


class _Runner:
    """Runs statements in a namespace, each within a time limit, and records which failed."""

    def __init__(self, request: dict, namespace: dict, time_slept: Callable[[], float], training: Set[tuple[int, int]]) -> None:
        self._names = [cell["name"] for cell in request["cells"]]
        self._namespace, self._time_slept = namespace, time_slept
        self._skip = {tuple(place) for place in request["skip"]}
        self._limit, self._left, self._import_limit, self._left_for_training = request["seconds"]
        self._training = training
        self._failed: dict[tuple[int, int], tuple[Statement, BaseException]] = {}
        self.late: list[tuple[int, int]] = []

    def run(self, statements: Sequence[Statement]) -> list[Statement]:
        """Run statements in order; return those that lack a name."""
        waiting = []
        for statement in statements:
            place = (statement.cell, statement.number)
            if place in self._skip:
                continue
            try:
                self._run(statement)
                self._failed.pop(place, None)
            except NameError as error:
                waiting.append(statement)
                self._failed[place] = statement, error
            except BaseException as error:
                self._failed[place] = statement, error
        return waiting

    def error(self, name: str) -> BaseException | None:
        """Return the error of the statement that should bind a name, else the first error of the exercise's cell."""
        binding = [error for statement, error in self._failed.values() if name in statement.binds and not statement.is_check]
        marked = [error for statement, error in self._failed.values() if statement.role == "marked"]
        return next(iter([*binding, *marked]), None)

    @property
    def raised(self) -> list[tuple[int, int, str]]:
        """The statements that raised an error, as (cell, number, name of its type), without those that were stopped."""
        return [(*place, type(error).__name__) for place, (_, error) in self._failed.items() if place not in self.late]

    def _run(self, statement: Statement) -> None:
        flags = FUTURE | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(ast.Module([statement.node], []), self._names[statement.cell], "exec", flags, dont_inherit=True)
        spent = _Spent(self._time_slept)
        trains = (statement.cell, statement.number) in self._training
        limit = self._limit if statement.defines else min(self._limit, self._left_for_training if trains else self._left)
        limit = self._import_limit if statement.is_import else limit
        try:
            with _within(max(limit, 0.01), spent, code):
                awaited = eval(code, self._namespace)
                with contextlib.suppress(StopIteration):
                    while awaited is not None:  # a statement with `await`; there is no event loop
                        awaited.send(None)
        except TooLong:
            self.late.append((statement.cell, statement.number))
            raise RuntimeError(f"it was still running after {limit:.2g} seconds") from None
        finally:
            self._left -= 0.0 if statement.is_import or trains else spent.seconds()
            self._left_for_training -= spent.seconds() if trains else 0.0


class _Spent:
    """Measures how long a statement has computed and how long it has slept, without the time of other processes."""

    def __init__(self, time_slept: Callable[[], float]) -> None:
        self._time_slept = time_slept
        self._computed, self._slept = time.process_time(), time_slept()

    def seconds(self) -> float:
        """Return the seconds so far: of processor time or of sleep, whichever is longer."""
        return max(time.process_time() - self._computed, self._time_slept() - self._slept)


@contextlib.contextmanager
def _within(seconds: float, spent: _Spent, code: types.CodeType) -> Iterator[None]:
    """Raise TooLong after this many seconds, repeatedly until `code` has ended, but never after its end."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        if spent.seconds() < seconds:
            return
        while frame is not None:
            if frame.f_code is code:
                raise TooLong
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 0.1), 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _trainers(statements: list[Statement]) -> set[str]:
    """The names of the functions that may train: those in TRAINS, and those that call them."""
    trainers, size = set(TRAINS), 0
    while len(trainers) != size:
        size = len(trainers)
        trainers |= {s.node.name for s in statements if s.defines and s.calls & trainers}
    return trainers


def _may_train(statement: Statement, trainers: set[str]) -> bool:
    return not statement.defines and not statement.is_check and bool(statement.calls & trainers)


def _chosen(statements: list[Statement], trainers: set[str], trained: Set[tuple[int, int]] = frozenset()) -> list[Statement]:
    """Select what runs: the student's statements that do not train, and the lecture's statements that bind names they need.

    Of the student's statements that may train only those at `trained` are selected, as (cell, number).
    """
    harmless = [s for s in statements if not _may_train(s, trainers) or (s.is_students and (s.cell, s.number) in trained)]
    students = [s for s in statements if s.is_students and not s.is_stub]
    written = {name for s in students for name in s.binds if s.defines or name not in s.needs}
    supplied = {name for s in statements if s.role != "missing" for name in s.binds}
    taken: set[Statement] = set()
    offered: dict[str, list[Statement]] = {}
    for statement in harmless:
        if statement.is_stub or (statement.is_check and not statement.is_students):
            if statement.role != "missing" and (statement.is_stub or statement.needs & written):
                taken.add(statement)
        elif statement.is_students and not statement.is_import:
            taken.add(statement)
        elif statement.is_import or statement.defines or statement.assigns:
            for name in statement.binds - _provided_otherwise(statement, written, supplied):
                offered.setdefault(name, []).append(statement)
    waiting = [statement for statement in taken if not statement.is_stub]
    while waiting:
        for name in waiting.pop().needs:
            for statement in offered.pop(name, ()):
                if statement not in taken:
                    taken.add(statement)
                    waiting.append(statement)
    return [statement for statement in statements if statement in taken]


def _needed(
    id: str,
    function: str,
    every: list[Statement],
    taken: set[Statement],
    trainers: set[str],
    unread: list[tuple[int, int, set[str]]],
) -> list[tuple[int, int, int, str]]:
    """List the statements of the notebook on which the answer to an exercise may depend, in the format of `Choice.needed`.

    They bind a name that the answer needs, directly or through other names, or may change its value: the student's trainings
    may change whatever they use, and functions that a cell of the course calls without training change no argument. Statements
    after the last check of the exercise are excluded, and so are bindings that are replaced before it, and imports of the
    lecture that do not run; its import of the answer itself defines nothing. `unread` are the cells
    that are not valid Python, with their index, the wrong line and their words; a cell is listed if it contains a needed name
    that nothing else defines.
    """
    checks = [i for i, s in enumerate(every) if s.checks == id and s in taken]
    every = every[: checks[-1] + 1] if checks else every
    binding: dict[str, list[Statement]] = {}
    for statement in every:
        of_library = {function} if statement.is_import and not statement.is_students else set()
        for name in () if statement.is_check or statement.is_stub else statement.binds - of_library:
            binding.setdefault(name, []).append(statement)
    names, waiting = set(), {function}.union(*(every[i].needs for i in checks)) - {"check"}
    while waiting:
        names |= waiting
        waiting = {need for name in waiting for s in binding.get(name, ()) if s in taken for need in s.needs} - names
    values = {name for name in names if any(not s.defines and not s.is_import for s in binding.get(name, ()))}
    last = {name: s for name in names for s in binding.get(name, ()) if s in taken and (s.defines or name not in s.needs)}
    found = []
    for statement in every:
        if statement.role == "missing" or statement.is_check or statement.is_stub:
            continue
        place = (statement.cell, statement.number)
        bound = [n for n in statement.binds & names if n not in last or place >= (last[n].cell, last[n].number)]
        runs, trains = statement in taken, not statement.defines and statement.calls & trainers
        why = "" if runs else "trains" if trains else "handed out"
        if why == "handed out" and statement.is_import:
            continue
        used = set() if why == "handed out" else statement.hands_over
        if trains and statement.is_students:
            used = statement.needs
        changed = values and statement.changes | used
        if bound or changed & values:
            found.append((*place, statement.node.lineno, why))
    unbound = names - binding.keys() - vars(builtins).keys()
    return found + [(i, 0, line, "no Python") for i, line, words in unread if words & unbound]


def _provided_otherwise(statement: Statement, written: set[str], supplied: set[str]) -> set[str]:
    """The names for which a statement is not needed: the student's definitions come first, then those of the notebook."""
    return set() if statement.is_students else written if statement.role == "given" else supplied


def _parsed_cells(cells: list[dict], join: bool = True) -> tuple[list[list[Statement]], dict[int, str], bool]:
    """Parse every cell; cells that were split in the middle of a statement are joined into the first of them.

    Returns:
        the statements of each cell, the reasons why cells cannot be parsed, by index, and whether cells were joined.
    """
    joined_any = False
    found: list[list[Statement] | Unparsable] = []
    left, last = MOST_CODE, None
    for i, cell in enumerate(cells):
        source = cell["source"]
        left -= len(source) if len(source) <= LONGEST_CELL else 0
        found.append(_parsed(cell["name"], source) if left >= 0 else Unparsable("the notebook is too long"))
        if not source.strip() or left < 0:
            continue
        if join and last is not None and (isinstance(found[last], Unparsable) or _is_second_half(source, found[i])):
            joined = _parsed(cells[last]["name"], f"{cells[last]['source']}\n{source}")
            if not isinstance(joined, Unparsable):
                found[last], found[i], joined_any = joined, [], True
                continue
        last = i
    broken = {i: str(f) for i, f in enumerate(found) if isinstance(f, Unparsable)}
    parsed = [
        [] if isinstance(f, Unparsable) else [statement.at(i, j, cells[i]["role"]) for j, statement in enumerate(f)]
        for i, f in enumerate(found)
    ]
    return parsed, broken, joined_any


def _is_second_half(source: str, found: list[Statement] | Unparsable) -> bool:
    """Whether a cell may continue the one above it: it is not valid Python, or it is indented and returns.

    IPython removes the indent, but cannot run the `return`; where nothing is indented, it runs what stands above the `return`.
    """
    indented = source.lstrip("\n")[:1].isspace()
    return isinstance(found, Unparsable) or (indented and any(isinstance(statement.node, ast.Return) for statement in found))


def _parsed(name: str, source: str) -> list[Statement] | Unparsable:
    try:
        text, statements = _learned[source] if source in _learned else _read(source)
    except Unparsable as error:
        return error
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return statements


def _read(source: str) -> tuple[str, list[Statement]]:
    text, body = parse(source)
    return text, [
        Statement(0, i, node, "own", part) for i, (node, part) in enumerate(zip(body, _texts(text, body), strict=True))
    ]


def _texts(source: str, body: list[ast.stmt]) -> Iterator[str]:
    """The text of each statement; columns count bytes."""
    lines = source.encode().replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    for node in body:
        first = min([node, *getattr(node, "decorator_list", ())], key=lambda part: part.lineno)
        column = first.col_offset if first is node else 0
        if first.lineno == node.end_lineno:
            yield lines[first.lineno - 1][column : node.end_col_offset].decode()
        else:
            middle = lines[first.lineno : node.end_lineno - 1]
            yield b"\n".join(
                [lines[first.lineno - 1][column:], *middle, lines[node.end_lineno - 1][: node.end_col_offset]]
            ).decode()


_learned: dict[str, tuple[str, list[Statement]]] = {"": ("", [])}


def learn(sources: Sequence[str]) -> None:
    """Parse cells of the course in advance, so that forks need not; a student's code is never parsed here."""
    for source in sources:
        _, statements = _learned[source] = _read(source)
        for statement in statements:
            for name, value in vars(Statement).items():
                if isinstance(value, cached_property):
                    getattr(statement, name)


def parse(source: str) -> tuple[str, list[ast.stmt]]:
    """Parse the source of a cell; return the parsed text and its statements.

    A cell that is not Python is first transformed as IPython does it. Magics that run code in the notebook's namespace are
    replaced by this code, and `%%writefile` by a statement that writes the file; cells in other languages are empty.

    Raises:
        Unparsable: it is too long, or not valid Python.
    """
    if len(source) > LONGEST_CELL:
        raise Unparsable("the cell is too long")
    try:
        with warnings.catch_warnings(action="ignore"):
            try:
                return source, ast.parse(source).body
            except SyntaxError:
                text = _transformed(source)
                return text, ast.parse(text).body
    except SyntaxError as error:
        raise Unparsable(f"line {error.lineno}: {error.msg}" if error.lineno else error.msg) from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise Unparsable("Python cannot read it") from error


def _transformed(source: str) -> str:
    """Replace IPython's syntax by Python; each line keeps its number."""
    manager = TransformerManager()
    lines = f"{source}\n".splitlines(keepends=True)
    n_lines = len(lines)
    for transform in manager.cleanup_transforms:
        lines = transform(lines)
    above = "\n" * (n_lines - len(lines))
    if lines and (magic := _CELL_MAGIC.match(lines[0])):
        body = "".join(lines[1:])
        if magic["name"] in ("writefile", "file"):
            mode = "a" if "-a" in magic["rest"].split() else "w"
            name = magic["rest"].split()[-1:] or [""]
            write = f"with open({name[0]!r}, {mode!r}, encoding='utf-8') as _file: _file.write({body!r})"
            return f"{above}__import__('importlib').invalidate_caches()\n{write}"
        return f"{above}pass\n{_transformed(body)}" if magic["name"] in _RUN_CODE else ""
    for _ in range(min(MOST_MAGICS, MOST_LINES // (len(lines) + 1))):
        before = lines
        try:
            changed, lines = manager.do_one_token_transform(before)
        except Exception:  # an error of IPython itself, such as an IndexError on a lone `x = %`
            changed = False
        if not changed:
            break
        at = next((i for i, pair in enumerate(zip(before, lines, strict=False)) if pair[0] != pair[1]), 0)
        if (magic := _LINE_MAGIC.fullmatch(lines[at])) and magic["name"] in _RUN_CODE:
            code = ast.literal_eval(magic["code"])
            lines[at] = f"{magic['indent']}{code}\n" if code and not code.startswith("-") else lines[at]
        lines[at + 1 : at + 1] = ["\n"] * (len(before) - len(lines))
    return above + "".join(lines)


def _base(node: ast.expr) -> str:
    """The name at the base of an attribute, item or call: `x` for `x[0].y`; "" if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound(node: ast.AST) -> Iterator[str]:
    waiting = [node]
    while waiting:
        match part := waiting.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield part.name
                continue
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in part.names)
            case ast.Name(ctx=ast.Store()):
                yield part.id
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
        waiting += ast.iter_child_nodes(part)


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() if outermost else symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _global_names(inner)


def _is_empty(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Raise) and any(_is_not_implemented(part) for part in ast.walk(node)))
    )


def _is_not_implemented(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "NotImplementedError"
