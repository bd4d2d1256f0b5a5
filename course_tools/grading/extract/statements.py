"""The statements of a stranger's cells: parsed, never run, with the names that each binds and needs.

Parsing happens in the grader, so it is bounded: long cells are not read, and every way in which Python's parser gives up is one
error here. Magics and shell lines become `pass`, but only where they are what Python stumbles over, so that a `%` that begins a
continued line stays what it is.
"""

import ast
import re
import symtable
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

LONGEST_CELL = 100_000
MOST_CODE = 500_000
"""Characters of all cells that are read, together; what stands behind them is not read."""
MOST_MAGICS = 20

_MAGIC = re.compile(r"\s*[%!?]|.*\?\s*$")
_WHOLE = re.compile(r"\s*%%(\w+)")
_BODY_RUNS = {"time", "timeit", "capture", "prun", "python", "python3"}


class Unparsable(ValueError):
    """A text is no Python; the text of the error says where."""


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell."""

    node: ast.stmt

    @cached_property
    def binds(self) -> frozenset[str]:
        """The names of the notebook that it gives a value."""
        return _guarded(_bound, self.node)

    @cached_property
    def changes(self) -> frozenset[str]:
        """The names whose value it changes in place, as `x[i] = …`, `x.y = …` and `x.append(…)` do."""
        return self.stores | _guarded(_told, self.node)

    @cached_property
    def stores(self) -> frozenset[str]:
        """The names of whose value it assigns a part, as `x[i] = …` and `x.y = …` do."""
        return _guarded(_stored, self.node)

    @cached_property
    def calls(self) -> frozenset[str]:
        """The functions that it calls for what they do, by standing alone or as decorators."""
        called = [self.node.value] if isinstance(self.node, ast.Expr) else getattr(self.node, "decorator_list", ())
        functions = (call.func if isinstance(call, ast.Call) else call for call in called)
        return frozenset(function.id for function in functions if isinstance(function, ast.Name))

    @property
    def acts(self) -> bool:
        """Whether it defines a function that changes something outside of it."""
        return isinstance(self.node, ast.FunctionDef) and bool(self.stores & self.needs or self.binds - {self.node.name})

    @cached_property
    def needs(self) -> frozenset[str]:
        """The names that it uses, also inside its functions; annotations left out."""
        return _guarded(_used, self.node)

    @property
    def is_star(self) -> bool:
        """Whether it is `from … import *`."""
        return isinstance(self.node, ast.ImportFrom) and any(alias.name == "*" for alias in self.node.names)

    @property
    def is_check(self) -> bool:
        """Whether it only hands a function to the check of the course: `name = check("04.1", name)`."""
        value = getattr(self.node, "value", None)
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "check"

    @property
    def is_from_the_course(self) -> bool:
        """Whether it imports from the library of the course."""
        return isinstance(self.node, ast.ImportFrom) and (self.node.module or "").partition(".")[0] in (
            "course_lib",
            "course_tools",
        )

    @property
    def is_stub(self) -> bool:
        """Whether it is a function without a body of its own: nothing, or `raise NotImplementedError()`."""
        if not isinstance(self.node, ast.FunctionDef):
            return False
        return all(
            isinstance(part, ast.Pass)
            or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            or (isinstance(part, ast.Raise) and part.exc is not None and "NotImplementedError" in ast.unparse(part.exc))
            for part in self.node.body
        )

    @property
    def assigns(self) -> bool:
        """Whether it gives a name a value, and neither imports nor defines it."""
        return not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)


def statements(source: str) -> tuple[str, list[Statement]]:
    """Parse the source of a cell; give the text that was parsed, magics made harmless, and its statements.

    Raises:
        Unparsable: it is too long, or no Python.
    """
    if len(source) > LONGEST_CELL:
        raise Unparsable("the cell is too long")
    source = _without_cell_magic(source)
    for _ in range(MOST_MAGICS):
        try:
            return source, [Statement(node) for node in _parsed(source)]
        except SyntaxError as error:
            source = _without_magic(source, error)
    raise Unparsable("the cell has too many lines that are no Python")


Read = tuple[str, list[Statement]] | Unparsable
"""The text of a cell as it was parsed and its statements, or why there are none."""


def read_all(sources: Sequence[str]) -> list[Read]:
    """Parse every cell of a notebook; cells that were split in the middle of a statement are joined in the first of them."""
    found: list[Read] = []
    left, last = MOST_CODE, None
    for i, source in enumerate(sources):
        left -= len(source) if len(source) <= LONGEST_CELL else 0
        found.append(_tried(source) if left >= 0 else Unparsable("the notebook is too long"))
        if not source.strip() or left < 0:
            continue
        if last is not None and Unparsable in (type(found[i]), type(found[last])):
            joined = _tried(f"{sources[last]}\n{source}")
            if not isinstance(joined, Unparsable):
                found[last], found[i] = joined, ("", [])
                continue
        last = i
    return found


def _tried(source: str) -> Read:
    try:
        return statements(source)
    except Unparsable as error:
        return error


def _parsed(source: str) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source).body
        except SyntaxError:
            raise
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise Unparsable("Python cannot read it") from error


def _without_cell_magic(source: str) -> str:
    magic = _WHOLE.match(source)
    if magic is None:
        return source
    return f"pass\n{source.lstrip().partition(chr(10))[2]}" if magic[1] in _BODY_RUNS else ""


def _without_magic(source: str, error: SyntaxError) -> str:
    """Replace the line at which Python stumbles by `pass`, if it is a magic or a shell line."""
    lines = source.split("\n")
    at = (error.lineno or 0) - 1
    if 0 <= at < len(lines):
        line = lines[at]
        indent = line[: len(line) - len(line.lstrip())]
        if _MAGIC.match(line):
            lines[at] = f"{indent}pass"
            return "\n".join(lines)
        if shell := re.match(r"(\s*\w+\s*=\s*)[%!]", line):
            lines[at] = f"{shell[1]}None"
            return "\n".join(lines)
    raise Unparsable(f"line {error.lineno}: {error.msg}" if error.lineno else error.msg) from error


def _guarded(names: Callable[[ast.stmt], Iterator[str]], node: ast.stmt) -> frozenset[str]:
    try:
        return frozenset(names(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
            yield from (name for part in ast.walk(node) if isinstance(part, ast.Global) for name in part.names)
            return
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _stored(node: ast.stmt) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield from _owner(part)


def _told(node: ast.stmt) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            yield from _owner(part.value.func)


def _owner(part: ast.expr) -> Iterator[str]:
    while isinstance(part, ast.Subscript | ast.Attribute):
        part = part.value
        if isinstance(part, ast.Name):
            yield part.id


def _used(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    yield from _read(symtable.symtable(ast.unparse(_bare(node)), "cell", "exec"))


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    outermost = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() if outermost else symbol.is_global():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _read(inner)


def _bare(node: ast.stmt) -> ast.stmt:
    """Take the annotations away: they are never evaluated inside, so that a missing word for a shape costs nothing."""
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            part.returns = None
        elif isinstance(part, ast.AnnAssign):
            part.annotation = ast.Constant(None)
    return node
