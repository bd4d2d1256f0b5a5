"""Find the answer that a check cell names, even if the name is undefined or its cell ended with an error.

After `course_tools.notebook.check` has been imported in a kernel, `check("04.1", name)` in a later cell is rewritten to
`check("04.1", NamedAnswer("name", lambda: name))`: an undefined name becomes a value instead of a NameError. The kernel also
records which cells end with an error, because a name then still holds the function of an earlier run.
"""

import ast
import re
import sys
from collections.abc import Callable


class Undefined:
    """The value of an undefined name."""


UNDEFINED = Undefined()


class NamedAnswer:
    """An answer with its name in the check cell; `value` is UNDEFINED if the name is not defined."""

    def __init__(self, name: str, look_up: Callable[[], object]) -> None:
        """Look the name up."""
        self.name = name
        try:
            self.value = look_up()
        except NameError:
            self.value = UNDEFINED


_left_by_broken_cells: dict[str, object] = {}
"""For each name whose cell ended with an error before defining it: its old value."""


def broken_cell(name: str, value: object) -> str:
    """Report in a sentence that an answer is undefined, or not defined by the latest run of its cell; else ""."""
    if value is UNDEFINED:
        return f"`{name}` is not defined: run the cell above. If it ends with an error, fix that first."
    if name in _left_by_broken_cells and _left_by_broken_cells[name] is value:
        return f"The cell of `{name}` ended with an error, so its new code is not in use: fix it and run it again."
    return ""


def watch_cells(shell: object) -> None:
    """Rewrite check cells as above, and record cells that end with an error, in an IPython shell; later calls do nothing."""
    if any(type(transformer).__name__ == NameLookup.__name__ for transformer in shell.ast_transformers):
        return
    before: dict[str, object] = {}

    def remember(info: object) -> None:
        before.clear()
        before.update(shell.user_ns)

    def note(result: object) -> None:
        source = result.info.raw_cell if result.info is not None else ""
        if result.error_before_exec is not None:
            names = set(re.findall(r"[^\W\d]\w*", source)) - {"check"}
        elif result.error_in_exec is not None:
            names = _defined(source)
        else:
            return
        for name in names:
            kept = shell.user_ns.get(name, UNDEFINED)
            if kept is before.get(name, UNDEFINED):
                _left_by_broken_cells[name] = kept

    shell.ast_transformers.append(NameLookup())
    shell.events.register("pre_run_cell", remember)
    shell.events.register("post_run_cell", note)


def in_this_shell() -> None:
    """Call `watch_cells` for the shell that runs this code, if there is one."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        watch_cells(shell)


class NameLookup(ast.NodeTransformer):
    """Replaces the name in `check("04.1", name)` by a look-up that cannot raise a NameError."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Rewrite one call."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value=str()), ast.Name(id=name)], keywords=[]):
                here = f"__import__({__name__!r}, fromlist=['NamedAnswer'])"
                looked_up = ast.parse(f"{here}.NamedAnswer({name!r}, lambda: {name})", mode="eval").body
                for inner in ast.walk(looked_up):
                    ast.copy_location(inner, node.args[1])
                node.args[1] = looked_up
        return node


def _defined(source: str) -> set[str]:
    """The names that the functions and assignments of a cell define, except those assigned from a check."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a line of IPython's own, such as %time
        return set(re.findall(r"^\s*(?:async\s+)?def\s+(\w+)", source, re.MULTILINE))
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(value=ast.Call(func=ast.Name(id="check"))):
                continue
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
