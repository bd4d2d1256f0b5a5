"""The companion tables: rows, sections, symbols, on a small course and on the committed one."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.attention import attend
from course_tools.publishing import PublishingFailed, lectures
from course_tools.publishing.companion import companion, decks, remarks, resolve, rows, unplaced
from course_tools.publishing.outputs import claims
from course_tools.publishing.rivals_page import rivals_page
from course_tools.publishing.sections import anchor
from course_tools.publishing.site.evidence import findings

REPOSITORY = Path(__file__).parents[3]


def test_a_row_leads_from_the_deck_to_lecture_and_library(course):
    (row,) = rows(lectures(course)[0])
    assert (row.deck, row.section, row.here) == ("EE", "Scaled Dot-Product Attention", "1 One query")
    assert row.symbols == ("course_lib.attention.scaled_dot_product_attention",)
    text = companion(course)
    assert (
        "| Scaled Dot-Product Attention | [04 · 1 One query](../lectures/04_tiny.ipynb#1-One-query) | | "
        "`course_lib.attention.scaled_dot_product_attention` |" in text
    )
    assert "| Universal Transformer | *still to come: lecture 06* | | |" in text
    assert "| References | the papers are listed at the end of each lecture | | |" in text


def test_what_of_a_section_is_not_covered_or_wrong_stands_below_it(course):
    assert remarks({"title": "A"}) == []
    assert remarks({"title": "A", "not_covered": "B | C."}) == ["| | *Not covered:* B \\| C. | | |"]
    listed, title = course / "docs" / "decks.toml", 'title = "Scaled Dot-Product Attention"'
    text = listed.read_text(encoding="utf-8")
    listed.write_text(text.replace(title, f'{title}, not_covered = "Half of it.", erratum = "A sum."'), encoding="utf-8")
    page = companion(course).splitlines()
    row = next(i for i, line in enumerate(page) if line.startswith("| Scaled Dot-Product Attention |"))
    assert page[row + 1 : row + 3] == ["| | *Not covered:* Half of it. | | |", "| | *Erratum:* A sum. | | |"]


def test_a_section_names_the_claims_that_measure_it_and_only_those_that_there_are(course):
    listed, title = course / "docs" / "decks.toml", 'title = "Scaled Dot-Product Attention"'
    text = listed.read_text(encoding="utf-8")
    listed.write_text(text.replace(title, f'{title}, claims = ["04.a"]'), encoding="utf-8")
    with pytest.raises(PublishingFailed, match=r"'Scaled Dot-Product Attention': no solution makes the claim 04\.a"):
        companion(course)
    made = {"id": "04.a", "text": "Rows | sum to 1.", "values": {"x": 1.0}, "holds": ["x >= 0.99"], "held": True}
    shown = new_output("display_data", metadata={"course_claim": made})
    cells = [new_markdown_cell("## 1 One query?"), new_code_cell("claim()", outputs=[shown], execution_count=1)]
    solution = lectures(course)[0].solution
    solution.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells), solution)
    assert "| [04.a](../solutions/04_tiny.ipynb#1-One-query%3F) Rows \\| sum to 1. |" in companion(course)


def test_a_section_of_a_lecture_that_exists_must_be_placed(course):
    missing = unplaced(course)
    assert "EE: Multi-Head Attention (lecture 04)" in missing
    assert not any("Scaled Dot-Product" in line or "(lecture 05)" in line for line in missing)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| EE | Scaled Dot-Product", "| EE | Scaled Product", "did you mean 'Scaled Dot-Product Attention'"),
        ("| EE | Scaled", "| XX | Scaled", "of deck XX"),
        ("| 1 One query |", "| 1 One key |", "did you mean '1 One query'"),
        ("| 1 One query |", "|", "four cells, this one has 3"),
    ],
)
def test_a_row_that_leads_nowhere_is_refused(course, author, old, new, message):
    text = (course / "authoring" / "04_tiny.py").read_text(encoding="utf-8")
    author("04_tiny", text.replace(old, new))
    with pytest.raises(PublishingFailed, match=r"^authoring/04_tiny\.py") as failure:
        companion(course)
    assert message in str(failure.value)


def test_symbols_resolve_to_what_they_name():
    assert resolve("course_lib.attention.attend") is attend
    assert resolve("course_lib.attention").__name__ == "course_lib.attention"
    assert resolve("course_lib.attention.MultiHead.forward")
    for wrong in ("course_lib.attention.nothing", "course_lib.attention.attend.nothing", "nowhere.at_all"):
        with pytest.raises(LookupError):
            resolve(wrong)


def test_every_symbol_of_the_committed_companion_resolves():
    symbols = {symbol for lecture in lectures(REPOSITORY) for row in rows(lecture) for symbol in row.symbols}
    assert symbols
    for symbol in sorted(symbols):
        resolve(symbol)


def test_every_symbol_that_is_said_to_be_implemented_resolves():
    words = " ".join(section.get("not_covered", "") for deck in decks(REPOSITORY) for section in deck["sections"])
    symbols = set(re.findall(r"`([^`]+)`", words))
    assert "course_lib.models.Segmenter" in symbols
    for symbol in sorted(symbols):
        resolve(symbol)


def test_every_row_of_a_lecture_names_a_symbol():
    assert not [f"{row.deck}: {row.section}" for lecture in lectures(REPOSITORY) for row in rows(lecture) if not row.symbols]


def test_every_section_of_the_decks_is_placed_or_still_to_come():
    assert not (missing := unplaced(REPOSITORY)), "no companion table places\n" + "\n".join(missing)


@cache
def anchors(notebook: Path) -> set[str]:
    """The anchors of a notebook by an independent form: the headings that nbconvert writes for its text."""
    prose = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown"]
    for cell in prose:
        cell.pop("attachments", None)
    page, _ = HTMLExporter().from_notebook_node(new_notebook(cells=prose))
    return {unquote(found) for found in re.findall(r'<h[1-6] id="([^"]+)"', page)}


def test_anchors_are_those_of_a_notebook_page():
    assert anchor("7 The `k` *nearest*: why, and $d_k$?") == "7-The-k-nearest:-why,-and-d_k%3F"


@pytest.mark.parametrize("page", [companion, rivals_page, findings])
def test_every_link_of_a_page_leads_to_a_section_and_every_id_to_a_claim_of_it(page):
    text = page(REPOSITORY)
    links = re.findall(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\./[^)#]+\.ipynb)#([^)]*)\)", text)
    by_file = {file: (REPOSITORY / "docs" / file).resolve() for _, file, _ in links}
    known = {file: anchors(path) for file, path in by_file.items()}
    made = {file: {each["id"] for each in claims(nbformat.read(path, as_version=4))} for file, path in by_file.items()}
    ids = [(words, file) for words, file, _ in links if re.fullmatch(r"\d\d\.[\w-]+", words)]
    assert len(ids) > 30
    assert [f"{file}#{name}" for _, file, name in links if unquote(name) not in known[file]] == []
    assert [words for words, file in ids if words not in made[file]] == []
    if page is companion:
        assert ".ipynb)" not in text
        placed = [row for lecture in lectures(REPOSITORY) for row in rows(lecture)]
        assert len(links) - len(ids) == len(placed)
