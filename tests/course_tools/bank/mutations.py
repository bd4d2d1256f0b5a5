"""The kinds of small mistakes that the mutator makes: what may come in the place of one node of a syntax tree."""

import ast
import itertools
from collections.abc import Iterator

ARITHMETIC = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Div,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
}
COUSINS = {
    "tanh": ("sigmoid", "relu"),
    "sigmoid": ("tanh",),
    "softmax": ("log_softmax", "sigmoid"),
    "sum": ("mean", "max"),
    "prod": ("sum", "mean"),
    "mean": ("sum",),
    "any": ("all",),
    "all": ("any",),
    "sqrt": ("square", "exp"),
    "stack": ("cat",),
    "min": ("max",),
    "max": ("min",),
}
IN_PLACE = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_", ast.Pow: "pow_"}
NON_COMMUTATIVE = (ast.Sub, ast.Div, ast.MatMult, ast.Mod, ast.FloorDiv, ast.Pow)

Change = tuple[str, list[ast.stmt] | ast.expr | ast.keyword | None]
"""What kind of mistake, and what comes in the node's place; None removes it."""


def changes(node: ast.AST, names: list[str]) -> Iterator[Change]:
    """Return every mistake to make at this node; `names` are the variables that could be taken for each other."""
    match node:
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.UnaryOp():
            yield "drop sign", node.operand
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in COMPARISONS.get(type(op), ()):
                yield "comparison", ast.Compare(left, [other()], [right])
            yield "swap sides", ast.Compare(right, [op], [left])
        case ast.Constant(value=value):
            yield from _of_constant(value)
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute(value=value, attr=attribute, ctx=ast.Load()):
            yield "drop attribute", value
            for cousin in COUSINS.get(attribute, ()):
                yield "cousin", ast.Attribute(value, cousin, ast.Load())
        case ast.Subscript(value=value, ctx=ast.Load()):
            yield "drop index", value
        case ast.Slice(lower=lower, upper=upper):
            yield "open slice", ast.Slice(None, None)
            yield "swap slice", ast.Slice(upper, lower)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for i in range(len(elements) - 1):
                swapped = [*elements[:i], elements[i + 1], elements[i], *elements[i + 2 :]]
                yield "swap elements", type(node)(swapped, node.ctx)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "swap branches", ast.IfExp(test, orelse, body)
            yield "always", body
            yield "never", orelse
        case ast.Name(id=name, ctx=ast.Load()) if name in names:
            yield "detach", ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])
            yield "negate", ast.UnaryOp(ast.Invert(), node)
            for other in names:
                yield "other name", ast.Name(other, ast.Load())
        case ast.If(test=test, body=body, orelse=orelse):
            yield "swap branches", [ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)]
            yield "always", body
            yield "never", orelse or [ast.Pass()]
        case ast.Assign() | ast.Expr() | ast.For() | ast.Raise() | ast.AugAssign():
            yield "remove statement", [ast.Pass()]
        case ast.Return():
            yield "return nothing", [ast.Return(None)]


def _of_operation(node: ast.BinOp) -> Iterator[Change]:
    left, op, right = node.left, node.op, node.right
    for other in ARITHMETIC.get(type(op), ()):
        yield "operator", ast.BinOp(left, other(), right)
    yield "drop right", left
    yield "drop left", right
    if isinstance(op, NON_COMMUTATIVE):
        yield "swap operands", ast.BinOp(right, op, left)
    if isinstance(left, ast.Name) and type(op) in IN_PLACE:
        yield "in place", ast.Call(ast.Attribute(left, IN_PLACE[type(op)], ast.Load()), [right], [])


def _of_constant(value: object) -> Iterator[Change]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield from (("constant", _number(other)) for other in (value + 1, value - 1))
    elif isinstance(value, float):
        yield from (("constant", _number(other)) for other in (value + 1.0, value - 1.0))
    elif isinstance(value, str):
        for pattern in _patterns(value):
            yield "pattern", ast.Constant(pattern)


def _number(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _patterns(text: str) -> Iterator[str]:
    """Swap neighbouring axes of an einops or einsum pattern, on either side of its arrow."""
    tokens = text.replace("(", "( ").replace(")", " )").split()
    for i, (one, other) in enumerate(itertools.pairwise(tokens)):
        if one.isidentifier() and other.isidentifier():
            swapped = [*tokens[:i], other, one, *tokens[i + 2 :]]
            yield " ".join(swapped).replace("( ", "(").replace(" )", ")")


def _of_call(node: ast.Call) -> Iterator[Change]:
    function, arguments, keywords = node.func, node.args, node.keywords
    if isinstance(function, ast.Attribute):
        yield "drop call", function.value
    for argument in arguments:
        if not isinstance(argument, ast.Starred):
            yield "drop call", argument
    for i in range(len(arguments) - 1):
        swapped = [*arguments[:i], arguments[i + 1], arguments[i], *arguments[i + 2 :]]
        yield "swap arguments", ast.Call(function, swapped, keywords)
    for i in range(len(arguments)):
        yield "drop argument", ast.Call(function, arguments[:i] + arguments[i + 1 :], keywords)
    for keyword in keywords:
        yield "drop keyword", ast.Call(function, arguments, [k for k in keywords if k is not keyword])
        for cousin in COUSINS.get(keyword.arg, ()):
            others = [ast.keyword(cousin, k.value) if k is keyword else k for k in keywords]
            yield "cousin", ast.Call(function, arguments, others)
