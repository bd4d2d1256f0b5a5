"""Three lectures in JupyterLab and exported as HTML: axe-core finds no barrier in a real browser, no code scrolls sideways."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from course_tools.publishing import lectures
from course_tools.publishing.lecture_cells import draft
from course_tools.publishing.outputs import code_cells, tags
from tests.course_tools.jupyterlab_page import Notebook, browser, course_of, jupyterlab, violations

ROOT = Path(__file__).parents[3]
CHOSEN = [lecture for lecture in lectures(ROOT) if lecture.number in ("03", "06", "12")]
OURS = (".jp-OutputArea-output", ".jp-MarkdownOutput")
"""What a lecture shows. The rest of the page is JupyterLab's."""
NOT_OURS = (".highlight", "mjx-container")
"""Colours of code in markdown and formulas, drawn by Pygments, CodeMirror and MathJax."""
LEFT_TO_JUPYTER = ("link-in-text-block: ", 'image-alt: <img src="data:image/png')
"""JupyterLab and nbconvert do not underline links, and drop the text of a stored PNG: its caption says the same."""


def each_lecture(*left_to_full: str) -> pytest.MarkDecorator:
    """Run a test for each of the lectures, for some of them with `--full` alone."""
    chosen = [pytest.param(each, marks=[pytest.mark.full][: each.number in left_to_full], id=each.number) for each in CHOSEN]
    return pytest.mark.parametrize("lecture", chosen)


@cache
def solved(lecture) -> nbformat.NotebookNode:
    """The solved lecture as its source gives it, with the outputs that are stored."""
    notebook = draft(lecture, "")
    stored = {cell.id: cell for cell in code_cells(nbformat.read(lecture.solution, as_version=4))}
    for cell in code_cells(notebook):
        if cell.id in stored:
            cell.outputs, cell.execution_count = stored[cell.id].outputs, stored[cell.id].execution_count
    return notebook


def barriers(page) -> list[str]:
    return [line for line in violations(page, OURS, NOT_OURS) if not line.startswith(LEFT_TO_JUPYTER)]


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(chromium, tmp_path_factory) -> Iterator[str]:
    """JupyterLab on a course of these lectures; the address is that of the first."""
    root = course_of(tmp_path_factory.mktemp("course"), {lecture.stem: solved(lecture) for lecture in CHOSEN})
    with jupyterlab(root) as found:
        yield found


@each_lecture("06", "12")
def test_a_lecture_in_jupyterlab_has_no_barrier_and_no_code_that_scrolls_sideways(lecture, chromium, address):
    page = chromium.new_page(viewport={"width": 1280, "height": 1600}, bypass_csp=True)
    opened = Notebook(page, address.replace(CHOSEN[0].stem, lecture.stem) + "&reset")
    cells = solved(lecture).cells
    first = next(i for i, cell in enumerate(cells) if cell.cell_type == "code")
    opened.run(first)
    for i, cell in enumerate(cells):
        if "predict" in tags(cell) and cell.cell_type == "code":
            opened.run(i)
    opened.show_all()
    assert page.locator(".jp-Notebook button").count() > 2
    code = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell .cm-scroller')]"
    assert page.evaluate(f"() => {code}.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)") == []
    assert barriers(page) == []
    page.close()


@each_lecture("06")
def test_a_lecture_exported_as_html_has_no_barrier(lecture, chromium, tmp_path):
    file = tmp_path / f"{lecture.stem}.html"
    file.write_text(HTMLExporter().from_notebook_node(solved(lecture))[0], encoding="utf-8")
    context = chromium.new_context(viewport={"width": 1280, "height": 1600}, offline=True, bypass_csp=True)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("img[alt]").count() > 2
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280
    assert barriers(page) == []
    context.close()
