"""A solved lecture as a page to read: tasks shown, answers and code of measurements folded, figures in files."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from course_tools.bank import exercise
from course_tools.notebook.predict import folded
from course_tools.notebook.prediction_options import prediction
from course_tools.publishing import diagram_cells
from course_tools.publishing.figure_files import image_of, with_files
from course_tools.publishing.nbgrader_cells import BEGIN, END, for_student
from course_tools.publishing.outputs import tags
from course_tools.publishing.project import Lecture
from course_tools.publishing.sections import headings, site_anchor
from course_tools.publishing.student_time import student_time

FIGURES = "_static/figures"
_LEFT_OUT = {"progress", "ledger"}
_IMPORTS = re.compile(r"\s*(?:import|from)\s")
_SOLUTION = re.compile(rf"^ *{BEGIN}\n(.*?)^ *{END}$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"<div[^>]*><div>(.*?)</div>", re.DOTALL)
"""The sentence of a claim in its output, with the measured values in bold."""
_ASKED = re.compile(r'predict\("([^"]+)"')
_LENS = re.compile(r'srcdoc="[^"]*data-view=&quot;(\w+)&quot;[^"]*"')
"""The microscope that a notebook contains, and its first view; a page of the site shows the site's microscope instead."""
_FACTS = re.compile(
    r"\*\*Prerequisites:\*\*\s+(.+?)\s+\*\*Time:\*\*\s+(.+?)\s+Runs in (.+?memory\.)\s*(.*?)(?=\n\n|\Z)", re.DOTALL
)
"""What a lecture needs, the student's time, the computer's, and what may follow."""
_ROOM = re.compile(r"`(microscope_\w+\.html)`")
"""A further room of the microscope, which a site has beside its first page."""


def page_of(
    notebook: NotebookNode, banner: str, figures: Path, relink: Callable[[str], str], index: Mapping[str, Sequence[str]]
) -> NotebookNode:
    """Convert a solved notebook to a page, in place: each task, its hints, its folded answer.

    Args:
        notebook: a solution, as it is committed.
        banner: Markdown that goes below the first paragraph.
        figures: the folder that its figures are written to, served as `../_static/figures`.
        relink: rewrites the links of a Markdown text.
        index: anchor of a section -> words by which the search should find it.
    """
    cells: list[NotebookNode] = []
    answer = 0
    for cell in diagram_cells.as_svg(notebook.cells):
        if _LEFT_OUT & {*tags(cell)}:
            continue
        if "hints" in tags(cell):  # the notebook has them below the check
            cells.insert(answer, cell)
            continue
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            title = exercise(cell.metadata["exercise"]).title.removeprefix("The ")
            answer = len(cells) + 2
            cells += [new_markdown_cell(f"```{{index}} ! single: {title}\n```"), for_student(cell), _answer(cell)]
        elif cell.cell_type == "markdown" or _fold(cell):
            cells.append(cell)
    for cell in cells:
        if cell.cell_type == "markdown":
            asked = cell.source.partition("\n- **A.**")[0]  # the options stand below, with their explanations
            cell.source = _indexed(relink(asked if "predict" in tags(cell) else cell.source), index)
            cell.source = _ROOM.sub(r'<a href="../\1">\1</a>', cell.source)
            continue
        for output in cell.outputs:
            data = output.get("data", {})
            if "predict" in tags(cell):
                data["text/html"] = folded(prediction(_ASKED.search(cell.source)[1]), texts=True)["text/html"]
            if image := image_of(output):
                data.pop("image/png")
                data["text/html"] = f'<figure style="margin:0">{image}</figure>'
            if "text/html" in data:
                shown = _LENS.sub(r'src="../microscope.html#\1" loading="lazy"', "".join(data["text/html"]))
                data["text/html"] = with_files(shown, figures, f"../{FIGURES}")
    head = cells[0]
    title, about, rest = head.source.split("\n\n", 2)
    rest = _FACTS.sub(r"- **Needs:** \1\n- **Time:** \2\n- **Machine:** \3\n\n\4", rest)
    source = f"{title}\n\n{about}\n\n{banner}\n\n{rest}"
    notebook.cells = [new_markdown_cell(source, metadata=head.metadata, id=head.id), *cells[1:]]
    return notebook


def _indexed(source: str, index: Mapping[str, Sequence[str]]) -> str:
    """Put the words of the index above their headings."""
    for level, heading in headings(source):
        if words := index.get(site_anchor(heading)):
            entries = "\n".join(f"   ! single: {word}" for word in words)
            line = f"{'#' * level} {heading}"
            source = source.replace(line, f"```{{eval-rst}}\n.. index::\n{entries}\n```\n\n{line}", 1)
    return source


def card_of(lecture: Lecture, figures: Path) -> str:
    """Write a card of the landing page: a figure, the title, what the lecture is about, its minutes, what it builds on.

    The figure is the one tagged "cover", or else the first; the sentences are those below the title.
    """
    notebook = nbformat.read(lecture.solution, as_version=4)
    _, about, *_ = head = notebook.cells[0].source.split("\n\n")
    needed = next((part for part in head if part.startswith("**Prerequisites:**")), "").partition("**Time:**")[0]
    needs = ", ".join(re.findall(r"\b\d\d\b", needed))
    time = student_time(lecture)
    line = ", ".join([f"{time.core} min", *([f"{time.further} further"] if time.further else [])])
    line += f" · after {needs}" if needs else ""
    words = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", html.escape(about))
    cells = sorted(
        (cell for cell in diagram_cells.as_svg(notebook.cells) if cell.cell_type == "code"),
        key=lambda cell: "cover" not in tags(cell),
    )
    images = (image for cell in cells for output in cell.outputs if (image := image_of(output)))
    drawn = re.search(r'src="([^"]+)"', with_files(next(images, ""), figures, FIGURES))
    cover = f'<img src="{drawn[1]}" alt="" loading="lazy">' if drawn else ""
    title = f"{lecture.number} · {html.escape(lecture.title)}"
    link = f'<a href="lectures/{lecture.stem}.html">{cover}<b>{title}</b></a>'
    return f"<li>{link}<p>{words}</p><small>{line}</small></li>"


def _answer(cell: NotebookNode) -> NotebookNode:
    """Return what a solution writes in place of the stub, folded."""
    code = "\n\n".join(dedent(part).strip() for part in _SOLUTION.findall(cell.source))
    prompt = _prompt(f"Answer to {cell.metadata['exercise']}")
    return new_code_cell(code, metadata={"tags": ["hide-input"], "mystnb": prompt})


def _fold(cell: NotebookNode) -> bool:
    """Tag the parts of a code cell that the page folds or leaves out; return whether anything is left to show."""
    graded = "nbgrader" in cell.metadata and cell.metadata["nbgrader"]["grade_id"].removeprefix("check-").replace("-", ".")
    if graded and exercise(graded).training is None:  # "right" is all that it says
        return False
    claims = [output for output in cell.outputs if "course_claim" in output.get("metadata", {})]
    for output in claims:
        output.data["text/html"] = _claim_line(output.metadata["course_claim"]["id"], "".join(output.data["text/html"]))
    hidden, prompt = "", ""
    if graded or "predict" in tags(cell):
        hidden = "remove-input"
    elif cell.source.startswith("suspect = check("):
        hidden, prompt = "hide-cell", "What the check says"
    elif claims and len(claims) == len(cell.outputs):
        hidden, prompt = "hide-input", "How it was measured"
        cell.metadata["tags"] = [*tags(cell), "claim"]
    elif len(cell.source) > 200 and all(
        _IMPORTS.match(line) for line in cell.source.splitlines() if line and line[0] not in ' )#"S'
    ):
        hidden, prompt = "hide-input", "Imports"
    if hidden:
        cell.metadata["tags"] = [*tags(cell), hidden]
        cell.metadata["mystnb"] = _prompt(prompt)
    return True


def _prompt(words: str) -> dict[str, str]:
    return {"code_prompt_show": words, "code_prompt_hide": words}


def _claim_line(id: str, shown: str) -> str:
    """Write a claim as one line: its sentence, and its id, which links to the conditions on the page of claims."""
    link = f'<a href="../docs/claims.html" title="What must hold: all claims">claim {id}</a>'
    return f'<p class="claim">{_SENTENCE.match(shown)[1]} {link}</p>'
