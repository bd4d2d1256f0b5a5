"""Two similar solutions side by side, with the lines that they share up to names: for the instructor."""

import hashlib
import keyword
import re

from course_tools.bank import exercise
from course_tools.grading.extract.programs import handed_out, is_marked
from course_tools.grading.report.flags import Flag
from course_tools.grading.report.html import Html, block, html, page
from course_tools.grading.report.results import Result

_COMMENT = re.compile(r"\s*#.*")
_NAME = re.compile(r"(?<![.\w])[^\W\d]\w*")
_GIVEN = ("def_", "class_", "import_", "from_")
_SHORTEST = 8
"""Characters of a line, without spaces, below which it is not marked: `else:` is in every solution."""


def similar_page_name(flag: Flag) -> str:
    """Return the file name of the page of two students."""
    return f"{hashlib.sha256(repr(flag.students).encode('utf-8', 'replace')).hexdigest()[:12]}.html"


def similar_page(flag: Flag, pair: tuple[Result, Result]) -> str:
    """Make the page of a flag on two similar solutions."""
    names = [result.student.name for result in pair]
    title = " and ".join(names)
    body = [
        f"<h1>{html(title)}</h1>",
        f'<p class="soft">{html(flag.what)} Marked: lines of their own that are in both, up to names.</p>',
    ]
    body += [f"<h2>{html(id)} {html(exercise(id).title)}</h2>{_beside(id, pair)}" for id in flag.exercises]
    return page(f"Similar solutions: {title}", body)


def _beside(id: str, pair: tuple[Result, Result]) -> Html:
    texts = [result.code.get(id, "") for result in pair]
    forms = [[_form(line) for line in text.split("\n")] for text in texts]
    shared = set(forms[0]) & set(forms[1]) - _given(id) - {""}
    figures = (
        block(text, f"{id}: {result.student.name}", [i for i, form in enumerate(lines) if form in shared])
        for text, lines, result in zip(texts, forms, pair, strict=True)
    )
    return Html(f'<div class="beside">{"".join(map(str, figures))}</div>')


def _given(id: str) -> set[str]:
    """The forms of the lines that every student was given: the signature and docstring of the exercise."""
    item = exercise(id)
    cells = (cell for cell in handed_out(item.lecture) if is_marked(cell, item))
    return {_form(line) for cell in cells for line in cell.source.split("\n")}


def _form(line: str) -> str:
    """A line without spaces and comment, its names replaced by "_"; "" for a signature, and if it is too short."""
    code = _NAME.sub(lambda name: name[0] if keyword.iskeyword(name[0]) else "_", _COMMENT.sub("", line))
    form = re.sub(r"\s+", "", code)
    return form if len(form) >= _SHORTEST and not form.startswith(_GIVEN) else ""
