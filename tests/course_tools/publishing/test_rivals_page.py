"""The page of rivals: every lecture has some, and each is a claim that its solution makes."""

import pytest

from course_tools.publishing.project import lectures, project_root
from course_tools.publishing.rivals_page import RIVALS, rivals_page


def test_every_lecture_lists_comparisons_that_it_makes():
    page = rivals_page(lectures(project_root()))
    n_rows = sum(len(letters.split()) for letters in RIVALS.values())
    assert set(RIVALS) == {lecture.number for lecture in lectures(project_root())}
    assert sum(line.startswith("| ") for line in page.splitlines()) == n_rows + 2 * len(RIVALS)


def test_a_claim_that_a_lecture_does_not_make_is_an_error(monkeypatch):
    monkeypatch.setitem(RIVALS, "04", "a nowhere")
    with pytest.raises(KeyError, match=r"04\.nowhere"):
        rivals_page(lectures(project_root(), ["04"]))
