"""Digest of source files: of a module and of everything of the course that it imports, directly or not.

What takes hours is not run again while the files that it depends on are unchanged: the exhaustive tests of an exercise
and the solved lectures (tests/unchanged.py), and the recorded studies (course_tools/studies).

Docstrings do not count, except in the bank, where they are messages to students: editing a docstring of the library makes
nothing stale.

A package whose `__init__.py` only re-exports names is resolved: `from course_lib.attention import attend` depends on the
file that defines `attend`, not on every other mechanism. So a new file of the library makes nothing stale.
"""

import ast
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_OURS = ("course_lib", "course_tools", "tests")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """An imported module, and the name imported from it; "" for the module as a whole."""

    module: str
    name: str = ""


def imported_files(modules: Iterable[str], root: Path, counts: Callable[[Path], bool] = lambda file: True) -> set[Path]:
    """Find the files of modules, and of all modules of the course that they import, each with its parent packages.

    Args:
        modules: dotted names, such as "course_lib.attention.core"; those of other projects are ignored.
        root: the folder of the course.
        counts: whether a file counts; otherwise it is left out, and its imports are not followed.
    """
    return _followed(map(Import, modules), root, counts)


def imported_by(text: str, root: Path, packages: tuple[str, ...] = _OURS) -> set[Path]:
    """Find the files of the course that a piece of code imports, directly or not.

    Args:
        text: the code.
        root: the folder of the course.
        packages: the packages whose imports count; what they import in turn counts regardless of its package.
    """
    wanted = [item for item in _imports(text) if item.module.partition(".")[0] in packages]
    return _followed(wanted, root, lambda file: True)


def _followed(imports: Iterable[Import], root: Path, counts: Callable[[Path], bool]) -> set[Path]:
    found: set[Path] = set()
    todo, seen = list(imports), set()
    while todo:
        wanted = todo.pop()
        if wanted in seen or wanted.module.partition(".")[0] not in _OURS:
            continue
        seen.add(wanted)
        file = _file(wanted.module, root)
        if file and not counts(file):
            continue
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
        todo += _imports_of(file)
    return found


@cache
def _file(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


@cache
def _imports_of(file: Path) -> tuple[Import, ...]:
    return _imports(_content(file).decode())


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
    """Map the names that a package re-exports to where they come from."""
    nodes = [node for node in _tree(_content(file).decode()).body if isinstance(node, ast.ImportFrom) and node.module]
    return tuple((alias.asname or alias.name, Import(str(node.module), alias.name)) for node in nodes for alias in node.names)


def digest(files: Iterable[Path], root: Path, salt: str = "") -> str:
    """Hash names and contents of files, in the order of their names, to 16 hexadecimal digits, without docstrings.

    Args:
        files: the files, inside root.
        root: the folder that their names are relative to.
        salt: what else the digest depends on, such as versions.
    """
    made = hashlib.sha256(salt.encode())
    for path in sorted(files):
        name = path.relative_to(root)
        is_code = path.suffix == ".py" and "bank" not in name.parts
        made.update(name.as_posix().encode() + b"\0" + (_code(path) if is_code else _content(path)) + b"\0")
    return made.hexdigest()[:16]


@cache
def _code(file: Path) -> bytes:
    return code_of(_content(file).decode()).encode()


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
