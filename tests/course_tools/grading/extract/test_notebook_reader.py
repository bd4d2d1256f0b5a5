"""Cells are read from whatever a student hands in; what is not a notebook is refused with a sentence."""

import codecs
import json

import pytest

from course_tools.grading.extract.notebook_reader import (
    LONGEST_SOURCE,
    MOST_CODE,
    MOST_ITEMS,
    Cell,
    Unreadable,
    cells_in,
    read_cells,
    without_outputs,
)

CODE = {"cell_type": "code", "id": "a", "metadata": {"exercise": "04.1"}, "source": ["x = 1\n", "y = 'é'"], "outputs": []}
READ = [Cell("code", "a", {"exercise": "04.1"}, "x = 1\ny = 'é'")]


def notebook(*cells, **more):
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def written(value, encoding="utf-8"):
    return json.dumps(value, ensure_ascii=False).encode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_a_notebook_is_read_in_any_encoding(encoding):
    assert cells_in(written(notebook(CODE), encoding)) == READ


def test_a_mark_of_the_byte_order_is_no_harm():
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF8, "utf-8")):
        assert cells_in(mark + written(notebook(CODE), encoding)) == READ


def test_a_notebook_is_read_from_a_file(tmp_path):
    path = tmp_path / "ein heft (1).ipynb"
    path.write_bytes(written(notebook(CODE)))
    assert read_cells(path) == read_cells(str(path)) == READ


def test_format_3_is_read():
    old = {"cell_type": "code", "input": ["x = 1"], "language": "python", "outputs": []}
    heading = {"cell_type": "heading", "level": 1, "source": "Title"}
    found = cells_in(written({"nbformat": 3, "worksheets": [{"cells": [old]}, {"cells": [heading]}, {}, None]}))
    assert [(cell.type, cell.source) for cell in found] == [("code", "x = 1"), ("markdown", "Title")]


@pytest.mark.parametrize(
    "cell",
    [
        {},
        {"cell_type": 3},
        {"source": 7},
        {"source": [1, None]},
        {"metadata": []},
        {"id": 5},
        {"source": None, "cell_type": "x"},
    ],
)
def test_a_cell_with_missing_or_wrong_fields_is_read_as_far_as_it_goes(cell):
    (found,) = cells_in(written(notebook({**cell})))
    assert found == Cell("raw", "", {}, "")


def test_what_is_no_cell_is_passed_over():
    assert cells_in(written(notebook("text", 3, None, CODE))) == READ


def test_line_ends_and_half_characters_are_made_plain():
    odd = {**CODE, "source": "a\r\nb\rc\ud800"}
    (found,) = cells_in(json.dumps(notebook(odd)).encode())
    assert found.source == "a\nb\nc?"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b" \n\0\0", "empty"),
        (b"PK\x03\x04 a zip", "not JSON"),
        (b"%PDF-1.7", "not JSON"),
        (b"<html>", "not JSON"),
        (b'{"cells": [', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"cells": [' + b"9" * 5000 + b"]}", "not JSON"),
        (b"[]", "no cells"),
        (b"3", "no cells"),
        (b'{"cells": {}}', "no cells"),
        (b'{"worksheets": 3}', "no cells"),
        (b"[" + b"{}," * 2_000_000 + b"{}]", "too large"),
    ],
)
def test_what_is_no_notebook_is_refused_with_a_sentence(data, says):
    with pytest.raises(Unreadable, match=says) as refused:
        cells_in(data)
    assert str(refused.value).startswith("The file ")


def test_a_file_that_cannot_be_opened_is_refused_with_a_sentence(tmp_path):
    for path in (tmp_path / "missing.ipynb", tmp_path):
        with pytest.raises(Unreadable, match=r"^The file cannot be read: .+\.$"):
            read_cells(path)
    assert issubclass(Unreadable, ValueError)


def test_thirty_megabytes_of_output_are_left_out():
    table = {
        "output_type": "display_data",
        "data": {"application/json": [[1, 2, [3]]] * 1_600_000, "text/plain": '"outputs": ['},
    }
    cells = [
        {"cell_type": "code", "source": "x = 1", "outputs": [table], "metadata": {}},
        {"cell_type": "code", "source": '"outputs": [{', "outputs": [], "metadata": {"a": {"outputs": [1]}}},
    ]
    data = json.dumps({"cells": cells}).encode()
    assert len(data) > 16_000_000
    assert data.count(b",") + data.count(b"[") > MOST_ITEMS
    assert [cell.source for cell in cells_in(data)] == ["x = 1", '"outputs": [{']


def test_a_text_that_does_not_end_is_read_once(monkeypatch):
    """Searched again from each of its quotes, these three megabytes would take days."""
    data = b'{"cells": ["' + b'\\"' * 1_500_000
    assert without_outputs(data) == data
    with pytest.raises(Unreadable, match="not JSON"):
        cells_in(data)


def test_outputs_that_do_not_end_are_no_notebook():
    data = b'{"cells": [{"outputs": [' + b"[" * 2**20
    assert without_outputs(data) == data
    with pytest.raises(Unreadable):
        cells_in(data)


@pytest.mark.parametrize("source", ["\n" * 7_000_000, ["\n"] * 700_000])
def test_of_an_endless_cell_only_the_beginning_is_read(source):
    (found,) = cells_in(written(notebook({"cell_type": "code", "source": source})))
    assert found.source == "\n" * LONGEST_SOURCE


def test_of_endless_code_only_the_beginning_is_read():
    """Each reader of cells takes time for each character: the search for similar answers took hours for 60 MB."""
    text = {"cell_type": "markdown", "source": "text", "metadata": {}}
    tagged = {"cell_type": "raw", "source": "x" * 50_000, "metadata": {"exercise": "04.1"}}
    code = {"cell_type": "code", "source": "y = 1\n" * 15_000, "metadata": {}}
    found = cells_in(written(notebook(*[text, tagged, code] * 20)))
    assert len(found) == 60
    assert sum(len(cell.source) for cell in found) <= MOST_CODE + 20 * len("text")
    assert [cell.source != "" for cell in found[:21]] == [True] * 21
    assert [cell.source for cell in found[-3:]] == ["", "", ""]


def test_millions_of_brackets_are_not_read_one_by_one(monkeypatch):
    monkeypatch.setattr("course_tools.grading.extract.notebook_reader.MOST_TOKENS", 1000)
    with pytest.raises(Unreadable, match="too large"):
        cells_in(b'{"cells": [{"outputs": [' + b"[]," * 400_000 + b"[]]}]}")
