"""`course colab`: notebooks that clone the course and install what Colab lacks, before the course is imported."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

from course_tools.publishing.colab import write_colab
from course_tools.publishing.project import PublishingFailed, lectures

ROOT = Path(__file__).parents[3]
ADDRESS = "https://example.org/name/course.git"


@pytest.fixture
def one_lecture(tmp_path):
    """A course with only lecture 04."""
    for name in ("authoring/04_self_attention.py", "lectures/04_self_attention.ipynb"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def notebook(one_lecture, tmp_path):
    (path,) = write_colab(one_lecture, tmp_path / "colab", ADDRESS)
    assert path == tmp_path / "colab" / "04_self_attention.ipynb"
    return nbformat.read(path, as_version=4)


def test_the_set_up_is_the_first_code_and_the_rest_is_the_lecture(notebook):
    nbformat.validate(notebook)
    (lecture,) = lectures(ROOT, ["04"])
    original = nbformat.read(lecture.unsolved, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[0].id == "colab-set-up"
    notebook.cells.remove(code[0])
    assert notebook == original


def test_writing_twice_gives_the_same_bytes(one_lecture, tmp_path):
    first, second = (write_colab(one_lecture, tmp_path / "colab", ADDRESS)[0].read_bytes() for _ in range(2))
    assert first == second


def test_the_set_up_clones_once_installs_the_ranges_and_makes_the_course_importable(notebook, tmp_path, monkeypatch):
    calls = []

    def run(command, check):
        assert check
        calls.append(command)
        if command[0] == "git":
            clone = Path(command[-1])
            clone.mkdir()
            shutil.copy(ROOT / "pyproject.toml", clone)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    source = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for _ in range(2):
        exec(compile(source, "set-up", "exec"), {})
    clone = tmp_path / "attention-course"
    git, pip, again = calls
    assert git == ["git", "clone", "--quiet", "--depth", "1", ADDRESS, str(clone)]
    assert pip == again
    assert pip[:4] == [sys.executable, "-m", "pip", "install"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    missing = {*project["dependencies"], *extras["data"], *extras["course"]} - set(pip)
    assert {line.partition(">")[0] for line in missing} == {"jupyterlab", "ipywidgets"}
    assert (sys.path[0], sys.path.count(str(clone))) == (str(clone), 1)


@pytest.mark.parametrize("address", ["", "git@example.org:course.git", "--upload-pack=x", "https://example.org/a b"])
def test_an_address_that_colab_cannot_clone_is_refused(one_lecture, tmp_path, address):
    with pytest.raises(PublishingFailed, match="https address"):
        write_colab(one_lecture, tmp_path / "colab", address)
    assert not (tmp_path / "colab").exists()


def test_a_lecture_that_was_not_built_is_named(one_lecture, tmp_path):
    (one_lecture / "lectures/04_self_attention.ipynb").unlink()
    with pytest.raises(
        PublishingFailed, match=r"lectures/04_self_attention\.ipynb does not exist: run `python course\.py build`"
    ):
        write_colab(one_lecture, tmp_path / "colab", ADDRESS)
