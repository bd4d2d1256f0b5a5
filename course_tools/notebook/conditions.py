"""Conditions of a claim, such as "min(positions) - max(zero) >= 0.4": parsed, evaluated on measured values, put in words.

A condition is an expression of named values, numbers, strings and lists with + - * /, comparisons, `and`, `or`, `not`, and the
functions in `FUNCTIONS`. Nothing else of Python is accepted, so that a claim cannot compute what its cell does not show.
"""

import ast
import math
import operator
from collections.abc import Mapping, Sequence
from statistics import mean

FUNCTIONS = {function.__name__: function for function in (abs, all, any, len, max, mean, min, round, sorted, sum)}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_WORDS = {ast.GtE: "at least", ast.LtE: "at most", ast.Gt: "above", ast.Lt: "below", ast.Eq: "equals", ast.NotEq: "other than"}


def names(condition: str) -> set[str]:
    """Return the names of the values that a condition uses.

    Raises:
        ValueError: the condition is not an expression, or contains something that conditions do not have.
    """
    return {node.id for node in ast.walk(_parsed(condition)) if isinstance(node, ast.Name)} - {
        node.func.id for node in ast.walk(_parsed(condition)) if isinstance(node, ast.Call)
    }


def holds(condition: str, values: Mapping[str, object]) -> bool:
    """Return whether a condition holds for these values; with NaN or an infinite number, or a division by 0, it does not.

    Raises:
        ValueError: the condition is malformed, it is no comparison, or the values do not fit, such as a list above a number.
    """
    try:
        found = _value(_parsed(condition), values)
    except ArithmeticError:
        return False
    except TypeError as error:
        raise ValueError(
            f"the condition `{condition}` does not fit its values ({error}); of a list, compare min or max."
        ) from error
    if not isinstance(found, bool):
        raise ValueError(f"the condition `{condition}` is {found!r}; it needs a comparison, such as `{condition} >= 0.9`.")
    return found


def finite(value: object) -> bool:
    """Return whether a value contains neither NaN nor an infinite number, from which nothing could be concluded."""
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def in_words(conditions: Sequence[str]) -> str:
    """Put conditions in words: "gap at most 0.001; share between 0.4 and 0.6"; without the name if there is only one value."""
    used = set().union(*map(names, conditions))
    return "; ".join(_in_words(condition, used) for condition in conditions)


def _in_words(condition: str, used: set[str]) -> str:
    match _parsed(condition):
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            words = f"{_WORDS[type(op)]} {ast.get_source_segment(condition, right)}"
        case ast.Compare(left=low, ops=[ast.LtE(), ast.LtE()], comparators=[left, high]):
            low, high = (ast.get_source_segment(condition, end) for end in (low, high))
            words = f"between {low} and {high}"
        case ast.Name():
            return "yes" if len(used) == 1 else condition
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name()):
            return "no" if len(used) == 1 else condition
        case tree:
            return ast.unparse(tree)
    return words if {ast.unparse(left)} == used else f"{ast.unparse(left)} {words}"


def _parsed(condition: str) -> ast.expr:
    try:
        tree = ast.parse(condition, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"the condition `{condition}` is not an expression: {error.msg}.") from error
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                pass
            case ast.Constant(value=int() | float() | str()) | ast.List() | ast.Compare() | ast.BoolOp() | ast.BinOp():
                pass
            case ast.Name() | ast.UnaryOp() | ast.boolop() | ast.expr_context():
                pass
            case ast.operator() | ast.unaryop() | ast.cmpop() if type(node) in _OPERATORS:
                pass
            case _:
                shown = "" if isinstance(node, ast.operator | ast.unaryop | ast.cmpop) else f" `{ast.unparse(node)}`"
                raise ValueError(
                    f"the condition `{condition}` contains {type(node).__name__}{shown}; it may have names, numbers, strings, "
                    f"lists, + - * /, comparisons, and, or, not, and {', '.join(FUNCTIONS)}. Compute the rest in the cell."
                )
    return tree


def _value(node: ast.expr, values: Mapping[str, object]) -> object:
    """Evaluate a parsed condition."""
    match node:
        case ast.Constant(value=value):
            found = value
        case ast.Name(id=name):
            found = values[name]
        case ast.List(elts=parts):
            found = [_value(part, values) for part in parts]
        case ast.Call(func=ast.Name(id=name), args=args):
            found = FUNCTIONS[name](*(_value(arg, values) for arg in args))
        case ast.UnaryOp(op=op, operand=operand):
            found = _OPERATORS[type(op)](_value(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            found = _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.BoolOp(op=op, values=parts):
            found = (all if isinstance(op, ast.And) else any)(_value(part, values) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [_value(side, values) for side in (left, *rights)]
            found = all(_OPERATORS[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
    if not finite(found):
        raise ArithmeticError
    return found
