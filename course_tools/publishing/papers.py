"""The column "Built in" of docs/papers.md: for each paper, the modules of library and lectures whose docstrings cite it."""

import ast
import re
from pathlib import Path

_ADDRESS = re.compile(r"https?://(?:[^\s()<>\"'`]|\([^\s()]*\))+")
_LINK = re.compile(r"\[[^\]]+\]\(<?([^)\s>]+(?:\([^)\s]*\)[^)\s>]*)?)>?\)")
_MODULE = re.compile(r"^course_lib/|^course_tools/lectures/")
_BUILT_IN = 3
"""The index of the column in a row `| Authors | Title | Link | Built in | Lectures |`."""


def papers_page(root: Path) -> str:
    """Return the text of docs/papers.md with its column "Built in" rewritten; rows of uncited papers are unchanged.

    Args:
        root: the folder of the course.
    """
    cited = _cited(root)
    lines = (root / "docs" / "papers.md").read_text(encoding="utf-8").split("\n")
    return "\n".join(_rewritten(line, cited) for line in lines)


def _rewritten(line: str, cited: dict[str, list[str]]) -> str:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    link = _LINK.fullmatch(cells[_BUILT_IN - 1]) if line.startswith("|") and len(cells) > _BUILT_IN else None
    if link is None or link[1] not in cited:
        return line
    names = [(_MODULE.sub("", name).removesuffix(".py").replace("/", "."), name) for name in cited[link[1]]]
    cells[_BUILT_IN] = ", ".join(f"[{short}](../{name})" for short, name in names)
    return f"| {' | '.join(cells)} |"


def _cited(root: Path) -> dict[str, list[str]]:
    """Map each paper's URL to the files that cite it, as paths from the root, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for part in ("course_lib", "course_tools/lectures") for path in (root / part).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        documented = (node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
        texts = " ".join(ast.get_docstring(node) or "" for node in documented)
        for address in {address.rstrip(".,;:") for address in _ADDRESS.findall(texts)}:
            found.setdefault(address, []).append(path.relative_to(root).as_posix())
    return found
