"""Claims: a sentence of the lecture with the values that were measured for it, and the conditions that would refute it."""

import html
import os
from collections.abc import Sequence
from typing import Any

from course_tools.checks.inline_markup import to_html
from course_tools.notebook import conditions
from course_tools.notebook.claim_statements import ClaimStatement, statement
from course_tools.notebook.own_functions import own_functions
from course_tools.notebook.progress_record import answer_to
from course_tools.notebook.show import publish

STRICT = "COURSE_STRICT_CLAIMS"
"""With this environment variable a failing claim raises even if a student's function may be the cause: solutions and tests."""

_made: dict[str, dict] = {}


class ClaimFailed(AssertionError):
    """A claim of the lecture did not hold in this run."""


def claim(id: str, /, **values: Any) -> None:
    """State a claim with its measured values, and store it for `ledger`.

    What the claim says, and what must hold, stands in `claims.toml` of its lecture. The output's metadata contains the claim
    under "course_claim": id, text (the sentence with its values), values, holds (the conditions), held. A student who works in
    the notebook also reads the number that they predicted.

    Args:
        id: the lecture and a name, such as "05.m". Running a cell again replaces its claim.
        values: the measured values that the statement names: numbers, tensors, words, bools, lists. A list or tensor of several
            numbers is repeated measurements, shown as a range; a tuple is one value, such as a shape.

    Raises:
        ClaimFailed: a condition does not hold, or a value is not finite. In a student's notebook, if the student's own function
            may be the cause, the output names this function instead, and the notebook goes on.
        ValueError: the statement is missing or malformed, or the values are not those that it names.
    """
    stated = statement(id)
    stated.require(values)
    measured = {name: _plain(value) for name, value in values.items()}
    held = all(map(conditions.finite, measured.values())) and stated.holds_for(
        {name: _listed(value) for name, value in measured.items()}
    )
    shown = {name: in_words(value, share=name in stated.shares) for name, value in measured.items()}
    own = {} if held or os.environ.get(STRICT) else own_functions()
    made = {"id": id, "text": stated.filled(shown), "values": measured, "holds": list(stated.holds), "held": held}
    _made[id] = made
    answer = answer_to(stated.predicted) if stated.predicted else None
    said = f" You said {answer}." if answer else ""
    line = f"{_sign(held)} {id} {made['text']}{said} | {stated.bounds()}"
    publish(
        {"text/html": _box(stated, shown, _repeats(measured, stated.repeated), held, own, said), "text/plain": line},
        {"course_claim": made},
    )
    if not held and not own:
        raise ClaimFailed(line)


def ledger() -> None:
    """Show all claims made in this kernel, with what must hold for them."""
    head = ("", "id", "measured", "must hold")
    rows = [(_sign(made["held"]), made["id"], made["text"], statement(made["id"]).bounds()) for made in _made.values()]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    left = ' style="text-align: left"'
    cells = "".join("<tr>" + "".join(f"<td{left}>{to_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    titles = "".join(f"<th{left}>{title}</th>" if title else "<td></td>" for title in head)
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>"
    publish({"text/html": table, "text/plain": "\n".join(lines)})


def in_words(value: object, *, share: bool = False) -> str:
    """Format a measured value: a number to three digits, a share in per cent, a list as a range, a truth value as yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if share:
        hundredfold = [100 * x for x in value] if isinstance(value, list) else 100 * value
        return f"{in_words(hundredfold)}\N{NO-BREAK SPACE}%"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if isinstance(value, int) or 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    if _repeated(value):
        return " to ".join(dict.fromkeys(map(in_words, (min(value), max(value)))))
    return f"({', '.join(map(in_words, value))})" if isinstance(value, list | tuple) else str(value)


def _box(stated: ClaimStatement, shown: dict[str, str], repeats: str, held: bool, own: dict[str, str], said: str = "") -> str:
    """Write the output: sentence, values in bold; the student's number, and functions if it fails; repeats, bounds, id."""
    marked = {name: f"\N{START OF TEXT}{value}\N{END OF TEXT}" for name, value in shown.items()}
    sentence = to_html(stated.filled(marked))
    sentence = sentence.replace("\N{START OF TEXT}", '<b class="measured">').replace("\N{END OF TEXT}", "</b>")
    small = html.escape(" · ".join(filter(None, (repeats, stated.bounds(), f"{stated.id} {_sign(held)}"))))
    cause = ""
    if own:
        named = " or ".join(f"`{name}` of exercise {exercise}" for exercise, name in own.items())
        cause = (
            f"<div>{to_html(f'This does not hold with your {named}. The notebook goes on; compare with the solution.')}</div>"
        )
    colour = "#1b7f3b" if held else "#c0392b"
    return (
        f'<div style="border-left:4px solid {colour};padding:.3em .8em;max-width:60em"><div>{sentence}{said}</div>{cause}'
        f'<div style="font-size:85%;opacity:.75">{small}</div></div>'
    )


def _repeats(measured: dict[str, Any], of: str) -> str:
    """Say how often the repeated values were measured."""
    counts = dict.fromkeys(str(len(value)) for value in measured.values() if _repeated(value))
    return f"{' and '.join(counts)} {of}" if counts else ""


def _sign(held: bool) -> str:
    return "✓" if held else "✗"


def _repeated(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    )


def _plain(value: Any) -> Any:
    """Convert a value to Python's types: a tensor of one element to its number, others to lists; NumPy numbers to numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
        return value[0] if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], list) else value
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    """Turn tuples into lists, the only sequence that conditions have."""
    return [_listed(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
