"""Attention microscope: one HTML page that runs small trained transformers and shows every number of their attention.

The page contains its JavaScript and its weights; it needs no server, kernel or network. `models.py` holds the same models in
torch, `train.py` trains them; a test runs the page in a browser and compares the two.
"""

import json
from pathlib import Path

from course_tools.whole_file import write_whole

__all__ = ["page", "write"]

_HERE = Path(__file__).parent


def page(view: str = "reverse") -> str:
    """Return the page as HTML.

    Args:
        view: the first view: "reverse" a word, "continue" a text, or read a "digit".

    Raises:
        ValueError: the view is unknown.
    """
    stored = (_HERE / "weights.json").read_text(encoding="utf-8").strip()
    if view not in (views := tuple(json.loads(stored))):
        raise ValueError(f"the microscope has no view {view!r}; it has: {', '.join(views)}.")
    scripts = [(_HERE / name).read_text(encoding="utf-8") for name in ("transformer.js", "page.js")]
    parts = {
        "/*STYLE*/": (_HERE / "page.css").read_text(encoding="utf-8"),
        "/*MODELS*/": stored,
        "/*SCRIPT*/": "\n".join(scripts),
        'data-view="reverse"': f'data-view="{view}"',
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def write(path: Path, view: str = "reverse") -> Path:
    """Write the page to a file, create the folders above it, and return its path; raises CannotWrite if the disk is full."""
    write_whole(path, page(view))
    return path
