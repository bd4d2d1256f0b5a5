"""Digest of the source files that a study depends on: those of the library and of its lecture that it imports, directly or not.

A recorded study (course_tools/studies) is out of date only when this digest changes. Docstrings do not count: editing one
makes no record stale.

A package whose `__init__.py` only re-exports names is resolved: `from course_lib.attention import attend` depends on the
file that defines `attend`, not on every other mechanism. So a new file of the library makes nothing stale.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_COUNTED = ("course_lib", "course_tools.lectures")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """An imported module, and the name imported from it; "" for the module as a whole."""

    module: str
    name: str = ""


def imported_by(text: str, root: Path) -> set[Path]:
    """Find the files of the library and of the lectures' packages that a piece of code imports, directly or not.

    Args:
        text: the code.
        root: the folder of the course.
    """
    found: set[Path] = set()
    todo, seen = list(_imports(text)), set()
    while todo:
        wanted = todo.pop()
        if wanted in seen or not wanted.module.startswith(_COUNTED):
            continue
        seen.add(wanted)
        file = _file(wanted.module, root)
        if wanted.name:
            todo.append(Import(f"{wanted.module}.{wanted.name}"))
        if file is None:  # a folder without an __init__.py
            continue
        if wanted.name and _passes_on(file):
            todo += [item for name, item in _passed_on(file) if name == wanted.name and item != wanted]
            continue
        parent = wanted.module.rpartition(".")[0]
        above = _file(parent, root) if parent else None
        if above and not _passes_on(above):
            todo.append(Import(parent))
        found.add(file)
        todo += _imports(_content(file).decode())
    return found


@cache
def _file(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


@cache
def _imports(text: str) -> tuple[Import, ...]:
    """List the imports of a piece of code, at any level."""
    found: list[Import] = []
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [Import(node.module, alias.name) for alias in node.names]
    return tuple(found)


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _passes_on(file: Path) -> bool:
    """Return whether a file is an `__init__.py` that has only a docstring, imports and names such as `__all__`."""
    return file.name == "__init__.py" and all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and all(isinstance(to, ast.Name) and to.id.startswith("__") for to in node.targets))
        for node in _tree(_content(file).decode()).body
    )


@cache
def _passed_on(file: Path) -> tuple[tuple[str, Import], ...]:
    """Map the names that a package re-exports to where they come from; `*` stands for the `__all__` of a module."""
    nodes = [node for node in _tree(_content(file).decode()).body if isinstance(node, ast.ImportFrom) and node.module]
    found = [(alias.asname or alias.name, Import(str(node.module), alias.name)) for node in nodes for alias in node.names]
    stars = [item.module for name, item in found if name == "*"]
    return (
        *((name, item) for name, item in found if name != "*"),
        *((name, Import(module, name)) for module in stars for name in names_of(_source_of(module, file))),
    )


def _source_of(module: str, importer: Path) -> Path:
    """Return the file of a module that an `__init__.py` imports from its own package."""
    return importer.parent / f"{module.rpartition('.')[2]}.py"


@cache
def names_of(file: Path) -> tuple[str, ...]:
    """Return the `__all__` of a module."""
    for node in _tree(_content(file).decode()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    return ()


def digest(files: Iterable[Path], root: Path) -> str:
    """Hash names and contents of files, in the order of their names, to 16 hexadecimal digits, without docstrings.

    Args:
        files: the files, inside root.
        root: the folder that their names are relative to.
    """
    made = hashlib.sha256()
    for path in sorted(files):
        content = code_of(_content(path).decode()).encode() if path.suffix == ".py" else _content(path)
        made.update(path.relative_to(root).as_posix().encode() + b"\0" + content + b"\0")
    return made.hexdigest()[:16]


@cache
def code_of(text: str) -> str:
    """Return the source of a program without its docstrings."""
    lines: list[str | None] = list(text.split("\n"))
    for node in ast.walk(_tree(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            if isinstance(node, ast.Module) or first > node.lineno:
                lines[first - 1 : last] = [None] * (last - first + 1)
    return "\n".join(line for line in lines if line is not None)


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes().replace(b"\r\n", b"\n")
