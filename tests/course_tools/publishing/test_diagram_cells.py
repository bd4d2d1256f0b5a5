"""Diagrams in notebooks: drawn once, kept while the drawing is the same, and shown as SVG by the site."""

import base64
import io

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

from course_tools.notebook.diagrams import Diagram, multi_head
from course_tools.publishing import PublishingFailed, diagram_cells
from tests.course_tools.browser import CHROMIUM


@pytest.fixture
def notebook():
    prose, drawn = diagram_cells.split("Heads.\n\n![](diagram:multi_head)")
    return new_notebook(cells=[new_markdown_cell(prose), *drawn])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_diagram_is_a_png_with_its_words_twice_as_wide_as_shown(notebook):
    diagram_cells.fill(notebook, [])
    picture, caption = notebook.cells[1].outputs
    with Image.open(io.BytesIO(base64.b64decode(picture.data["image/png"]))) as image:
        assert image.width == 2 * picture.metadata["image/png"]["width"]
        assert len(image.convert("RGB").getcolors()) > 5
    assert picture.metadata["image/png"]["alt"] == multi_head().words()
    assert multi_head().title in caption.data["text/html"]


def test_a_drawing_that_has_not_changed_is_kept_and_another_needs_a_browser(notebook, monkeypatch):
    monkeypatch.setattr(diagram_cells, "chromium", lambda: None)
    with pytest.raises(PublishingFailed, match="needs Chromium"):
        diagram_cells.fill(notebook, [])
    monkeypatch.setattr(diagram_cells, "_drawn", lambda changed: ["drawn"] * len(changed))
    diagram_cells.fill(notebook, [])
    again = new_notebook(cells=[new_code_cell(notebook.cells[1].source, metadata=notebook.cells[1].metadata)])
    monkeypatch.setattr(diagram_cells, "_drawn", lambda changed: ["anew"] * len(changed))
    diagram_cells.fill(again, [notebook])
    assert again.cells[0].outputs[0].data["image/png"] == "drawn"
    monkeypatch.setattr(Diagram, "svg", lambda self: "<svg/>")
    diagram_cells.fill(again, [notebook])
    assert again.cells[0].outputs[0].data["image/png"] == "anew"


def test_the_site_and_the_slides_show_svg_below_the_prose(notebook):
    (cell,) = diagram_cells.as_svg(notebook.cells)
    assert cell.source == f"Heads.\n\n{multi_head().image()}"
    assert notebook.cells[0].source == "Heads."
    (alone,) = diagram_cells.as_svg(notebook.cells[1:])
    assert (alone.cell_type, alone.source) == ("markdown", multi_head().image())
