"""Parse the source of a function of the library: signature, docstring, body.

It is read from the file, not from the object, so that decorators and the wrapper of a type checker do not appear.
"""

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class ReferenceImport:
    """The one import of an exercise cell: `from module import function as name`."""

    module: str
    function: str
    name: str

    @classmethod
    def parse(cls, source: str) -> "ReferenceImport | None":
        """Read it from a cell; None unless the cell is one import of one name."""
        try:
            statements = ast.parse(source).body
        except SyntaxError:
            return None
        match statements:
            case [ast.ImportFrom(module=str(module), names=[alias], level=0)]:
                return cls(module, alias.name, alias.asname or alias.name)
        return None

    def load(self) -> Callable[..., object]:
        """Import the function itself; ImportError if the module lacks it."""
        try:
            return getattr(import_module(self.module), self.function)
        except AttributeError:
            raise ImportError(f"{self.module} has no {self.function}") from None


@dataclass(frozen=True)
class FunctionSource:
    """A function as lines of text, each part without a trailing line end."""

    name: str
    signature: str
    docstring: str
    body: str

    @classmethod
    def of(cls, function: Callable[..., object]) -> "FunctionSource":
        """Parse a function at the top level of its module; its decorators are dropped.

        Raises:
            ValueError: its module does not define it there, or its body is on the line of its signature.
        """
        name = function.__name__
        path = Path(sys.modules[function.__module__].__file__)
        lines, definitions = _module(path, path.stat().st_mtime_ns)
        node = definitions.get(name)
        if node is None:
            raise ValueError(f"{function.__module__} does not define a function {name} at its top level")
        first = node.body[0]
        if first.lineno == node.lineno:
            raise ValueError(f"{function.__module__}.{name} has its body on the line of its signature")
        documented = ast.get_docstring(node, clean=False) is not None
        body_start = first.end_lineno if documented else first.lineno - 1
        return cls(
            name,
            _text(lines[node.lineno - 1 : first.lineno - 1]),
            _text(lines[first.lineno - 1 : first.end_lineno]) if documented else "",
            _text(lines[body_start : node.end_lineno]),
        )

    def named(self, name: str) -> "FunctionSource":
        """Return the same function under another name.

        Raises:
            ValueError: it calls itself, so that renaming it would break it.
        """
        if name != self.name and re.search(rf"\b{self.name}\b", self.body):
            raise ValueError(f"{self.name} refers to itself in its body and cannot be renamed")
        signature = re.sub(rf"^def {self.name}\b", f"def {name}", self.signature)
        return FunctionSource(name, signature, self.docstring, self.body)

    def text(self, body: str | None = None, documented: bool = True) -> str:
        """Join the parts, optionally with another body or without the docstring."""
        parts = (self.signature, self.docstring if documented else "", self.body if body is None else body)
        return "\n".join(part for part in parts if part)


@cache
def _module(path: Path, stamp: int) -> tuple[list[str], dict[str, ast.FunctionDef]]:
    text = path.read_text(encoding="utf-8")
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    return text.splitlines(), functions


def _text(lines: list[str]) -> str:
    """Join lines, without empty lines at either end."""
    text = "\n".join(line.rstrip() for line in lines)
    return text.strip("\n")
