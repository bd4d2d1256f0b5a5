"""Digest of the definitions that a study depends on: those of library, lecture and bank that it names, and what these name.

A recorded study (course_tools/studies) asks for a new check when this digest changes. It does so with the code of a function,
class or constant that the study uses, directly or not; not with docstrings, with other definitions of the same file, or with
the file that a definition is in.
"""

import ast
import hashlib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

_COUNTED = ("course_lib", "course_tools.lectures", "course_tools.bank")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class NameInModule(NamedTuple):
    """A name in a module; "" for all that the module defines."""

    module: str
    name: str = ""


def digest(text: str, root: Path) -> str:
    """Hash all definitions that a piece of code uses, directly or not, to 16 hexadecimal digits.

    Args:
        text: the code.
        root: the folder of the course.
    """
    return hashlib.sha256("\0".join(sorted(used_by(text, root))).encode()).hexdigest()[:16]


def used_by(text: str, root: Path) -> set[str]:
    """Return the code of the definitions of library, lectures and bank that a piece of code uses, directly or not.

    A name that is not found stands for itself.
    """
    found: set[str] = set()
    todo, seen = [place for _, place in _imports(_tree(text))], set()
    while todo:
        place = todo.pop()
        if place in seen or not place.module.startswith(_COUNTED):
            continue
        seen.add(place)
        file = _file(place.module, root)
        defined = _definitions(file, root) if file else {}
        for name in [place.name] if place.name else defined:
            for used in defined.get(name, ()):
                found |= {used.code} - {""}
                todo += [*(NameInModule(place.module, each) for each in used.names), *used.imports]
            if name not in defined:
                inside = NameInModule(f"{place.module}.{name}")
                if _file(inside.module, root):
                    todo.append(inside)
                else:
                    found.add(inside.module)
    return found


class UsedCode(NamedTuple):
    """A statement at the top of a module: its code, and what it uses: names of the module, and its own imports."""

    code: str
    names: tuple[str, ...]
    imports: tuple[NameInModule, ...]


@cache
def _definitions(file: Path, root: Path) -> dict[str, list[UsedCode]]:
    """Map each name of a module to the statements that define it, import it, or call something with it."""
    text = _content(file).decode()
    lines, found = text.split("\n"), defaultdict(list)
    body = [node for node in _tree(text).body if not _is_text(node)]
    for node in body:
        for name, place in _imports(node):
            home = _file(place.module, root) if name == "*" else None
            for each in names_of(home) if home else (name,):
                found[each].append(UsedCode("", (), (place._replace(name=each) if home else place,)))
    rest = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    known = {*found, *(name for node in rest for name in _bound(node))}
    for node in rest:
        named = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & known
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        code = code_of("\n".join(lines[first - 1 : node.end_lineno]))
        for name in _bound(node) or named:
            found[name].append(UsedCode(code, tuple(named), tuple(place for _, place in _imports(node))))
    return found


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring, or assigns a name such as `__all__`."""
    if isinstance(node, ast.Assign):
        return all(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    inner = {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    return stored | inner


def _imports(tree: ast.AST) -> list[tuple[str, NameInModule]]:
    """List the imports of a piece of code, at any level: the name that each binds, and what it imports."""
    found: list[tuple[str, NameInModule]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.asname or alias.name.partition(".")[0], NameInModule(alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(alias.asname or alias.name, NameInModule(node.module, alias.name)) for alias in node.names]
    return found


@cache
def _file(module: str, root: Path) -> Path | None:
    base = root.joinpath(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def names_of(file: Path) -> tuple[str, ...]:
    """Return the `__all__` of a module."""
    for node in _tree(_content(file).decode()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    return ()


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
