"""The evidence on the site: the most surprising findings, every claim, the rivals, the papers' numbers, the studies."""

import re
import tomllib
from pathlib import Path

import nbformat

from course_tools.publishing.claims_table import claims_page, number_in_words
from course_tools.publishing.headlines import headlines_page
from course_tools.publishing.outputs import claims
from course_tools.publishing.project import PublishingFailed, lectures
from course_tools.publishing.readme import between
from course_tools.publishing.rivals_page import rivals_page
from course_tools.publishing.sections import MadeClaims
from course_tools.publishing.studies_page import studies_page

FINDINGS = "docs/findings.toml"
_NUMBER = re.compile(r"\{([\w.:-]+)(?:\|([^{}]+))?\}")
"""A claim's id, a name if it has several values, and how Python formats the value: {04.h|.0%}, {12.y:over_area}."""
_PAGES = """## All of it
- [Every claim](claims.md) with the value that was measured and the condition that would refute it.
- [Rivals and controls](rivals.md): each mechanism against the simplest thing that might do as well, and answers to objections.
- [The papers' numbers](headlines.md) next to the closest that the course measures, and why they differ.
- [Studies](studies.md): the experiments that take longer than a lecture has time for, with every seed.
"""


def evidence_pages(root: Path) -> dict[str, str]:
    """Return the pages of the evidence by their paths on the site.

    Raises:
        PublishingFailed: a row of a list in docs/ names something that no solution or record has.
    """
    claims_of = {
        each.number: (each.title, each.name(each.solution), claims(nbformat.read(each.solution, as_version=4)))
        for each in lectures(root)
    }
    return {
        "docs/evidence.md": _evidence(root),
        "docs/claims.md": claims_page(claims_of),
        "docs/rivals.md": rivals_page(root),
        "docs/headlines.md": headlines_page(root),
        "docs/studies.md": studies_page(root),
    }


def _evidence(root: Path) -> str:
    """Write the first page: docs/evidence.md with the links to the others below the findings."""
    head, end, rest = (root / "docs" / "evidence.md").read_text(encoding="utf-8").partition("<!-- findings:end -->")
    return f"{head}{end}\n\n{_PAGES}{rest}"


def evidence_with(root: Path) -> str:
    """Return the text of docs/evidence.md with its findings written again between their markers."""
    return between((root / "docs" / "evidence.md").read_text(encoding="utf-8"), "findings", findings(root), "docs/evidence.md")


def findings(root: Path) -> str:
    """Write the findings as numbered lists under their headings; each number comes from a claim and links to it.

    Raises:
        PublishingFailed: a finding has no number, or one of a claim that no solution makes.
    """
    made, lines, n = MadeClaims(lectures(root)), [], 0
    for group in tomllib.loads((root / FINDINGS).read_text(encoding="utf-8"))["group"]:
        lines += [f"## {group['title']}", ""]
        for says in group["findings"]:
            n += 1
            try:
                lines.append(f"{n}. {_finding(says, made)}")
            except (KeyError, ValueError) as error:
                raise PublishingFailed(f"{FINDINGS}, {says!r}: {error.args[0]}") from error
        lines.append("")
    return "\n".join(lines)


def _finding(says: str, made: MadeClaims) -> str:
    names = list(dict.fromkeys(name for name, _ in _NUMBER.findall(says)))
    if not names:
        raise ValueError("it contains no number of a claim, such as {04.h}")
    sources = ", ".join(dict.fromkeys(map(made.link, names)))
    return f"{_NUMBER.sub(lambda found: _number(made.value(found[1]), found[2]), says)} ({sources})"


def _number(value: object, how: str | None) -> str:
    if how and isinstance(value, list):  # of several seeds
        return " to ".join(dict.fromkeys(_number(end, how) for end in (min(value), max(value))))
    return format(value, how).replace("%", "\N{NO-BREAK SPACE}%").replace("-", "−") if how else number_in_words(value)
