"""Attention microscope: one HTML page that runs small trained transformers and shows every number of their attention.

The page contains its JavaScript and its weights; it needs no server, kernel or network. `models.py` holds the same models in
torch, `train.py` trains them; a test runs the page in a browser and compares the two.
"""

import json
from pathlib import Path

from course_tools.whole_file import write_whole

__all__ = ["page", "write"]

_HERE = Path(__file__).parent
_COMMAND = "Part of lecture 04, self-attention: <code>python3 course.py lab 04</code>"


def page(view: str = "reverse", lecture: str | None = None) -> str:
    """Return the page as HTML.

    Args:
        view: the first view: "reverse" a word, "continue" a text, or read a "digit".
        lecture: address of lecture 04, to link back to; None = the page names the command that opens it.

    Raises:
        ValueError: the view is unknown.
    """
    stored = (_HERE / "weights.json").read_text(encoding="utf-8").strip()
    if view not in (views := tuple(json.loads(stored))):
        raise ValueError(f"the microscope has no view {view!r}; it has: {', '.join(views)}.")
    scripts = [(_HERE / name).read_text(encoding="utf-8") for name in ("transformer.js", "page.js")]
    back = f'<a href="{lecture}" target="_top">← Lecture 04: self-attention</a>' if lecture else _COMMAND
    parts = {
        "<!--BACK-->": back,
        "/*STYLE*/": (_HERE / "page.css").read_text(encoding="utf-8"),
        "/*MODELS*/": stored,
        "/*SCRIPT*/": "\n".join(scripts),
        'data-view="reverse"': f'data-view="{view}"',
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def write(path: Path, view: str = "reverse", lecture: str | None = None) -> Path:
    """Write the page to a file, create the folders above it, and return its path; raises CannotWrite if the disk is full."""
    write_whole(path, page(view, lecture))
    return path
