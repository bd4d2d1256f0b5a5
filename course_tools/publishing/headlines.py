"""The site's page of headlines: the number for which a paper is known, next to the closest number that this course measures.

The rows are in docs/headlines.toml. Claims come from the executed solutions, scores from the records of the studies.
"""

import re
import tomllib
from pathlib import Path

import nbformat

from course_tools.publishing.claims_table import cell
from course_tools.publishing.companion import decks
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.studies.study_record import read, record_path

ROWS = "docs/headlines.toml"
_HEAD = """# The papers' numbers next to ours

The number for which a paper is known, as one of the decks or the paper itself states it, and the closest that this course
measures. The two are rarely comparable: the last column says why they differ. Claims carry the id under which a lecture
asserts them; scores of a study are means over its seeds, as recorded in [studies.md](studies.md). The papers are in
[papers.md](papers.md), the decks and the parts that are not covered in [companion.md](companion.md).
"""
_COLUMNS = ("Paper or deck", "Its number", "Stated in", "Measured on", "Measured here", "Why they differ")


def headlines_page(root: Path) -> str:
    """Write one table for each lecture, or a sentence if there are no numbers to compare.

    Raises:
        PublishingFailed: a row names a lecture, paper, section of a deck, claim or study that does not exist.
    """
    rows = tomllib.loads((root / ROWS).read_text(encoding="utf-8"))["row"]
    known = lectures(root)
    if unknown := {row["lecture"] for row in rows} - {lecture.number for lecture in known}:
        raise PublishingFailed(f"{ROWS} has rows for lectures that do not exist: {', '.join(sorted(unknown))}")
    links, sections = _links(root), {(deck["key"], section["title"]) for deck in decks(root) for section in deck["sections"]}
    lines = [_HEAD]
    for lecture in known:
        lines += [f"## [{lecture.number} {lecture.title}](../{lecture.name(lecture.unsolved)})", ""]
        made = {claim["id"]: claim for claim in claims(nbformat.read(lecture.solution, as_version=4))}
        own = [_row(row, lecture, links, sections, made) for row in rows if row["lecture"] == lecture.number]
        head = [f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
        lines += [*head, *own, ""] if own else ["Neither its decks nor its papers state a number to compare with.", ""]
    return "\n".join(lines)


def _row(row: dict, lecture: Lecture, links: dict[str, str], sections: set[tuple[str, str]], made: dict[str, dict]) -> str:
    """Format one row; the head of docs/headlines.toml describes its keys."""
    paper, section = row.get("paper"), (row.get("deck"), row.get("section"))
    if "deck" in row and section not in sections:
        raise PublishingFailed(f"{ROWS}: docs/decks.toml lists no section {section[1]!r} of deck {section[0]}")
    if paper and paper not in links:
        raise PublishingFailed(f"{ROWS}: no row of docs/papers.md begins with {paper!r}")
    name = f"[{paper}]({links[paper]})" if paper else f"deck {row['deck']}"
    stated = row.get("stated") or f"{row['deck']}, *{row['section']}*"
    here = [_claim(claim, made) for claim in row.get("claims", [])]
    here += [_score(lecture.root, *study) for study in row.get("studies", [])]
    measured = "<br>".join(map(cell, here)) or "not measured"
    return f"| {' | '.join([name, cell(row['number']), cell(stated), cell(row['measured_on']), measured, cell(row['why'])])} |"


def _claim(name: str, made: dict[str, dict]) -> str:
    if name not in made:
        raise PublishingFailed(f"{ROWS}: no solution makes the claim {name}")
    return f"**{name}** {made[name]['text']}"


def _score(root: Path, study: str, setting: str, score: str) -> str:
    record = read(record_path(root / "authoring" / "studies", study))
    if record is None or setting not in record.names or score not in record.of(setting)[0].scores:
        raise PublishingFailed(f"{ROWS}: no record has {score!r} of {setting!r} in the study {study}")
    return f"study `{study}`, {setting}, {score}: {record.mean(setting, score):.3g}"


def _links(root: Path) -> dict[str, str]:
    """Map the authors and year of each paper in docs/papers.md to its URL."""
    page = (root / "docs" / "papers.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| \[[^\]]+\]\(<?([^\s>]+?)>?\) \|", page, re.MULTILINE))
