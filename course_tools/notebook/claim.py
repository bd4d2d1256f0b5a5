"""Claims: a statement of the lecture, the measured value that supports it, and the threshold that would refute it."""

import html
import math
import textwrap
from typing import Any, NamedTuple

from course_tools.notebook.show import publish

Number = int | float


class ClaimFailed(AssertionError):
    """A claim of the lecture did not hold in this run."""


class MeasuredClaim(NamedTuple):
    """One measured claim. `threshold` is in words, such as "at least 0.9"."""

    id: str
    text: str
    value: Any
    threshold: str
    holds: bool


_made: dict[str, MeasuredClaim] = {}
_WIDTH, _INDENT, _ROOM_FOR_A_NUMBER = 94, " " * 7, 12
"""JupyterLab breaks lines longer than about 95 characters in the middle of a word."""


def claim(
    id: str,
    text: str,
    value: Any,
    *,
    at_least: Number | None = None,
    at_most: Number | None = None,
    between: tuple[Number, Number] | None = None,
    equals: Any = None,
) -> None:
    """State a claim, show the measured value and the threshold, and store it for `ledger`.

    The output is `✓ 04.a it finds the key: measured 0.97, at least 0.9`; a long line is broken between words. The value, which
    differs from machine to machine, is also in the output's metadata under "course_claim"; nbval ignores it in the line
    (`tests/nbval_sanitize.cfg`).

    Args:
        id: the lecture and a letter, such as "04.a". Running a cell again replaces its claim.
        text: the claim in words.
        value: the measured value: a number or a tensor with one element; for `equals` also a word, a bool or a list.
        at_least: holds where value ≥ at_least.
        at_most: holds where value ≤ at_most.
        between: (low, high), holds where low ≤ value ≤ high.
        equals: holds where value == equals, exactly.

    Raises:
        ClaimFailed: the claim does not hold, or the value is not finite.
        TypeError: a bound is given, but the value is not a single number.
        ValueError: not exactly one threshold is given, the text is empty, or another claim has this id.
    """
    given = {"at_least": at_least, "at_most": at_most, "between": between, "equals": equals}
    given = {name: threshold for name, threshold in given.items() if threshold is not None}
    if len(given) != 1:
        raise ValueError(f"claim {id} needs exactly one of at_least, at_most, between, equals; got {list(given) or 'none'}.")
    text = text.strip()
    if not text or not id.strip():
        raise ValueError("a claim needs an id and a text.")
    if id in _made and _made[id].text != text:
        raise ValueError(f"the id {id} already belongs to another claim: {_made[id].text!r}.")
    (kind, threshold), value = next(iter(given.items())), _plain(value)
    made = MeasuredClaim(id, text, value, _in_words(kind, threshold), _holds(kind, value, _plain(threshold)))
    _made[id] = made
    begins, ends = f"{'✓' if made.holds else '✗'} {id} {text}:", f"measured {_number(value)}, {made.threshold}"
    publish({"text/plain": _fitted(begins, ends, made.threshold)}, {"course_claim": made._asdict()})
    if not made.holds:
        raise ClaimFailed(f"{begins} {ends}")


def ledger() -> None:
    """Show all claims made in this kernel, with their measured values."""
    head = ("", "id", "claim", "measured", "threshold")
    rows = [("✓" if c.holds else "✗", c.id, c.text, _number(c.value), c.threshold) for c in _made.values()]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    left = ' style="text-align: left"'
    cells = "".join("<tr>" + "".join(f"<td{left}>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    titles = "".join(f"<th{left}>{title}</th>" if title else "<td></td>" for title in head)
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>"
    publish({"text/html": table, "text/plain": "\n".join(lines)})


def _fitted(begins: str, ends: str, threshold: str) -> str:
    """Break a long line between words, at a position that is independent of the measured value, which nbval ignores."""
    if len(f"{begins} measured {threshold}") + _ROOM_FOR_A_NUMBER <= _WIDTH:
        return f"{begins} {ends}"
    return "\n".join([*textwrap.wrap(begins, _WIDTH, subsequent_indent=_INDENT), f"{_INDENT}{ends}"])


def _holds(kind: str, value: Any, threshold: Any) -> bool:
    if isinstance(value, Number) and not math.isfinite(value):
        return False
    if kind == "equals":
        return value == threshold
    if not isinstance(value, Number):
        raise TypeError(f"{kind} needs a single number, got {value!r}.")
    if kind == "between":
        return threshold[0] <= value <= threshold[1]
    return value >= threshold if kind == "at_least" else value <= threshold


def _plain(value: Any) -> Any:
    """Convert a value to JSON types: tensors and NumPy numbers to Python numbers, tuples to lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _in_words(kind: str, threshold: Any) -> str:
    if kind == "between":
        return f"between {_number(threshold[0])} and {_number(threshold[1])}"
    return f"{kind.replace('_', ' ')} {_number(threshold)}"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
