"""One column of the instructor's table is filled in, and every other byte stays."""

import csv
import io
from pathlib import Path

import pytest

from course_tools.bank import exercises
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Note, Student
from course_tools.grading.lms.csv_table import Broken, RawTable
from course_tools.grading.lms.rosters import canvas, fill_canvas, fill_moodle, moodle
from tests.course_tools.grading.report.test_results import graded_notebook, settled
from tests.course_tools.grading.student_notebooks import ROOT

FULL = sum(item.points for item in exercises("04") if not item.extra)
OF_A_HUNDRED = f"{12 * 100 / FULL:.2f}".rstrip("0").rstrip(".")
GRADEBOOK = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lecture 04 (991),Essay (992),Current Score
    Points Possible,,,,,51.00,10,(read only)
"O, ""Hara"" Åse",12345,u1,ase,"Mo, 10:00",,7.5,80
=HYPERLINK("x"),777,u2,hyp,A,40, ,
"李 小龍",888,u3,li,B,"12",9,
"Student, Test",999,,t,B,,,
""".replace("51.00", f"{FULL}.00")
WORKSHEET = """\
Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed","Feedback comments"
"Participant 123456","O, ""Hara"" Åse",a@x.org,"Submitted for grading - ",,"100.00",Yes,"line one
line two"
"Participant 123457","=HYPERLINK(""x"")",b@x.org,"No submission",-,100.00,Yes,
"""
MARKS = settled(graded_notebook("12345", 12, name="ohara"), graded_notebook("777", 3, name="hyp"))


@pytest.fixture(scope="module")
def course() -> Course:
    return Course.at(ROOT)


def saved(tmp_path: Path, text: str | bytes, name: str = "roster.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def filled(tmp_path, course, text, results=MARKS, **how):
    return fill_canvas(canvas(saved(tmp_path, text)), results, course, how.get("lecture"), how.get("column"))


def test_one_column_of_a_gradebook_is_filled_and_no_other_byte_changes(tmp_path, course):
    done = filled(tmp_path, course, GRADEBOOK)
    expected = GRADEBOOK.replace('"Mo, 10:00",,7.5', '"Mo, 10:00",12,7.5').replace("A,40, ,", "A,3, ,")
    assert done.data.decode() == expected
    assert (done.column, done.n_marks) == ("Lecture 04 (991)", 2)
    assert done.on_marks == ('Existing marks that differed and were replaced (1): =HYPERLINK("x") (40 → 3).',)
    assert done.n_held == 1
    assert any("Without a graded notebook" in line and "(1): 李 小龍." in line for line in (*done.on_marks, *done.on_students))


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_encoding_line_ends_and_separator_stay(tmp_path, course, ends, encoding, separator):
    rows = list(csv.reader(io.StringIO(GRADEBOOK)))
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=ends, quoting=csv.QUOTE_ALL).writerows(rows)
    before = text.getvalue().encode(encoding)
    done = filled(tmp_path, course, before)
    changed = text.getvalue().replace(f'"Mo, 10:00"{separator}""', f'"Mo, 10:00"{separator}"12"').replace('"40"', '"3"')
    assert done.data == changed.encode(encoding)


def test_a_table_in_an_old_encoding_keeps_its_bytes(tmp_path, course):
    text = GRADEBOOK.replace("李 小龍", "Søren").encode("cp1252")
    done = filled(tmp_path, course, text)
    assert done.data.count("Søren".encode("cp1252")) == 1
    assert len(done.data) == len(text) + 2 - 1


def test_filling_twice_is_filling_once(tmp_path, course):
    once = filled(tmp_path, course, GRADEBOOK).data
    assert filled(tmp_path, course, once).data == once


def test_marks_come_to_the_scale_of_the_table(tmp_path, course):
    done = filled(tmp_path, course, GRADEBOOK.replace(f"{FULL}.00", "100"))
    assert f",{OF_A_HUNDRED},7.5" in done.data.decode()  # 12 of all points
    assert any(f"from {FULL} points to the 100" in line for line in (*done.on_marks, *done.on_students))
    german = filled(tmp_path, course, GRADEBOOK.replace(f",{FULL}.00,", ',"100,0",')).data.decode()
    assert f"{OF_A_HUNDRED.replace('.', ',')},7.5" in german.replace('"', "")
    for none in ("", "0", "(read only)"):
        assert ",12,7.5" in filled(tmp_path, course, GRADEBOOK.replace(f"{FULL}.00", none)).data.decode()


def test_who_is_not_in_the_table_and_who_could_not_be_graded_is_listed(tmp_path, course):
    results = settled(
        graded_notebook("12345", 12),
        graded_notebook("4711", 5, name="stranger"),
        notes=(Note(Student("777", "hyp"), "x.pdf", "odd"),),
    )
    reported = " ".join(filled(tmp_path, course, GRADEBOOK, results).on_students)
    assert "not in the table (1): stranger (4711)" in reported
    assert "could not be graded as lecture 04 (1): hyp (777)" in reported


def test_a_folder_named_for_logins_is_matched_by_them(tmp_path, course):
    assert filled(tmp_path, course, GRADEBOOK, settled(graded_notebook("li", 9))).data.decode() == GRADEBOOK.replace(
        'B,"12"', 'B,"9"'
    )


def test_a_login_that_is_the_number_of_another_student_brings_no_mark(tmp_path, course):
    """Numbers of other systems overlap with Canvas's, and some logins can be chosen."""
    text = GRADEBOOK.replace("888,u3,li", "888,777,12345")
    done = filled(tmp_path, course, text)
    assert done.data.decode() == text.replace('"Mo, 10:00",,7.5', '"Mo, 10:00",12,7.5').replace("A,40, ,", "A,3, ,")
    names = canvas(saved(tmp_path, text)).names()
    assert (names["12345"], names["777"], names["888"]) == ('O, "Hara" Åse', '=HYPERLINK("x")', "李 小龍")


def test_a_column_is_found_by_its_title_or_is_asked_for(tmp_path, course):
    text = GRADEBOOK.replace("Lecture 04", "Homework")
    with pytest.raises(CannotGrade, match="Specify it with --column; the assignments are: 'Homework', 'Essay'"):
        filled(tmp_path, course, text)
    assert filled(tmp_path, course, text, column="Homework").column == "Homework (991)"
    assert filled(tmp_path, course, text, column="Homework (991)").column == "Homework (991)"
    only = text.replace(",Essay (992)", ",Essay")
    assert filled(tmp_path, course, only).column == "Homework (991)"
    assert filled(tmp_path, course, text.replace("Homework", "Self-attention")).column == "Self-attention (991)"
    for protected in ("ID", "Section", "Current Score", "Nothing"):
        with pytest.raises(CannotGrade, match="--column"):
            filled(tmp_path, course, text, column=protected)


def test_several_lectures_need_a_word(tmp_path, course):
    results = settled(graded_notebook("777", 3), graded_notebook("777", 5, "b.ipynb", lecture="01"))
    with pytest.raises(CannotGrade, match="--lecture NN"):
        filled(tmp_path, course, GRADEBOOK, results)
    assert ",3, ," in filled(tmp_path, course, GRADEBOOK, results, lecture="04").data.decode()


@pytest.mark.parametrize("title", ["Maximum Grade", "Maximum grade"])
def test_a_moodle_worksheet_is_filled_by_participant(tmp_path, title):
    results = settled(graded_notebook("123456", 12), graded_notebook("123458", 1))
    worksheet = WORKSHEET.replace("Maximum Grade", title)
    done = fill_moodle(moodle(saved(tmp_path, worksheet)), results, None, None)
    assert done.data.decode() == worksheet.replace('grading - ",,', f'grading - ",{OF_A_HUNDRED},')
    reported = " ".join(done.on_students)
    assert 'Without a graded notebook, left unchanged (1): =HYPERLINK("x").' in reported
    assert "123458" in reported


def test_a_worksheet_in_another_language_is_filled_by_column(tmp_path):
    text = WORKSHEET.replace(",Grade,", ",Bewertung,").replace("Participant", "Teilnehmer/in")
    with pytest.raises(CannotGrade, match="--column"):
        fill_moodle(moodle(saved(tmp_path, text)), settled(graded_notebook("123456", 12)), None, None)
    done = fill_moodle(moodle(saved(tmp_path, text)), settled(graded_notebook("123456", 12)), None, "Bewertung")
    assert done.n_marks == 1


@pytest.mark.parametrize(
    ("data", "output"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"PK\x03\x04\0\0", "save it as CSV"),
        (b'Student,ID\n"never closed,1\n', "row 2 a quotation mark"),
        (b'Student,ID\n"a"b,1\n', "row 2 a quotation mark"),
        (b"Student,ID\nKim,1,2\n", "row 2 has 3 cells, but the first row has 2"),
        (b"Name,Points\nKim,1\n", "has no column 'ID'.* with the LMS set to English"),
    ],
)
def test_a_broken_roster_is_reported_before_anything_is_graded(tmp_path, data, output):
    with pytest.raises(CannotGrade, match=output):
        canvas(saved(tmp_path, data))


def test_a_roster_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(CannotGrade, match=r"nowhere.csv cannot be read"):
        moodle(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    "text", ["a,b\n", "a", '"a\nb",c', "a,\n,b\n\n", '\ufeff"a","b"\r\n', "a,b\n1,2", ' a ,"x""y"\n', 'a"b,c\n']
)
def test_a_table_that_is_not_changed_is_the_same(text):
    table = RawTable.read(text.encode())
    assert table.data().decode() == text
    assert [table.values(row) for row in range(len(table.rows))] == [
        [cell.strip("\ufeff") if cell.startswith("\ufeff") else cell for cell in row] or [""]
        for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    ]


def test_what_must_be_quoted_is_quoted():
    table = RawTable.read(b'a,b\n1,"2"\n')
    table.replace(1, 0, 'x,"y')
    table.replace(1, 1, "3")
    assert table.data() == b'a,b\n"x,""y","3"\n'
    with pytest.raises(Broken):
        RawTable.read(b'a,"b\n')


def test_a_roster_knows_the_names_of_its_students(tmp_path):
    assert canvas(saved(tmp_path, GRADEBOOK)).names()["12345"].startswith("O")
    assert moodle(saved(tmp_path, WORKSHEET)).names()["123456"].startswith("O")
