"""Small mistakes, made in a function by machine: each mutant differs from it in one place of its syntax tree.

Only the body is mutated: not the docstring, the annotations or the defaults, which students are given. A guard (an `if` that
only raises, a call of `require_…`) is left out with all that stands in it: exercises are judged on right calls alone. Constants
move by one, so no mutant asks for more memory than a few numbers.
"""

import ast
import copy
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.course_tools.bank.mutations import changes


@dataclass(frozen=True)
class Mutant:
    """A function with one mistake; `label` is the kind of mistake and the expression around it, or the whole statement.

    It is written from the syntax tree, so that comments, line breaks and what stands elsewhere do not change it; a number in
    parentheses tells the second of two equal labels from the first.
    """

    label: str
    function: Callable[..., object]


def mutants(function: Callable[..., object], gradients: bool = True) -> list[Mutant]:
    """Make every mutant that compiles and is not the function itself; `gradients` says whether gradients are asked of it."""
    original = _definition(function)
    made, seen, labels = [], {ast.unparse(original)}, Counter()
    around = _around(original)
    nodes, given = list(ast.walk(original)), set(ast.walk(original.args))
    names = sorted({n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
    names += [a.arg for a in original.args.args]
    for i, node in enumerate(nodes):
        for kind, new in () if node in given else changes(node, names):
            if kind == "detach" and not gradients:
                continue
            tree = copy.deepcopy(original)
            places = list(ast.walk(tree))
            mutated = node if isinstance(node, ast.stmt) else places[nodes.index(around[node])]
            tree = ast.fix_missing_locations(_Replace(places[i], new).visit(tree))
            code = ast.unparse(tree)
            if code in seen or not _compiles(code):
                continue
            seen.add(code)
            label = f"{kind}: {_text(mutated)}"
            labels[label] += 1
            made.append(Mutant(f"{label} ({labels[label]})" if labels[label] > 1 else label, _function(tree, function)))
    return made


def _around(tree: ast.FunctionDef) -> dict[ast.AST, ast.expr | ast.stmt]:
    """Find the smallest expression or statement around each node that says where it is; `ast.walk` comes to it last."""
    found: dict[ast.AST, ast.expr | ast.stmt] = {}
    for outer in ast.walk(tree):
        if isinstance(outer, ast.expr | ast.stmt) and not isinstance(outer, ast.Slice | ast.UnaryOp | ast.Tuple):
            found |= {node: outer for node in ast.walk(outer) if node is not outer}
    return found


def _definition(function: Callable[..., object]) -> ast.FunctionDef:
    """Parse a function and take off what is not to be mutated."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    (definition,) = ast.parse(source).body
    definition.returns, definition.decorator_list = None, []
    for argument in definition.args.args:
        argument.annotation = None
    if ast.get_docstring(definition) is not None:
        definition.body = definition.body[1:]
    return ast.parse(ast.unparse(_WithoutGuards().visit(definition))).body[0]


class _WithoutGuards(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.stmt | None:
        only_raises = all(isinstance(s, ast.Raise) for s in node.body) and not node.orelse
        return None if only_raises else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        return None if ast.unparse(node).startswith("require_") else node


def _compiles(code: str) -> bool:
    try:
        compile(code, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


def _text(node: ast.AST) -> str:
    """Write a node on one line; of a compound statement its head."""
    text = ast.unparse(node)
    return text.partition("\n")[0] if isinstance(node, ast.If | ast.For) else " ".join(text.split())


def _function(tree: ast.FunctionDef, function: Callable[..., object]) -> Callable[..., object]:
    """Run the definition among the names of the function's own module, without touching that module."""
    namespace = dict(vars(sys.modules[function.__module__]))
    exec(compile(ast.Module([tree], []), f"<mutant of {tree.name}>", "exec"), namespace)
    return namespace[tree.name]


class _Replace(ast.NodeTransformer):
    """Put something else in the place of one node."""

    def __init__(self, node: ast.AST, new: object) -> None:
        self.node, self.new = node, new

    def visit(self, node: ast.AST) -> object:
        return copy.deepcopy(self.new) if node is self.node else self.generic_visit(node)
