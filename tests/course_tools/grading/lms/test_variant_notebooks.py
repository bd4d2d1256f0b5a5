"""Each student's notebooks have the student's variants, and those are the ones by which they are graded."""

import csv
import json

import pytest

from course_tools import cli
from course_tools.bank.variants import chosen_for, variant
from course_tools.grading.batch import GradingOptions, grade_all
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.submissions import handed_in
from course_tools.grading.journal import Journal
from course_tools.grading.lms.variant_notebooks import read_secret, with_variants, write_variants
from course_tools.grading.self_assessment import named_variants
from tests.course_tools.grading.student_notebooks import ROOT, StandIn, notebook

ROSTER = "Student,ID,SIS Login ID,Section\nAda,17,ada,1\nBob,18,bob,1\n"


def test_a_notebook_without_variants_stays_as_it_is():
    text = (ROOT / "lectures" / "12_detection.ipynb").read_text(encoding="utf-8")
    assert with_variants(text, {}) == text


def test_each_student_of_a_roster_gets_notebooks_with_their_variants(tmp_path, capsys):
    roster, secret, out = tmp_path / "roster.csv", tmp_path / "secret.txt", tmp_path / "out"
    roster.write_text(ROSTER)
    arguments = ["variants", "--secret", str(secret), "--canvas", str(roster), "--lecture", "12", "--out", str(out)]
    assert cli.main(arguments) == 0
    assert "notebooks of 2 students" in capsys.readouterr().out
    with (out / "variants.csv").open(newline="") as file:
        listed = {row.pop("id"): row for row in csv.DictReader(file)}
    key = read_secret(secret)
    assert listed == {student: chosen_for(student, key) for student in ("17", "18")}
    for student, chosen in listed.items():
        (written,) = (out / student).iterdir()
        data = written.read_bytes()
        assert named_variants(data) == {id: name for id, name in chosen.items() if id.startswith("12.")}
        sources = " ".join("".join(cell["source"]) for cell in json.loads(data)["cells"])
        for id in ("12.1", "12.3", "12.4"):
            assert variant(id, chosen[id]).words in " ".join(sources.split())
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    assert cli.main(arguments) == 0  # the secret is kept, and so are the variants
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before


def test_the_student_of_the_lms_decides_and_the_secret_reaches_no_journal(tmp_path, monkeypatch):
    seen, secret = {}, b"a secret of the instructor"
    (tmp_path / "in").mkdir()
    for student in ("ada", "bob"):
        (tmp_path / "in" / f"{student}.ipynb").write_bytes(notebook(e1="# earns 1"))

    class Here:
        def __init__(self, options):
            assert options.variants is None

        def grade(self, data, file_name, chosen):
            seen[file_name] = chosen
            return None, "not graded here"

        def close(self):
            return

    monkeypatch.setattr("course_tools.grading.batch.GradingProcesses", Here)
    with handed_in(tmp_path / "in") as intake, Journal(tmp_path / "j") as journal:
        grade_all(intake.submissions, journal, GradingOptions(StandIn, ROOT, variants=secret))
    assert seen == {f"{student}.ipynb": chosen_for(student, secret) for student in ("ada", "bob")}


@pytest.mark.parametrize(
    ("students", "numbers", "secret", "said"),
    [
        (["../x"], ["12"], "0123456789abcdef", "cannot be used as the name of a folder"),
        (["17"], ["04"], "0123456789abcdef", "no exercise of lecture 04 has variants"),
        (["17"], ["12"], "short", "shorter than 16 bytes"),
    ],
)
def test_what_cannot_be_written_is_said(tmp_path, students, numbers, secret, said):
    (tmp_path / "secret").write_text(secret)
    with pytest.raises(CannotGrade, match=said):
        write_variants(ROOT, students, tmp_path / "secret", tmp_path / "out", numbers)


def test_a_secret_that_is_not_there_is_said(tmp_path):
    with pytest.raises(CannotGrade, match="cannot be read"):
        read_secret(tmp_path / "nothing")
