"""The student's functions on which the running cell depends, directly or through functions and results of earlier cells."""

import ast
import symtable
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType

_checked: dict[str, Callable[..., object]] = {}
"""For each exercise whose latest checked answer was right: the student's function."""
_UNCHANGEABLE = (BuiltinFunctionType, FunctionType, ModuleType, type, bool, float, int, str, tuple, type(None))
_READ_ONLY = {"check", "claim", "explore", "len", "max", "mean", "min", "print", "show", "sum"}


def accept(id: str, answer: Callable[..., object]) -> None:
    """Remember the student's right answer to an exercise."""
    _checked[id] = answer


def own_functions() -> dict[str, str]:
    """Return the student's functions on which the running cell may depend: exercise -> name in the notebook.

    A name depends on all names in the statements that define, assign or may change it, in any cell that has run. This may find
    more than has been used, and nothing less unless a cell hides what it calls.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return {}
    *_, cell = cells = shell.user_ns["In"]
    behind = _names_behind(cell, cells, {name for name, value in shell.user_ns.items() if not isinstance(value, _UNCHANGEABLE)})
    bound = {id(value): name for name, value in shell.user_ns.items() if name in behind}
    return {exercise: bound[id(answer)] for exercise, answer in _checked.items() if id(answer) in bound}


def _names_behind(cell: str, cells: list[str], changeable: set[str]) -> set[str]:
    """Return the names in a cell, and all names on which they depend through the statements of the cells."""
    uses: dict[str, set[str]] = {}
    for statement in [statement for each in cells for statement in _statements(each)]:
        read = _names(statement)
        for name in _assigned(statement) | (_handed_over(statement) & changeable):
            uses.setdefault(name, set()).update(read)
    found, pending = set(), [name for statement in _statements(cell) for name in _names(statement)]
    while pending:
        if (name := pending.pop()) not in found:
            found.add(name)
            pending += uses.get(name, ())
    return found


def _statements(cell: str) -> list[ast.stmt]:
    try:
        return ast.parse(cell).body
    except SyntaxError:  # the cell contains a line of IPython's own, or did not run
        return []


def _scopes(statement: ast.stmt) -> list[symtable.SymbolTable]:
    """Return the scope of the notebook in a statement, and then those of its functions and classes."""
    found = [symtable.symtable(ast.unparse(statement), "<cell>", "exec")]
    for scope in found:
        found += scope.get_children()
    return found


def _names(statement: ast.stmt) -> set[str]:
    """Return the names of the notebook in a statement, not those that are local to a function in it."""
    cell, *inner = _scopes(statement)
    return set(cell.get_identifiers()) | {one.get_name() for scope in inner for one in scope.get_symbols() if one.is_global()}


def _assigned(statement: ast.stmt) -> set[str]:
    """Return the names of the notebook that a statement defines or assigns, in whole or in part."""
    cell, *inner = _scopes(statement)
    symbols = cell.get_symbols() + [one for scope in inner for one in scope.get_symbols() if one.is_declared_global()]
    found = {one.get_name() for one in symbols if one.is_assigned() or one.is_namespace()}
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found |= _root(node)
    return found & _names(statement)


def _handed_over(statement: ast.stmt) -> set[str]:
    """Return the names that a call in a statement may change: its arguments, and the object of a method."""
    found = set()
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in _READ_ONLY:
                pass
            case ast.Call(func=function, args=args, keywords=keywords):
                for part in (function, *args, *(keyword.value for keyword in keywords)):
                    found |= _root(part)
    return found & _names(statement)


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
