"""Digest of source files: of a module and of everything of the course that it imports, directly or not.

What costs hours is not run again while the files that it depends on are as they were: the exhaustive tests of an exercise
(tests/unchanged.py), and the recorded studies (course_tools/studies).
"""

import ast
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

_OURS = ("course_lib", "course_tools", "tests")


def imported_files(modules: Iterable[str], root: Path, counts: Callable[[Path], bool] = lambda file: True) -> set[Path]:
    """Find the files of modules, and of all that they import of the course, each with the packages above it.

    Args:
        modules: dotted names, such as "course_lib.attention.core"; those of other projects are ignored.
        root: the folder of the course.
        counts: whether a file is looked at; else it is left out, and what it imports is not followed.
    """
    found: set[Path] = set()
    todo, seen = list(modules), set()
    while todo:
        name = todo.pop()
        if name in seen or name.partition(".")[0] not in _OURS:
            continue
        seen.add(name)
        todo.append(name.rpartition(".")[0])
        base = root.joinpath(*name.split("."))
        file = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if file.exists() and counts(file):
            found.add(file)
            todo += imports_of(file)
    return found


@cache
def imports_of(file: Path) -> tuple[str, ...]:
    """Name the modules that a file imports, wherever in it; of `from a import b` both `a` and `a.b`."""
    names: list[str] = []
    for node in ast.walk(ast.parse(_content(file))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def digest(files: Iterable[Path], root: Path, salt: str = "") -> str:
    """Hash names and contents of files, in the order of their names, to 16 hexadecimal digits.

    Args:
        files: the files, inside root.
        root: the folder that their names start from.
        salt: what else the digest depends on, such as versions.
    """
    made = hashlib.sha256(salt.encode())
    for path in sorted(files):
        made.update(path.relative_to(root).as_posix().encode() + b"\0" + _content(path) + b"\0")
    return made.hexdigest()[:16]


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes().replace(b"\r\n", b"\n")
