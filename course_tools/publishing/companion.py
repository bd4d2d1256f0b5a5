"""docs/companion.md: section of a deck → section of a lecture → symbol of the library.

The rows come from the cell tagged `companion` in each lecture, a table `| Deck | Section of the deck | Here | Library |`; the
list of all sections is docs/decks.toml.
"""

import difflib
import re
import tomllib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import jupytext

from course_tools.publishing.claims_table import cell
from course_tools.publishing.outputs import tags
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.publishing.sections import MadeClaims, anchor

_HEAD = ("| Section of the deck | Lecture | Measured | Library |", "| --- | --- | --- | --- |")


@dataclass(frozen=True)
class Row:
    """One row of a companion table: a deck's section, the lecture's section that follows it, and the library's symbols."""

    lecture: Lecture
    deck: str
    section: str
    here: str
    symbols: tuple[str, ...]


def rows(lecture: Lecture) -> list[Row]:
    """Read the companion table of a lecture.

    Raises:
        PublishingFailed: a row does not have four cells, or names a section that the lecture does not have.
    """
    cells = jupytext.reads(lecture.authoring.read_text(encoding="utf-8"), fmt="py:percent").cells
    prose = [line for c in cells if c.cell_type == "markdown" for line in c.source.splitlines()]
    headings = {line.lstrip("# ").strip() for line in prose if line.startswith("##")}
    found = []
    for line in (line for c in cells if "companion" in tags(c) for line in c.source.splitlines()):
        parts = [part.strip().replace("\\|", "|") for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not parts or parts[0] in ("Deck", "") or set(parts[0]) <= set(":- "):
            continue
        if len(parts) != 4:
            raise PublishingFailed(f"{lecture.source_name}: a companion row has four cells, this one has {len(parts)}: {line}")
        deck, section, here, library = parts
        if here not in headings:
            raise PublishingFailed(f"{lecture.source_name}: the companion names a section {here!r}; {_near(here, headings)}")
        found.append(Row(lecture, deck, section, here, tuple(re.findall(r"`(course_(?:lib|tools)[\w.]*)`", library))))
    return found


def companion(root: Path) -> str:
    """Return the text of docs/companion.md.

    Raises:
        PublishingFailed: a lecture names a deck or a section that docs/decks.toml does not list, or that list a claim that no
            solution makes.
    """
    placed, made = placed_rows(root), MadeClaims(lectures(root))
    lines = [
        "# Companion to the decks",
        "",
        "Where each section of the five decks is treated: the section of a lecture, the claims that measure what the deck",
        "states, with the id that links to them in the solved lecture, and the code in the library. Below a section stand",
        "the parts that no lecture covers, with the reason, and errors on its slides. `course build` writes this file from the",
        "companion tables of the lectures and from docs/decks.toml.",
    ]
    covering = {row.lecture.number for found in placed.values() for row in found}
    if beyond := [f"{each.number} {each.title}" for each in lectures(root) if each.number not in covering]:
        lines += ["", f"Beyond the decks: {', '.join(beyond)}."]
    for deck in decks(root):
        lines += ["", f"## {deck['key']} · {deck['title']}", "", *_HEAD]
        for section in deck["sections"]:
            lines += _lines(section, placed.get((deck["key"], section["title"]), []), made)
    return "\n".join(lines) + "\n"


def unplaced(root: Path) -> list[str]:
    """Name the sections whose lecture exists but that no lecture's companion table contains."""
    placed, here = placed_rows(root), {lecture.number for lecture in lectures(root)}
    return [
        f"{deck['key']}: {section['title']} (lecture {section['lecture']})"
        for deck in decks(root)
        for section in deck["sections"]
        if section.get("lecture") in here and (deck["key"], section["title"]) not in placed
    ]


def resolve(symbol: str) -> object:
    """Import the object of a dotted name such as `course_lib.attention.attend`.

    Raises:
        LookupError: there is no such module, function or class.
    """
    names = symbol.split(".")
    for n in range(len(names), 0, -1):
        try:
            found: object = import_module(".".join(names[:n]))
        except ModuleNotFoundError:
            continue
        for name in names[n:]:
            if not hasattr(found, name):
                raise LookupError(f"{symbol}: {'.'.join(names[:n])} has no {name}")
            found = getattr(found, name)
        return found
    raise LookupError(f"{symbol}: there is no such module")


def decks(root: Path) -> list[dict]:
    """Return the decks of docs/decks.toml, each with its sections."""
    return tomllib.loads((root / "docs" / "decks.toml").read_text(encoding="utf-8"))["deck"]


def placed_rows(root: Path) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of all companion tables by deck and section.

    Raises:
        PublishingFailed: a lecture names a section that docs/decks.toml does not list.
    """
    known = {(deck["key"], section["title"]) for deck in decks(root) for section in deck["sections"]}
    placed: dict[tuple[str, str], list[Row]] = {}
    for lecture in lectures(root):
        for row in rows(lecture):
            if (row.deck, row.section) not in known:
                near = _near(row.section, {title for key, title in known if key == row.deck})
                wrong = f"docs/decks.toml lists no section {row.section!r} of deck {row.deck}"
                raise PublishingFailed(f"{lecture.source_name}: {wrong}; {near}")
            placed.setdefault((row.deck, row.section), []).append(row)
    return placed


def _lines(section: dict, placed: list[Row], made: MadeClaims) -> list[str]:
    title = cell(section["title"])
    try:
        measured = "<br>".join(map(made.sentence, section.get("claims", [])))
    except KeyError as error:
        raise PublishingFailed(f"docs/decks.toml, {section['title']!r}: {error.args[0]}") from error
    if not placed:
        state = section.get("note") or f"*still to come: lecture {section['lecture']}*"
        return [_row(title, cell(state), measured, "")]
    lines = []
    for i, row in enumerate(placed):
        address = f"../{row.lecture.name(row.lecture.unsolved)}#{anchor(row.here)}"
        words = f"[{row.lecture.number} · {cell(row.here)}]({address})"
        first, symbols = i == 0, ", ".join(f"`{symbol}`" for symbol in row.symbols)
        lines.append(_row(title if first else "", words, measured if first else "", symbols))
    return lines + remarks(section)


def remarks(section: dict) -> list[str]:
    """Return the rows below a section of a deck: what of it no lecture covers, and why; what on its slides is wrong."""
    found = {"Not covered": section.get("not_covered"), "Erratum": section.get("erratum")}
    return [_row("", f"*{name}:* {cell(text)}", "", "") for name, text in found.items() if text]


def _row(*cells: str) -> str:
    return "|" + "|".join(f" {each} " if each else " " for each in cells) + "|"


def _near(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.3)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has: {', '.join(sorted(names)) or 'none'}."
