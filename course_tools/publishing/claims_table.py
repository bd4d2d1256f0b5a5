"""Tables of claims: one for the README, from the outputs of the committed solutions, and one for the terminal."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from course_tools.publishing.project import PublishingFailed

BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"


def readme_with(claims_of: dict[str, tuple[str, str, list[dict]]], root: Path) -> str:
    """Give the README's text with fresh tables of claims, one a lecture, between its markers.

    Args:
        claims_of: by lecture number, its title, the address of its notebook from the root, and its claims.
        root: the folder of the course.

    Raises:
        PublishingFailed: the README lacks a marker.
    """
    text = (root / "README.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PublishingFailed(f"README.md: the markers {BEGIN} and {END} are missing; the table of claims goes between them.")
    tables = [_folded(number, *shown) for number, shown in claims_of.items()]
    return before + begin + "\n" + "\n\n".join(tables) + "\n" + end + after


def _folded(number: str, title: str, address: str, claims: list[dict]) -> str:
    """Lay out the claims of one lecture as a table that opens at a click."""
    rows = [(cell(c["text"]), cell(number_in_words(c["value"])), cell(c["threshold"])) for c in claims]
    count = "1 claim" if len(claims) == 1 else f"{len(claims)} claims"
    head = f"<details><summary>{number} {title}: {count}</summary>\n\n[{address}]({address})\n"
    return "\n".join(
        [head, _row("Claim", "Measured", "Threshold"), _row(*["---"] * 3), *(_row(*row) for row in rows), "\n</details>"]
    )


def cell(text: object) -> str:
    """Make a text fit into one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def number_in_words(value: object) -> str:
    """Show a measured value: four digits of a float, everything else as it is, long lists shortened."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        inside = ", ".join(number_in_words(item) for item in value[:8])
        return f"[{inside}{', …' if len(value) > 8 else ''}]"
    return str(value)


def json_value(value: object) -> object:
    """Make a measured value fit for JSON: what JSON cannot hold, NaN among it, becomes its text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Set rows of text in columns; the first row is the head."""
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * min(width, 60) for width in widths))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
