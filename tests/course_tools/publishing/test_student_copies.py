"""`work/`: a fresh copy of a lecture never replaces what a student wrote."""

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from course_tools import cli as command
from course_tools.publishing import PublishingFailed, UnknownLecture
from course_tools.publishing.student_copies import copy_lectures, restore

DIAGRAM = nbformat.v4.new_output("display_data", {"image/png": "iVBORw0KGgo="})
HANDED_OUT = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("draw()", outputs=[DIAGRAM])]))


@pytest.fixture
def built(course, monkeypatch):
    """A course whose lecture 04 counts as built, so that it can be copied, and a folder for Jupyter's signatures."""
    (course / "lectures").mkdir()
    (course / "lectures" / "04_tiny.ipynb").write_text(HANDED_OUT, encoding="utf-8")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(course / "data"))
    return course


def test_fresh_copies_stand_beside_what_a_student_wrote(built, monkeypatch, capsys):
    monkeypatch.setattr(command, "project_root", lambda: built)
    own = copy_lectures(built) / "04_tiny.ipynb"
    own.write_text("hours of work", encoding="utf-8")
    assert [command.main(["restore", "4"]) for _ in range(2)] == [0, 0]
    assert capsys.readouterr().out == "wrote work/04_tiny_fresh.ipynb\nwrote work/04_tiny_fresh_2.ipynb\n"
    found = {path.name: path.read_text(encoding="utf-8") for path in (built / "work").iterdir()}
    assert found == {
        "04_tiny.ipynb": "hours of work",
        "04_tiny_fresh.ipynb": HANDED_OUT,
        "04_tiny_fresh_2.ipynb": HANDED_OUT,
    }


def test_jupyter_trusts_the_diagrams_of_a_copy_and_of_no_other_notebook(built):
    """Else it does not sign the notebook on saving, and sliders are gone when the page is loaded again."""
    copy = nbformat.read(copy_lectures(built) / "04_tiny.ipynb", as_version=4)
    notary = NotebookNotary()
    trusted = [notary.check_signature(copy)]
    copy.cells[0].outputs[0].data["text/html"] = "<script></script>"
    trusted.append(notary.check_signature(copy))
    notary.store.close()
    assert trusted == [True, False]


def test_a_lecture_is_copied_where_signatures_cannot_be_stored(built):
    (built / "data").write_text("a file where the folder should be")
    assert (copy_lectures(built) / "04_tiny.ipynb").read_text(encoding="utf-8") == HANDED_OUT


def test_a_lecture_without_a_copy_is_restored_under_its_own_name(built):
    assert restore(built, "04") == built / "work" / "04_tiny.ipynb"


def test_what_cannot_be_restored_is_named(course):
    with pytest.raises(UnknownLecture, match="no lecture 77"):
        restore(course, "77")
    with pytest.raises(PublishingFailed, match=r"lectures/04_tiny\.ipynb does not exist: run `python course\.py build 04`"):
        restore(course, "04")


def test_a_folder_that_cannot_be_written_is_named(built):
    (built / "work").write_text("a file where the folder should be")
    with pytest.raises(PublishingFailed, match=r"work/04_tiny\.ipynb cannot be written"):
        copy_lectures(built)
