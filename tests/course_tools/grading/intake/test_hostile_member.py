"""A class of 100 in which one member is hostile: submissions and marks of the other 99 are byte for byte those without it."""

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from course_tools.grading.intake.submissions import handed_in
from course_tools.grading.report.results import grades_csv
from tests.course_tools.grading.student_notebooks import graded_here, notebook

TOPICS = ("04_self_attention",)
LAYOUTS = {
    "Canvas": "student{0}_{1}_{2}_{3}",
    "Moodle, in folders": "Student {0}_{1}_assignsubmission_file_/{3}",
    "Moodle, in one name": "Student {0}_{1}_assignsubmission_file_{3}",
}
HOSTILE, FRIEND = 57, 12


def packed(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def claiming(sizes: list[int]) -> bytes:
    """A zip of tiny notebooks whose index claims these sizes, packed and unpacked."""
    raw = bytearray(packed({f"{i}.ipynb": b"{}" for i in range(len(sizes))}))
    at = 0
    for size in sizes:
        at = raw.find(b"PK\x01\x02", at + 4)
        raw[at + 20 : at + 28] = 2 * size.to_bytes(4, "little")
    return bytes(raw)


def without_sense() -> bytes:
    raw = bytearray(packed({"x.ipynb": b"{}" * 100}))
    at = raw.find(b"PK\x01\x02")
    raw[at + 28 : at + 34] = b"\xff" * 6
    return bytes(raw)


FRIENDS_MOODLE = f"x_{20_000 + FRIEND}_assignsubmission_file_hw"
FRIENDS_CANVAS = f"x_{20_000 + FRIEND}_7_hw"
EMPTY = {f"{i}.txt": b"" for i in range(9)}
WAYS: dict[str, Callable[[], dict[str, bytes]]] = {
    "a zip named after a friend in Moodle": lambda: {f"{FRIENDS_MOODLE}.zip": packed({"nb.ipynb": b"{}", **EMPTY})},
    "a zip named after a friend in Canvas": lambda: {f"{FRIENDS_CANVAS}.zip": packed({"nb.ipynb": b"{}", **EMPTY})},
    "members named after a friend": lambda: {
        "hw.zip": packed({f"{name}{i}.ipynb": b"" for name in (FRIENDS_MOODLE, FRIENDS_CANVAS) for i in range(400)})
    },
    "200 files named after a friend in Moodle": lambda: {f"{FRIENDS_MOODLE}{i}.ipynb": b"{}" for i in range(200)},
    "200 files named after a friend in Canvas": lambda: {f"{FRIENDS_CANVAS}{i}.ipynb": b"{}" for i in range(200)},
    "a folder of nbgrader": lambda: {"hw.zip": packed({f"submitted/{20_000 + FRIEND}/04/nb.ipynb": b"{}"})},
    "20,300 empty files": lambda: {"hw.zip": packed({str(i): b"" for i in range(20_300)})},
    "an index that claims 16 GB": lambda: {"hw.zip": claiming([60 << 20] * 273 + [1 << i for i in range(24)][::-1])},
    "a file that claims 4 GB": lambda: {"hw.zip": claiming([(1 << 32) - 2])},
    "a bomb": lambda: {"hw.zip": packed({"nb.ipynb": bytes(100 << 20)})},
    "a zip without sense": lambda: {"hw.zip": without_sense()},
    "a zip that ends early": lambda: {"hw.zip": packed({"nb.ipynb": b"{}" * 1000})[:60]},
    "zips in a zip": lambda: {"hw.zip": packed({"a.zip": packed({"b.zip": packed({"nb.ipynb": b"{}"})})})},
    "paths that lead out": lambda: {"hw.zip": packed({"../../nb.ipynb": b"{}", "/etc/nb.ipynb": b"{}"})},
    "names of any length and letters": lambda: {"hw.zip": packed({"é" * 20_000 + ".ipynb": b"{}", "a\nb.ipynb": b"{}"})},
    "folders within folders": lambda: {
        f"{FRIENDS_MOODLE}_/{'d/' * 11}nb.ipynb": b"{}",
        f"{FRIENDS_MOODLE}_/{'d/' * 12}nb.ipynb": b"{}",
    },
    "folders without end": lambda: {f"{'d/' * 400}{FRIENDS_MOODLE}_/{'d/' * 9}{i}.ipynb": b"{}" for i in range(200)},
    "a path named after a friend in Canvas": lambda: {f"x\\{FRIENDS_CANVAS}-99.ipynb": b"{}"},
    "a thousand notebooks": lambda: {"hw.zip": packed({f"{i}.ipynb": b"{}" for i in range(1000)})},
    "no zip": lambda: {"hw.zip": zlib.compress(b"notebook")},
}


def download(path: Path, layout: str, hostile: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(100):
            own = {"04_self_attention.ipynb": notebook(e1=f"# earns {i % 15}\n# student {i}")}
            files = hostile if i == HOSTILE else {"mine.zip": packed(own)} if i % 3 == 0 else own
            for n, (name, data) in enumerate(files.items()):
                archive.writestr(LAYOUTS[layout].format(i, 20_000 + i, 900 + 1000 * i + n, name), data)
    return path


def of_the_others(path: Path) -> list[tuple[object, ...]]:
    """Student, file name, number of the attempt and content of each notebook that is not the hostile member's."""
    with handed_in(path, TOPICS) as found:
        assert {note.student.id for note in found.notes if note.student} <= {str(20_000 + HOSTILE)}
        return [
            (item.student, item.file_name, item.attempt, item.late, item.lms, item.read())
            for item in found.submissions
            if item.student.id != str(20_000 + HOSTILE)
        ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_the_other_99_are_untouched(way, layout, tmp_path):
    without = of_the_others(download(tmp_path / "without.zip", layout, {}))
    assert len(without) == 99
    assert of_the_others(download(tmp_path / "with.zip", layout, WAYS[way]())) == without


def marks_of_the_others(path: Path) -> list[str]:
    """The rows of the table of marks that are not the hostile member's."""
    results, _ = graded_here(path, "04")
    return [row for row in grades_csv(results).splitlines() if f'"{20_000 + HOSTILE}"' not in row]


@pytest.fixture(scope="module")
def marks_without(tmp_path_factory) -> list[str]:
    rows = marks_of_the_others(download(tmp_path_factory.mktemp("class") / "in.zip", "Canvas", {}))
    assert len(rows) == 100
    return rows


@pytest.mark.parametrize("way", WAYS)
def test_the_marks_of_the_other_99_are_the_same(way, tmp_path, marks_without):
    assert marks_of_the_others(download(tmp_path / "in.zip", "Canvas", WAYS[way]())) == marks_without


def test_a_class_of_three_is_not_outvoted_by_one_zip(tmp_path):
    """With the layout of another LMS the marks would be credited to other students."""
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ada_20005_901_nb.ipynb", "bob_20007_902_nb.ipynb"):
            archive.writestr(name, b"{}")
        archive.writestr("eve_20001_903_x_20005_assignsubmission_file_hw.zip", packed({"nb.ipynb": b"{}", **EMPTY}))
    with handed_in(path, TOPICS) as found:
        assert [(item.student.id, item.lms) for item in found.submissions] == [
            ("20005", "Canvas"),
            ("20007", "Canvas"),
            ("20001", "Canvas"),
        ]


def test_a_student_cannot_have_a_thousand_notebooks_graded(tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("eve_20001_903_hw.zip", packed({f"{i:03}.ipynb": b"{}" for i in range(1000)}))
        archive.writestr("ada_20005_901_nb.ipynb", b"{}")
    with handed_in(path, TOPICS) as found:
        assert Counter(item.student.id for item in found.submissions) == {"20001": 40, "20005": 1}
        assert {note.text for note in found.notes} == {
            "is more than the 40 notebooks that are graded for a student; not graded."
        }


def test_a_file_named_submitted_does_not_make_a_class_one_of_nbgrader(tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ada.ipynb", "bob.ipynb", "submitted", "submitted/eve/04/nb.ipynb"):
            archive.writestr(name, b"{}")
    with handed_in(path, TOPICS) as found:
        assert {"ada", "bob"} <= {item.student.id for item in found.submissions}


def test_two_thousand_students_with_eleven_files_each_are_taken(tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(2000):
            for name in ("nb.ipynb", *(f"{n}.png" for n in range(10))):
                archive.writestr(f"Student {i}_{i + 1}_assignsubmission_file_/{name}", b"{}")
    with handed_in(path, TOPICS) as found:
        assert len(found.submissions) == 2000


def test_typed_texts_do_not_decide_the_layout(tmp_path):
    """Where an assignment takes texts too, most of the class may have typed one: their files have one number."""
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(9):
            archive.writestr(f"ada{i}_{20_000 + i}_{'text' if i else '901_nb'}.{'html' if i else 'ipynb'}", b"{}")
    with handed_in(path, TOPICS) as found:
        assert [(item.student.id, item.lms) for item in found.submissions] == [("20000", "Canvas")]


def test_other_json_files_do_not_crowd_out_the_notebook(tmp_path):
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ada_20005_901_hw.zip", packed({**{f"data/{i:03}.json": b"[]" for i in range(60)}, "nb.ipynb": b"{}"}))
        archive.writestr("bob_20006_902_nb.ipynb", b"{}")
    with handed_in(path, TOPICS) as found:
        assert next(item.file_name for item in found.submissions if item.student.id == "20005") == "nb.ipynb"
