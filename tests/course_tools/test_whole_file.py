"""A file is written whole or not at all; commands say in one sentence what the operating system refused."""

import errno

import pytest

from course_tools import cli
from course_tools.exams import page
from course_tools.whole_file import CannotWrite, write_whole


@pytest.fixture
def full_disk(monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("course_tools.whole_file.os.fsync", full)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, full_disk):
    (tmp_path / "grades.csv").write_text("first")
    with pytest.raises(CannotWrite, match="the disk is full"):
        write_whole(tmp_path / "grades.csv", "second")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"grades.csv": "first"}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["microscope", "--out", "new/page.html"], "page.html"),
        (["slides", "04", "--out", "new"], "04_self_attention.html"),
        (["exam", "--forms", "1", "--out", "new"], "form_A.html"),
        (["progress", "--html", "new/page.html"], "page.html"),
    ],
)
def test_a_command_says_that_the_disk_is_full(tmp_path, monkeypatch, capsys, full_disk, arguments, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    assert cli.main(arguments) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("course: ")
    assert said.endswith(f"{name} could not be written: the disk is full. Free some space and run the same command again.")
    assert not list(tmp_path.rglob(f"*{name}*"))


def test_a_file_where_a_folder_is_wanted_is_said_in_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["exam", "--forms", "1", "--out", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.endswith("file/form_A.html could not be written: file exists.\n")


def test_an_exam_without_a_browser_says_that_pdfs_are_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "print_pdf", lambda *_: False)
    assert cli.main(["exam", "--forms", "1", "--out", str(tmp_path)]) == 0
    assert "PDFs are missing: they need Chromium or Chrome." in capsys.readouterr().out
