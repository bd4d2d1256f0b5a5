"""Diagrams in the notebooks, each an output of a one-line cell: a PNG, which every viewer shows.

Code hosts drop images with data addresses and SVG from Markdown cells, several viewers drop attachments, and a file beside the
notebook is lost when the notebook is copied. The site and the slides show the SVG, which follows the colour scheme.
"""

import base64
import hashlib
import io
import re
from collections.abc import Iterable

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from course_tools.checks.inline_markup import to_html
from course_tools.notebook import diagrams
from course_tools.notebook.diagrams import Diagram
from course_tools.publishing.browser import chromium
from course_tools.publishing.outputs import tags
from course_tools.publishing.project import PublishingFailed

TAG = "diagram"
_NAMED = re.compile(r"\s*^!\[\]\(diagram:(\w+)\)\s*\Z", re.MULTILINE)
_COLOURS = 32


def split(source: str) -> tuple[str, list[NotebookNode]]:
    """Take the diagram, `![](diagram:multi_head)`, from the end of a Markdown cell; return the rest, and a cell that draws it.

    Raises:
        ValueError: there is no diagram of this name, or text follows it.
    """
    found = _NAMED.search(source)
    prose = source[: found.start()] if found else source
    if "](diagram:" in prose:
        raise ValueError("a diagram must be the last line of its Markdown cell, alone")
    if found is None:
        return source, []
    if _draw(found[1]) is None:
        raise ValueError(f"there is no diagram {found[1]!r} in course_tools.notebook.diagrams")
    call = f"from course_tools.notebook import diagrams; diagrams.{found[1]}()"
    return prose, [new_code_cell(call, metadata={"tags": [TAG], "jupyter": {"source_hidden": True}})]


def fill(notebook: NotebookNode, earlier: Iterable[NotebookNode]) -> None:
    """Write the outputs of the diagrams' cells; a PNG is taken from an earlier notebook if it shows the same drawing.

    Raises:
        PublishingFailed: a diagram is new or has changed, and there is no Chromium to draw it.
    """
    cells = [(cell, _diagram(cell)) for cell in notebook.cells if TAG in tags(cell)]
    known = {
        output.metadata["image/png"]["svg"]: output.data["image/png"]
        for each in (earlier if cells else ())
        for cell in each.cells
        if TAG in tags(cell)
        for output in cell.outputs
        if "svg" in output.get("metadata", {}).get("image/png", {})
    }
    changed = [diagram for _, diagram in cells if _digest(diagram) not in known]
    known |= {_digest(diagram): png for diagram, png in zip(changed, _drawn(changed), strict=True)}
    for cell, diagram in cells:
        about = {"alt": diagram.words(), "width": diagrams.drawing.WIDTH, "svg": _digest(diagram)}
        data = {"image/png": known[_digest(diagram)], "text/plain": diagram.words()}
        caption = f'<figcaption class="course-caption"><em>{to_html(diagram.words())}</em></figcaption>'
        cell.outputs = [
            new_output("display_data", data, metadata={"image/png": about}),
            new_output("display_data", {"text/html": caption, "text/plain": ""}),
        ]


def as_svg(cells: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return the cells with each diagram as SVG at the end of the Markdown cell before it, or in one of its own."""
    shown: list[NotebookNode] = []
    for cell in cells:
        if TAG not in tags(cell):
            shown.append(cell)
        elif shown and shown[-1].cell_type == "markdown":
            shown[-1] = NotebookNode(shown[-1], source=f"{shown[-1].source}\n\n{_diagram(cell).image()}")
        else:
            shown.append(new_markdown_cell(_diagram(cell).image(), id=cell.id))
    return shown


def _draw(name: str) -> Diagram | None:
    return next((draw() for draw in diagrams.ALL if draw.__name__ == name), None)


def _diagram(cell: NotebookNode) -> Diagram:
    return _draw(re.search(r"diagrams\.(\w+)\(\)", cell.source)[1])


def _digest(diagram: Diagram) -> str:
    return hashlib.sha256(diagram.svg().encode()).hexdigest()[:16]


def _drawn(changed: list[Diagram]) -> list[str]:
    """Draw diagrams as PNG, base64-encoded, at twice the size at which they are shown."""
    if not changed:
        return []
    from PIL import Image
    from playwright.sync_api import sync_playwright

    browser = chromium()
    if browser is None:
        raise PublishingFailed(
            f"the diagram {changed[0].title!r} has changed: drawing it needs Chromium, which is not installed."
        )
    drawn = []
    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = started.new_page(viewport={"width": 600, "height": 400}, device_scale_factor=2)
        for diagram in changed:
            page.set_content(f'<body style="margin:0;background:white">{diagram.svg()}')
            compact = io.BytesIO()
            with Image.open(io.BytesIO(page.locator("svg").screenshot())) as image:
                image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(compact, format="png", optimize=True)
            drawn.append(base64.b64encode(compact.getvalue()).decode())
        started.close()
    return drawn
