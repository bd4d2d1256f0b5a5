"""Tables of the lectures' claims and measured values: the site's page of claims, and the table that `course run` prints."""

import json
from collections.abc import Iterable, Sequence

from course_tools.notebook import conditions

_HEAD = """# Claims

What each lecture claims, and what was measured when its solution was built. A claim is asserted whenever its lecture runs,
so a solution with a failing claim is not built.
"""


def claims_page(claims_of: dict[str, tuple[str, str, list[dict]]]) -> str:
    """Return the page of the claims: one table for each lecture.

    Args:
        claims_of: for each lecture number, the title, the path of the notebook from the root, and the claims.
    """
    return "\n".join([_HEAD, *(_section(number, *shown) for number, shown in claims_of.items())])


def _section(number: str, title: str, address: str, claims: list[dict]) -> str:
    """Lay out the claims of one lecture."""
    rows = [(c["id"], cell(c["text"]), cell(must_hold(c))) for c in claims]
    table = [("Id", "Measured", "Must hold"), ("---",) * 3, *rows]
    return "\n".join([f"## [{number} {title}](../{address})\n", *(_row(*row) for row in table), ""])


def must_hold(claim: dict) -> str:
    """Put the conditions of a claim in words."""
    return conditions.in_words(claim["holds"])


def cell(text: object) -> str:
    """Format a text as one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def number_in_words(value: object) -> str:
    """Format a measured value: a float to four digits, long lists shortened, everything else unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        inside = ", ".join(number_in_words(item) for item in value[:8])
        return f"[{inside}{', …' if len(value) > 8 else ''}]"
    return str(value)


def json_value(value: object) -> object:
    """Convert a measured value for JSON: what JSON cannot represent, such as NaN, becomes text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Align rows of text in columns; the first row is the header."""
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * min(width, 60) for width in widths))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
