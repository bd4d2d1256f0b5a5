"""Answers of the bank as an exam prints them: without name and docstring, which reveal the mistake; helpers as footnotes."""

import ast
import builtins
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType

import torch

from course_tools.checks.exercise import Answer

_MAX_HELPER_LINES = 12


class Unprintable(Exception):
    """An answer cannot be printed: it needs a helper that is too long for a footnote, or has no source."""


@dataclass(frozen=True)
class Footnote:
    """A name that the code uses, with its source or, for a function of the library, its signature and what it returns."""

    name: str
    text: str
    is_code: bool


def printed(answer: Answer, name: str) -> str:
    """Return the source of an answer, called `name`, without its decorators and its docstring.

    Raises:
        Unprintable: the answer is not defined by its own `def`.
    """
    source, node = _parsed(answer)
    lines = source.splitlines()
    first = node.lineno - 1
    body_starts = (node.body[1] if _has_docstring(node) and len(node.body) > 1 else node.body[0]).lineno - 1
    docstring_starts = node.body[0].lineno - 1 if _has_docstring(node) else body_starts
    head = "\n".join(lines[first:docstring_starts]).replace(f"def {node.name}(", f"def {name}(", 1)
    return head + "\n" + "\n".join(lines[body_starts:])


def footnotes(answer: Answer) -> tuple[Footnote, ...]:
    """Explain every name in an answer that does not belong to Python or torch, in order of use, including helpers of helpers.

    Raises:
        Unprintable: a helper is too long.
    """
    found: dict[str, Footnote] = {}
    _explain(answer, found)
    return tuple(found.values())


def _explain(answer: Answer, found: dict[str, Footnote]) -> None:
    for name in _global_names(answer):
        if name in found or name not in answer.__globals__:
            continue
        value = answer.__globals__[name]
        if isinstance(value, ModuleType) or _is_public(value):
            continue
        module = getattr(value, "__module__", None) or ""
        if module.startswith("course_lib."):
            found[name] = Footnote(name, _described(name, value), False)
        elif inspect.isfunction(value):
            text = printed(value, name)
            if text.count("\n") >= _MAX_HELPER_LINES:
                raise Unprintable(f"the helper {name} has too many lines")
            found[name] = Footnote(name, text, True)
            _explain(value, found)
        elif isinstance(value, int | float | str | tuple):
            found[name] = Footnote(name, f"{name} = {value!r}", True)
        elif isinstance(value, torch.Tensor) and value.numel() <= 12:
            found[name] = Footnote(name, f"{name} = {value.tolist()}", True)
        else:
            raise Unprintable(f"{name} cannot be explained in one line")


def _global_names(answer: Answer) -> list[str]:
    """Return the names that the body of a function reads, in order."""
    node = _parsed(answer)[1]
    names = [
        (part.lineno, part.col_offset, part.id)
        for statement in node.body
        for part in ast.walk(statement)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    ]
    return list(dict.fromkeys(name for _, _, name in sorted(names) if not hasattr(builtins, name)))


def _is_public(value: object) -> bool:
    """Return whether the name needs no explanation: a function or class of torch, einops, math or the standard library."""
    module = (getattr(value, "__module__", None) or "").partition(".")[0]
    return callable(value) and not module.startswith("course_")


def _described(name: str, value: object) -> str:
    try:
        names = ", ".join(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        names = "…"
    first = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    return f"{name}({names}): {first}"


def _parsed(answer: Answer) -> tuple[str, ast.FunctionDef]:
    try:
        source = textwrap.dedent(inspect.getsource(answer))
        node = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise Unprintable("it has no source of its own") from None
    if not isinstance(node, ast.FunctionDef):
        raise Unprintable("it is not defined by its own def")
    return source, node


def _has_docstring(node: ast.FunctionDef) -> bool:
    return ast.get_docstring(node) is not None
