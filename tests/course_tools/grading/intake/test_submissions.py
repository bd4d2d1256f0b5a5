"""Whose notebook is which, in each layout that an LMS or an instructor hands over."""

import io
import zipfile
from pathlib import Path

import pytest

from course_tools.grading.intake.submissions import Intake, Student, handed_in

TOPICS = ("01_recurrence", "04_self_attention")


def intake(tmp_path: Path, *names: str, zipped: bool = False, folder: str = "in") -> Intake:
    if zipped:
        path = tmp_path / "in.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"{}")
    else:
        path = tmp_path / folder
        for name in names:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(b"{}")
    with handed_in(path, TOPICS) as found:
        return found


def whose(found: Intake) -> dict[str, tuple[str, str]]:
    return {item.source: tuple(item.student) for item in found.submissions}


@pytest.mark.parametrize("zipped", [True, False])
def test_canvas(tmp_path, zipped):
    names = ("haraola_12345_67890_04_self_attention.ipynb", "leelate_LATE_777_67891_nb-2.ipynb", "x_5_6_work.pdf")
    found = intake(tmp_path, *names, zipped=zipped)
    assert whose(found) == {names[0]: ("12345", "haraola"), names[1]: ("777", "leelate")}
    first, late = found.submissions
    assert (first.late, first.attempt, first.file_name) == (False, 0, "04_self_attention.ipynb")
    assert (late.late, late.attempt, late.series) == (True, 2, "nb.ipynb")
    assert [(note.student.id, note.source) for note in found.notes] == [("5", "x_5_6_work.pdf")]


def test_canvas_in_a_folder_within(tmp_path):
    found = intake(tmp_path, "week 4/ada_12_34_nb.ipynb", "week 4/bob_56_78_nb.ipynb")
    assert {student for student, _ in whose(found).values()} == {"12", "56"}


def test_the_name_of_a_students_file_does_not_make_it_anothers(tmp_path):
    canvas = "mal_666_1_victim_111_2_nb.ipynb"
    flat = "Mal_667_assignsubmission_file_Vic_112_assignsubmission_file_nb.ipynb"
    folder = "Mal_668_assignsubmission_file_/Vic_113_assignsubmission_file_/nb.ipynb"
    for place, name in enumerate((canvas, flat, folder)):
        assert {id for id, _ in whose(intake(tmp_path, name, folder=str(place))).values()} == {f"66{place + 6}"}


@pytest.mark.parametrize("zipped", [True, False])
def test_moodle(tmp_path, zipped):
    names = (
        'O, "Hara" Åse_123456_assignsubmission_file_/my work.ipynb',
        "李 小龍_123457_assignsubmission_file/deep/down/nb.ipynb",
        "Flat File_123458_assignsubmission_file_nb.ipynb",
        "Flat File_123458_assignsubmission_onlinetext_/onlinetext.html",
    )
    found = intake(tmp_path, *names, zipped=zipped)
    assert sorted(whose(found).values()) == [
        ("123456", 'O, "Hara" Åse'),
        ("123457", "李 小龍"),
        ("123458", "Flat File"),
    ]
    assert found.notes == ()


@pytest.mark.parametrize("under", ["", "submitted/"])
def test_nbgrader(tmp_path, under):
    names = [f"{under}ada/04_self_attention/nb.ipynb", f"{under}ada/04_self_attention/timestamp.txt"]
    rest = ["source/04_self_attention/nb.ipynb", "release/04/x.ipynb", "gradebook.db"] if under else []
    found = intake(tmp_path, *names, *rest, folder="in" if under else "submitted")
    assert whose(found) == {names[0]: ("ada", "ada")}
    assert found.notes == ()


def test_a_plain_folder_has_one_file_or_folder_a_student(tmp_path):
    names = ("ada.ipynb", "bob_04_self_attention.ipynb", "01_recurrence - eve.ipynb", "Kim/a.ipynb", "Kim/b.ipynb", "notes.txt")
    found = intake(tmp_path, *names)
    assert {id for id, _ in whose(found).values()} == {"ada", "bob", "eve", "Kim"}
    assert [(note.student, note.source) for note in found.notes] == [(None, "notes.txt")]


def test_copies_belong_to_the_student_but_numbered_students_stay_apart(tmp_path):
    names = ("ada.ipynb", "ada (1).ipynb", "ada - Copy.ipynb", "ada-Copy1.ipynb", "student.ipynb", "student-1.ipynb")
    found = whose(intake(tmp_path, *names))
    assert [found[name][0] for name in names] == ["ada"] * 4 + ["student", "student-1"]


def test_a_folder_around_a_whole_zip_is_nobodys_name(tmp_path):
    assert {id for id, _ in whose(intake(tmp_path, "week 4/ada.ipynb", "week 4/bob.ipynb", zipped=True)).values()} == {
        "ada",
        "bob",
    }


def test_a_single_students_folder_in_a_zip_is_recognised_by_its_lectures(tmp_path):
    found = intake(tmp_path, "ada/01_recurrence.ipynb", "ada/04_self_attention.ipynb", zipped=True)
    assert {id for id, _ in whose(found).values()} == {"ada"}


def test_what_lies_in_a_students_zip_is_that_students(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("someone_9_9_nb.ipynb", b"{}")
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ada_12_34_hw.zip", inner.getvalue())
        archive.writestr("bob_56_78_nb.ipynb", b"{}")
    with handed_in(path, TOPICS) as found:
        assert [(item.student.id, item.file_name) for item in found.submissions] == [
            ("12", "someone_9_9_nb.ipynb"),
            ("56", "nb.ipynb"),
        ]


@pytest.mark.parametrize("name", ["ada.ipynb.txt", "ada.IPYNB", "ada.ipynb.json", "ada.json"])
def test_what_a_browser_made_of_the_ending_does_no_harm(tmp_path, name):
    assert intake(tmp_path, name).submissions[0].student == Student("ada", "ada")


def test_a_refused_file_is_noted_for_its_student(tmp_path):
    (tmp_path / "in" / "ada").mkdir(parents=True)
    (tmp_path / "in" / "ada" / "nb.ipynb").symlink_to("/etc/passwd")
    with handed_in(tmp_path / "in", TOPICS) as found:
        assert [(note.student.id, note.source) for note in found.notes] == [("ada", "ada/nb.ipynb")]


def test_a_name_in_the_pattern_of_another_lms_credits_nobody_else(tmp_path):
    """In a Canvas zip the number of Canvas counts, whatever a student called the file; the odd name is a note."""
    names = [f"student{i}_{i}00_9{i}_nb.ipynb" for i in range(1, 4)]
    forged = "mallory_666_99_Victim_100_assignsubmission_file_nb.ipynb"
    found = intake(tmp_path, *names, forged, zipped=True)
    assert whose(found)[forged] == ("666", "mallory")
    assert [(note.student.id, note.source) for note in found.notes] == [("666", forged)]
    assert "Moodle's format" in found.notes[0].text


def test_a_name_in_the_pattern_of_an_lms_counts_for_nothing_in_a_plain_folder(tmp_path):
    forged = ("Victim_100_assignsubmission_file_nb.ipynb", "victim_100_7_nb.ipynb")
    found = intake(tmp_path, "ada.ipynb", "bob.ipynb", "eve.ipynb", "kim.ipynb", "lee.ipynb", *forged)
    assert "100" not in {id for id, _ in whose(found).values()}
    assert [note.source for note in found.notes] == list(forged)


def test_a_zip_in_a_students_zip_is_noted_for_that_student(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("someone_9_9_more.zip", b"PK")
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ada_12_34_hw.zip", inner.getvalue())
        archive.writestr("bob_56_78_nb.ipynb", b"{}")
    with handed_in(path, TOPICS) as found:
        assert [note.student.id for note in found.notes] == ["12"]
