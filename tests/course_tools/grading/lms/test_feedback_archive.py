"""The archives of feedback: names as in the downloads of Canvas and Moodle, read back as these two read them."""

import io
import json
import re
import zipfile
from pathlib import Path

import nbformat

from course_tools.grading.lms.feedback_archive import feedback_archives
from course_tools.grading.report.results import Results
from tests.course_tools.grading.student_notebooks import graded_here, notebook


def graded(folder: Path, **files: bytes) -> dict[str, bytes]:
    """Grade a download with these files; give the archives of feedback."""
    with zipfile.ZipFile(folder / "in.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return feedback_archives(*graded_here(folder / "in.zip"))


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_moodle_finds_the_participant_in_the_name_of_the_folder(tmp_path):
    names = ("Åse O'Hara_123456_assignsubmission_file_/my work.ipynb", "Li_77_assignsubmission_file_nb.ipynb")
    files = dict(zip(names, (notebook(e1="# earns 12"), notebook(e1="# earns 2\n# thinks You forget.")), strict=True))
    (name, data), *rest = graded(tmp_path, **files).items()
    assert (name, rest) == ("feedback_moodle.zip", [])
    found = {}
    for path, text in members(data).items():
        folder, file = path.split("/")
        _, participant, kind, plugin, after = folder.split("_", 4)  # mod/assign/feedback/file/importziplib.php
        assert (kind, plugin, after, file) == ("assignsubmission", "file", "", "feedback.html")
        found[participant] = text.decode()
    assert found.keys() == {"123456", "77"}
    assert "You forget." in found["77"]
    assert "You forget." not in found["123456"]


def test_canvas_finds_user_and_attachment_and_gives_a_file_that_opens(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("nb.ipynb", notebook(e1="# earns 3"))
    files = {
        "ohara_12345_1_nb.ipynb": notebook(e1="# earns 2"),
        "ohara_12345_2_nb-1.ipynb": notebook(e1="# earns 12"),
        "hyp_LATE_777_3_nb.ipynb": notebook(e1="# earns 1\n# thinks <b>You</b> forget."),
        "kim_888_4_work.zip": inner.getvalue(),
    }
    found = members(graded(tmp_path, **files)["feedback_canvas.zip"])
    assert found.keys() == files.keys() - {"ohara_12345_1_nb.ipynb"}  # the newest attempt takes the comment
    assert [re.findall(r"(?<=_)\d+(?=_)", name) for name in sorted(found)] == [["777", "3"], ["888", "4"], ["12345", "2"]]
    opened = nbformat.reads(found["hyp_LATE_777_3_nb.ipynb"].decode(), as_version=4)
    nbformat.validate(opened)
    assert "&lt;b&gt;You" in opened.cells[0].source
    assert "12 of" in json.loads(found["ohara_12345_2_nb-1.ipynb"])["cells"][0]["source"][1]
    (inside,) = members(found["kim_888_4_work.zip"]).values()
    assert b"3 of" in inside


def test_the_same_results_give_the_same_bytes_and_a_plain_folder_none(tmp_path):
    first = graded(tmp_path, **{"ada_1_2_nb.ipynb": notebook(e1="# earns 2")})
    assert graded(tmp_path, **{"ada_1_2_nb.ipynb": notebook(e1="# earns 2")}) == first
    assert graded(tmp_path, **{"ada.ipynb": notebook(e1="# earns 2")}) == {}
    assert feedback_archives(Results((), ()), ()) == {}
