"""docs/papers.md on the site: for each paper, the modules of the library and the lectures that cite its address."""

import ast
import re
from pathlib import Path

from course_tools.publishing.project import lectures

_ADDRESS = re.compile(r"https?://(?:[^\s()<>\"'`]|\([^\s()]*\))+")
_ROW = re.compile(r"^\|.*\[[^\]]+\]\(<?([^)\s>]+(?:\([^)\s]*\)[^)\s>]*)?)>?\) \|$")


def papers_page(root: Path) -> str:
    """Return docs/papers.md with two more columns: the modules whose docstrings cite a paper, the lectures whose text does."""
    built, cited = _by_module(root), _by_lecture(root)
    lines = []
    for line in (root / "docs" / "papers.md").read_text(encoding="utf-8").split("\n"):
        if paper := _ROW.match(line):
            line = f"{line} {', '.join(built.get(paper[1], '–'))} | {' '.join(cited.get(paper[1], '–'))} |"
        elif line.startswith("|"):
            line += " --- | --- |" if set(line) <= set("|- ") else " Built in | Cited in |"
        lines.append(line)
    return "\n".join(lines)


def _by_module(root: Path) -> dict[str, list[str]]:
    """Map each address to links to the files whose docstrings cite it, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for part in ("course_lib", "course_tools/lectures") for path in (root / part).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        documented = (node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
        file = path.relative_to(root)
        link = f"[{'.'.join(file.with_suffix('').parts[1:])}](../{file.as_posix()})"
        for address in _addresses(" ".join(ast.get_docstring(node) or "" for node in documented)):
            found.setdefault(address, []).append(link)
    return found


def _by_lecture(root: Path) -> dict[str, list[str]]:
    """Map each address to links to the lectures whose text cites it."""
    found: dict[str, list[str]] = {}
    for lecture in lectures(root):
        for address in _addresses(lecture.authoring.read_text(encoding="utf-8")):
            found.setdefault(address, []).append(f"[{lecture.number}](../{lecture.name(lecture.unsolved)})")
    return found


def _addresses(text: str) -> set[str]:
    return {address.rstrip(".,;:") for address in _ADDRESS.findall(text)}
