"""Attention microscope: HTML pages that run small trained models and show every number of their attention.

A page contains its JavaScript and its weights; it needs no server, kernel or network. The first shows three transformers:
`models.py` holds them in torch, `train.py` trains them. A further room shows the models of another lecture, which trains them:
`microscope_room.py` in its folder. Tests run each page in a browser and compare it with torch.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from course_tools.whole_file import write_whole

__all__ = ["ROOMS", "page", "room_weights", "write"]

ROOMS = {
    "queries": ("12", "Detection with DETR"),
    "decoder": ("17", "The decoder of today"),
    "memory": ("18", "A memory of fixed size"),
}
"""The further rooms: the lecture and the title of each."""
_HERE = Path(__file__).parent


def room_weights(room: str) -> Path:
    """Return the path of the weights of a room."""
    return _HERE / f"{room}.json"


def page(view: str = "reverse", lecture: str | None = None, file: str | None = None) -> str:
    """Return a page as HTML.

    Args:
        view: "reverse" a word, "continue" a text, read a "digit": the first view of the first page; or one of `ROOMS`.
        lecture: address of the lecture, to link back to; None = the page ends with the command that opens it.
        file: the name of the first page, beside which the rooms stand, to link to; None = the page stands alone.

    Raises:
        ValueError: the view is unknown.
    """
    room = view in ROOMS
    stored = (room_weights(view) if room else _HERE / "weights.json").read_text(encoding="utf-8").strip()
    if not room and view not in (views := tuple(json.loads(stored))):
        raise ValueError(f"the microscope has no view {view!r}; it has: {', '.join((*views, *ROOMS))}.")
    number, name = ROOMS[view] if room else ("04", "Self-attention")
    back = [f'<a href="{lecture}" target="_top">← Lecture {number}: {name}</a>'] if lecture else []
    back += [f'<a href="{file}">← Attention microscope</a>'] if room and file else []
    opens = f"<p>Part of lecture {number}, {name}: <code>python3 course.py lab {number}</code> opens it.</p>"
    doors = [f'<a class="door" href="{_beside(file, each)}">{ROOMS[each][1]} →</a>' for each in ROOMS] if file else []
    scripts = (f"{view}.js",) if room else ("transformer.js", "page.js")
    parts = {
        "<!--BACK-->": " · ".join(back),
        "<!--COMMAND-->": "" if lecture else opens,
        "<!--DOORS-->": "".join(doors),
        "/*STYLE*/": _text("page.css"),
        "/*MODELS*/": stored,
        "/*SCRIPT*/": "\n".join(map(_text, ("arithmetic.js", "parts.js", *scripts))),
        'data-view="reverse"': f'data-view="{view}"',
    }
    text = _text(f"{view if room else 'page'}.html")
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def write(path: Path, lectures: Mapping[str, str] | None = None) -> Path:
    """Write all pages: the first to a file, the rooms beside it; create the folders above it, and return its path.

    Args:
        path: the file of the first page.
        lectures: the addresses of the lectures by their numbers, to link back to.

    Raises:
        CannotWrite: the disk is full or read-only.
    """
    lectures = lectures or {}
    write_whole(path, page(lecture=lectures.get("04"), file=path.name))
    for room, (number, _) in ROOMS.items():
        write_whole(path.with_name(_beside(path.name, room)), page(room, lectures.get(number), path.name))
    return path


def _beside(file: str, room: str) -> str:
    return f"{file.removesuffix('.html')}_{room}.html"


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
