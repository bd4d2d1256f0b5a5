"""HTML of the short texts of verdicts, hints, reports and exams: `code`, **strong** and *emphasized* words."""

import re
from html import escape

_STRONG, _EMPHASIS = (re.compile(rf"(?<![\w*]){mark}(\w(?:[^*\n]{{0,80}}[^*\s])?){mark}(?![\w*])") for mark in (r"\*\*", r"\*"))


def to_html(text: str) -> str:
    """Escape a text, and set words between back-ticks as code, between asterisks in italics, between double asterisks in bold.

    An asterisk between numbers or names, as in "2 * 3" or "a*b*c", and a back-tick without a second one are shown as such.
    """
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(f"<code>{part}</code>" if i % 2 else _emphasized(part) for i, part in enumerate(parts))


def _emphasized(text: str) -> str:
    return _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<b>\1</b>", text))
