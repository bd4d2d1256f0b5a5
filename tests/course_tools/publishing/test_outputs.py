"""What is read from outputs, and what is removed from them before a commit."""

import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, output_from_msg

from course_tools.notebook import claim_statements
from course_tools.notebook.claim import measured, output_of
from course_tools.publishing.outputs import claims, first_line, fit_to_commit, portable, take_outputs

VIEW = "application/vnd.jupyter.widget-view+json"


def shown(data: dict, metadata: dict | None = None):
    content = {"data": data, "metadata": metadata or {}, "transient": {}}
    return output_from_msg({"header": {"msg_type": "display_data"}, "content": content})


def claim(id: str, held: bool = True):
    made = {"id": id, "text": "t", "values": {"x": 1}, "holds": ["x >= 1"], "held": held}
    return shown({"text/plain": "✓"}, {"course_claim": made})


def test_claims_are_read_from_the_metadata_the_last_of_an_id_counts():
    cell = new_code_cell("", outputs=[claim("04.a", False), claim("04.b"), claim("04.a", True)])
    assert [(c["id"], c["held"]) for c in claims(new_notebook(cells=[cell]))] == [("04.a", True), ("04.b", True)]


def test_the_machines_folders_are_taken_out(tmp_path):
    files = f'"{tmp_path}/course_lib/x.py" {sys.prefix}/lib/y.py {Path.home()}/z'
    clean = portable(f"{files} <f at 0x7f71b22661d0> /tmp/ipykernel_12/34.py:1", tmp_path)
    assert clean == '"course_lib/x.py" <python>/lib/y.py ~/z <f at 0x…> <cell>:1'


def test_a_folder_that_only_begins_alike_is_left_alone(tmp_path):
    assert portable(f"{tmp_path}2/x", tmp_path) == f"{tmp_path}2/x"


def test_tracebacks_texts_and_html_are_made_portable_and_pictures_stay(tmp_path):
    error = output_from_msg(
        {"header": {"msg_type": "error"}, "content": {"ename": "E", "evalue": f"{tmp_path}/a", "traceback": [f"{tmp_path}/b"]}}
    )
    picture = shown({"image/png": f"{tmp_path}/c", "text/html": f"<p>{tmp_path}/d</p>"})
    fit_to_commit(notebook := new_notebook(cells=[new_code_cell("", outputs=[error, picture])]), tmp_path)
    error, picture = notebook.cells[0].outputs
    assert (error.evalue, error.traceback) == ("a", ["b"])
    assert picture.data == {"image/png": f"{tmp_path}/c", "text/html": "<p>d</p>"}


def test_widgets_and_what_they_drew_are_stripped(tmp_path):
    widget = shown({VIEW: {}, "text/plain": "interactive(…)"})
    outputs = [shown({"text/plain": "static"}), widget, shown({"text/plain": "drawn"})]
    notebook = new_notebook(cells=[new_code_cell("", outputs=outputs)], metadata={"widgets": {"state": {}}})
    fit_to_commit(notebook, tmp_path)
    assert [output.data["text/plain"] for output in notebook.cells[0].outputs] == ["static"]
    assert "widgets" not in notebook.metadata


def test_outputs_are_taken_over_only_where_the_code_is_the_same():
    old = new_notebook(cells=[new_code_cell("1", outputs=[shown({"text/plain": "1"})], execution_count=1)])
    fresh = new_notebook(cells=[new_code_cell("1")])
    assert take_outputs(fresh, old)
    assert fresh.cells[0].outputs == old.cells[0].outputs
    assert fresh.cells[0].execution_count == 1
    assert not take_outputs(new_notebook(cells=[new_code_cell("2")]), old)
    assert not take_outputs(new_notebook(cells=[new_code_cell("1"), new_code_cell("1")]), old)


def test_a_claim_is_stated_anew_without_being_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(claim_statements, "FOLDER", tmp_path)
    (tmp_path / "lecture_04").mkdir()

    def state(says, holds):
        text = f'[a]\nsays = "{says}"\nholds = ["{holds}"]\n'
        (tmp_path / "lecture_04" / "claims.toml").write_text(text, encoding="utf-8")

    def taken():
        fresh = new_notebook(cells=[new_code_cell("claim()"), new_code_cell("ledger()", metadata={"tags": ["ledger"]})])
        return fresh if take_outputs(fresh, old) else None

    state("It is {x}.", "min(x) > 1")
    made = measured("04.a", {"x": [2, 3]})
    outputs = [[shown(output_of(made), {"course_claim": made})], [shown({"text/plain": "old"})]]
    old = new_notebook(cells=[new_code_cell("claim()", outputs=outputs[0], execution_count=1)])
    old.cells.append(new_code_cell("ledger()", outputs=outputs[1], execution_count=2))

    state("It was {x:each}.", "min(x) > 1.5")
    again = taken()
    assert [made["text"] for made in claims(again)] == ["It was (2, 3)."]
    assert "It was" in again.cells[0].outputs[0].data["text/html"]
    assert "above 1.5" in again.cells[1].outputs[0].data["text/plain"]
    state("It is {x}.", "min(x) > 2.5")
    assert not claims(taken())[0]["held"]
    state("It is {y}.", "y > 1")
    assert taken() is None


@pytest.mark.parametrize(
    ("executed", "fresh", "same"),
    [
        (
            'def f(x):\n    """One line\n    or two."""\n    return x',
            'def f(\n    x,\n):\n    """One line or two."""\n    return x',
            True,
        ),
        ("class A:\n    def f(self):\n        'Old words.'", "class A:\n    def f(self):\n        'New words.'", True),
        ("def f(x):\n    'Words.'\n    return x", "def f(x):\n    'Words.'\n    return -x", False),
        ("'shown'", "'other'", False),
        ("f(1)  # why", "f(\n    1\n)", True),
        ("f('a  b')", "f('a b')", False),
        ("%matplotlib inline\nf( 1)", "%matplotlib inline\nf(1)", False),
    ],
)
def test_line_breaks_comments_and_docstrings_are_not_part_of_the_code(executed, fresh, same):
    old = new_notebook(cells=[new_code_cell(executed, execution_count=1)])
    assert take_outputs(new_notebook(cells=[new_code_cell(fresh)]), old) is same


def test_a_cell_that_shows_a_traceback_is_the_same_only_to_the_letter():
    error = output_from_msg({"header": {"msg_type": "error"}, "content": {"ename": "E", "evalue": "", "traceback": ["1 f()"]}})
    old = new_notebook(cells=[new_code_cell("f()", outputs=[error], execution_count=1)])
    assert take_outputs(new_notebook(cells=[new_code_cell("f()")]), old)
    assert not take_outputs(new_notebook(cells=[new_code_cell("f(  )")]), old)


def test_a_cell_that_never_ran_has_no_outputs_to_take():
    unrun = new_notebook(cells=[new_code_cell("1")])
    assert not take_outputs(new_notebook(cells=[new_code_cell("1")]), unrun)


def test_the_first_line_is_code_where_there_is_code():
    assert first_line("\n# a comment\nx = 1\ny = 2") == "x = 1"
    assert first_line("# only words") == "# only words"
    assert first_line("") == ""
    assert len(first_line("x" * 500)) == 100
