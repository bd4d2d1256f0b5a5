"""Claims: a sentence of the lecture with the values that were measured for it, and the conditions that would refute it."""

import html
import os
from collections.abc import Iterable, Mapping
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
            numbers is repeated measurements, shown as a range.

    Raises:
        ClaimFailed: a condition does not hold, or a value is not finite. In a student's notebook, if the student's own function
            may be the cause, the output names this function instead, and the notebook goes on.
        ValueError: the statement is missing or malformed, or the values are not those that it names.
    """
    made = measured(id, values)
    _made[id] = made
    own = {} if made["held"] or os.environ.get(STRICT) else own_functions()
    predicted = statement(id).predicted
    shown = output_of(made, own, answer_to(predicted) if predicted else None)
    publish(shown, {"course_claim": made})
    if not made["held"] and not own:
        raise ClaimFailed(shown["text/plain"])


def measured(id: str, values: Mapping[str, Any]) -> dict:
    """Compare the values of a claim with its statement: id, text, values, holds, held."""
    stated = statement(id)
    stated.require(values)
    plain = {name: _plain(value) for name, value in values.items()}
    held = all(map(conditions.finite, plain.values())) and stated.holds_for(plain)
    return {"id": id, "text": stated.filled(_shown(stated, plain)), "values": plain, "holds": list(stated.holds), "held": held}


def output_of(made: dict, own: dict[str, str] | None = None, answer: str | None = None) -> dict[str, str]:
    """Write the output of a claim: the sentence, values in bold; the student's number, and functions if it fails; bounds, id.

    Args:
        made: what `measured` returns.
        own: the exercises whose functions may be the cause, with the name of each.
        answer: what the student predicted.
    """
    stated, held = statement(made["id"]), made["held"]
    said = f" You said {answer}." if answer else ""
    marked = {name: f"\N{START OF TEXT}{value}\N{END OF TEXT}" for name, value in _shown(stated, made["values"]).items()}
    sentence = to_html(stated.filled(marked))
    sentence = sentence.replace("\N{START OF TEXT}", '<b class="measured">').replace("\N{END OF TEXT}", "</b>")
    repeats = _repeats(stated, made["values"])
    small = html.escape(" · ".join(filter(None, (repeats, stated.bounds(), f"{stated.id} {_sign(held)}"))))
    cause = ""
    if own:
        named = " or ".join(f"`{name}` of exercise {exercise}" for exercise, name in own.items())
        cause = (
            f"<div>{to_html(f'This does not hold with your {named}. The notebook goes on; compare with the solution.')}</div>"
        )
    box = (
        f'<div style="border-left:4px solid {"#1b7f3b" if held else "#c0392b"};padding:.3em .8em;max-width:60em">'
        f'<div>{sentence}{said}</div>{cause}<div style="font-size:85%;opacity:.75">{small}</div></div>'
    )
    return {"text/html": box, "text/plain": f"{_sign(held)} {made['id']} {made['text']}{said} | {stated.bounds()}"}


def ledger() -> None:
    """Show all claims made in this kernel, with what must hold for them."""
    publish(table_of(_made.values()))


def table_of(claims: Iterable[dict]) -> dict[str, str]:
    """Write the output of `ledger` for these claims."""
    head = ("", "id", "measured", "must hold")
    rows = [(_sign(made["held"]), made["id"], made["text"], statement(made["id"]).bounds()) for made in claims]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    left = ' style="text-align: left"'
    cells = "".join("<tr>" + "".join(f"<td{left}>{to_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    titles = "".join(f"<th{left}>{title}</th>" if title else "<td></td>" for title in head)
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{cells}</tbody></table>"
    return {"text/html": table, "text/plain": "\n".join(lines)}


def in_words(value: object, form: str = "") -> str:
    """Format a measured value: a number to three digits, a list as a range, a truth value as yes or no.

    With the form "%", a share is in per cent; with "each", all numbers of a list are given.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if form == "%":
        hundredfold = [100 * x for x in value] if isinstance(value, list) else 100 * value
        return f"{in_words(hundredfold)}\N{NO-BREAK SPACE}%"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if isinstance(value, int) or 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    if _repeated(value) and form != "each":
        return " to ".join(dict.fromkeys(map(in_words, (min(value), max(value)))))
    return f"({', '.join(map(in_words, value))})" if isinstance(value, list) else str(value)


def _shown(stated: ClaimStatement, plain: dict[str, Any]) -> dict[str, str]:
    return {name: in_words(value, stated.forms.get(name, "")) for name, value in plain.items()}


def _repeats(stated: ClaimStatement, plain: dict[str, Any]) -> str:
    """Say how often the repeated values were measured, in an order that does not depend on that of the values."""
    counts = {len(value) for name, value in plain.items() if _repeated(value) and stated.forms.get(name) != "each"}
    return f"{' and '.join(map(str, sorted(counts)))} {stated.repeated}" if counts else ""


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
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
