"""`course grade` from what was handed in to the last file, and every way in which it can be asked wrongly."""

import csv
import io
import json
import shutil
import zipfile

import pytest

from course_tools import cli as command
from course_tools.bank import exercises
from course_tools.grading.batch import GradingOptions
from course_tools.grading.files import CannotGrade
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.lms.canvas_api import Sent
from course_tools.grading.pipeline import Tables, dry_run, grade
from course_tools.grading.policy import Policy
from tests.course_tools.grading.lms.test_rosters import GRADEBOOK, saved
from tests.course_tools.grading.report.test_flags import DISGUISED, ODD
from tests.course_tools.grading.student_notebooks import ROOT, Refusing, StandIn, notebook

OPTIONS = GradingOptions(StandIn, ROOT)
pytestmark = pytest.mark.usefixtures("started_quickly")


@pytest.fixture
def download(tmp_path):
    """A download of Canvas with everything odd in it."""
    path = tmp_path / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ohara_12345_1_04_self_attention.ipynb", notebook(e1="# earns 2"))
        archive.writestr("ohara_12345_2_04_self_attention-1.ipynb", b"\xef\xbb\xbf" + notebook(e1="# earns 12"))
        archive.writestr("hyp_LATE_777_3_renamed (1).ipynb", notebook(e2="# earns 6").decode().encode("utf-16"))
        archive.writestr("li_888_4_nb.ipynb", b"")
        archive.writestr("kim_889_5_other.ipynb", notebook("01", e1="# earns 3"))
        archive.writestr("pdf_890_6_work.pdf", b"%PDF")
    return path


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


def test_a_download_becomes_marks_pages_and_a_filled_gradebook(tmp_path, download, capsys):
    roster = saved(tmp_path, GRADEBOOK)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    sent = []

    def send(results, out):
        sent.append((len(results.students), (out / "grades.csv").exists()))
        return Sent(["Two marks went to the moon."], [])

    assert grade(download, GradingOptions(StandIn, ROOT, "04"), None, Tables(canvas=roster), send=send) == 0
    assert sent == [(5, True)]  # only once the results are written
    out = tmp_path / "submissions_graded"
    found = {row["name"]: row for row in rows(out / "grades.csv")}
    ohara, hyp, li = 'O, "Hara" Åse', '\'=HYPERLINK("x")', "李 小龍"
    assert {name: row["points"] for name, row in found.items()} == {ohara: "12", hyp: "6", li: "", "kim": "", "pdf": ""}
    assert "the newest resubmission counts" in found[ohara]["notes"]
    assert found[hyp]["late"] == "late"
    assert "empty" in found[li]["notes"]
    assert "notebook of lecture 01" in found["kim"]["notes"]
    assert "not a notebook" in found["pdf"]["notes"]
    assert len(list((out / "students").iterdir())) == 5
    assert '"Mo, 10:00",12,7.5' in (out / "canvas.csv").read_text()
    assert json.loads((out / "report.json").read_text(encoding="utf-8"))["seed"] == 0
    output = capsys.readouterr().out
    assert "2 of 5 students graded" in output
    assert "2 marks in the column 'Lecture 04 (991)'" in output
    assert "index.html" in output
    assert "went to the moon" in output
    assert "went to the moon" in (out / "index.html").read_text(encoding="utf-8")
    with zipfile.ZipFile(out / "feedback_canvas.zip") as archive:
        assert len(archive.namelist()) == 4  # for each student with a notebook
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_the_results_may_lie_within_what_was_handed_in(tmp_path):
    (tmp_path / "ada.ipynb").write_bytes(notebook(e1="# earns 12"))
    for _ in range(2):
        assert grade(tmp_path, OPTIONS, tmp_path / "out") == 0
        assert [row["id"] for row in rows(tmp_path / "out" / "grades.csv")] == ["ada"]


@pytest.mark.slow
def test_with_the_engine_itself_a_solved_notebook_earns_everything_and_an_untouched_one_nothing(tmp_path):
    (tmp_path / "in").mkdir()
    for name, folder in (("ada", "solutions"), ("bob", "lectures")):
        shutil.copy(ROOT / folder / "04_self_attention.ipynb", tmp_path / "in" / f"{name}.ipynb")
    assert grade(tmp_path / "in", GradingOptions(Engine, ROOT, seed=None), tmp_path / "out") == 0
    ada, bob = rows(tmp_path / "out" / "grades.csv")
    asked = exercises("04")
    assert (ada["points"], bob["points"]) == (str(sum(item.points for item in asked)), "0")
    assert ada["of"] == str(sum(item.points for item in asked if not item.extra))
    assert "solation (" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_seed_that_nobody_knows_is_drawn_once_and_kept(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_bytes(notebook(e1="# earns 12"))
    seeds = []
    for out in ("a", "a", "b"):
        grade(tmp_path / "in", GradingOptions(StandIn, ROOT, seed=None), tmp_path / out)
        seeds.append(json.loads((tmp_path / out / "report.json").read_text(encoding="utf-8"))["seed"])
    assert seeds[0] == seeds[1] != seeds[2]
    assert (tmp_path / "a" / "journal.jsonl").read_bytes().count(b"\n") == 1
    assert not [page for page in (tmp_path / "a" / "students").iterdir() if str(seeds[0]) in page.read_text(encoding="utf-8")]


def test_a_student_who_is_gone_has_no_page_any_more(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("ada", "bob"):
        (folder / f"{name}.ipynb").write_bytes(notebook(e1="# earns 12"))
    grade(folder, OPTIONS, tmp_path / "out")
    (folder / "bob.ipynb").unlink()
    grade(folder, OPTIONS, tmp_path / "out")
    assert len(list((tmp_path / "out" / "students").iterdir())) == 1


def test_a_roster_that_cannot_be_filled_costs_no_mark(tmp_path, download, capsys):
    roster = saved(tmp_path, GRADEBOOK.replace("Lecture 04", "Homework"))
    assert grade(download, GradingOptions(StandIn, ROOT, "04"), tmp_path / "out", Tables(canvas=roster)) == 1
    assert "✗ which column" in capsys.readouterr().out
    assert len(rows(tmp_path / "out" / "grades.csv")) == 5
    assert not (tmp_path / "out" / "canvas.csv").exists()


def test_a_notebook_that_could_not_be_graded_shows_in_the_exit_status(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_bytes(notebook(e1="# fails"))
    assert grade(tmp_path / "in", OPTIONS, tmp_path / "out") == 1
    assert "Not graded" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_broken_roster_is_reported_before_anything_is_written(tmp_path, download):
    with pytest.raises(CannotGrade, match="no column 'ID'"):
        grade(download, OPTIONS, tmp_path / "out", Tables(canvas=saved(tmp_path, "a,b\n1,2\n")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["grade", "nowhere"], 1, "no folder or zip nowhere"),
        (["grade", "{folder}"], 1, "contains no file"),
        (["grade", "{folder}", "--lecture", "99"], 2, "there is no lecture 99"),
        (["grade", "{folder}", "--canvas", "nowhere.csv"], 1, "cannot be read"),
        (["grade", "{file}"], 1, "is not a readable zip"),
        (["grade", "{folder}", "--out", "{file}/x"], 1, "contains no file"),
        (["export-nbgrader", "{file}/x"], 1, "cannot be created"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(tmp_path, capsys, arguments, status, output):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    names = {"folder": str(tmp_path / "folder"), "file": str(tmp_path / "file")}
    assert command.main([argument.format(**names) for argument in arguments]) == status
    reported = capsys.readouterr().err
    assert reported.startswith("course: ")
    assert output in reported
    assert reported.count("\n") == 1


def test_the_results_cannot_go_where_a_file_is(tmp_path, download):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotGrade, match="cannot be created"):
        grade(download, OPTIONS, tmp_path / "file")


def test_earlier_marks_change_only_where_that_is_accepted(tmp_path, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(notebook(e1="# earns 12"))
    assert grade(folder, OPTIONS, out) == 0
    overrides = tmp_path / "overrides.csv"
    overrides.write_text("id,exercise,points,reason\nada,04.1,9,copied\n")
    (tmp_path / "policy.toml").write_text("overrides = 'overrides.csv'")
    policy, before = Policy.read(tmp_path / "policy.toml"), {path: path.read_bytes() for path in out.rglob("*.*")}
    assert grade(folder, OPTIONS, out, policy=policy) == 1
    assert "ada, 04.1: 12 → 9 override: copied" in capsys.readouterr().out
    assert [row["after"] for row in rows(out / "changes.csv")] == ["9", "9"]
    assert {path: path.read_bytes() for path in before} == before
    assert grade(folder, OPTIONS, out, policy=policy, accept=bool) == 0
    assert [row["points"] for row in rows(out / "grades.csv")] == ["9"]
    assert "override lowers a mark: ada (ada), 04.1: 9, but the checks give 12" in capsys.readouterr().out
    assert (out / "changes.csv").exists()
    assert grade(folder, OPTIONS, out, policy=policy) == 0
    assert not (out / "changes.csv").exists()


def test_a_dry_run_names_who_and_what_would_be_graded_and_leaves_nothing(tmp_path, download, capsys):
    roster = saved(tmp_path, GRADEBOOK)
    (tmp_path / "essays.csv").write_text("id,lecture,item,points,of,comment\n888,04,essay,8,10,\n4711,04,essay,8,10,\n")
    (tmp_path / "policy.toml").write_text("by_hand = 'essays.csv'")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    policy = Policy.read(tmp_path / "policy.toml")
    assert dry_run(download, GradingOptions(StandIn, ROOT, "04"), None, Tables(canvas=roster), policy) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    said = capsys.readouterr().out
    for line in (
        "No layer: this is a stand-in.",
        "Lecture 04, Self-attention: 2 students.",
        "3 marks in the column 'Lecture 04 (991)'. Cells that hold a mark now: 2.",
        f"The results go to {tmp_path / 'submissions_graded'}, a new folder.",
        "li_888_4_nb.ipynb: The file is empty.",
        "notebook of lecture 01",
        "not a notebook",
        "neither among the submissions nor in your table (1): 4711.",
        "Nothing was run and nothing was written.",
    ):
        assert line in said
    assert "Existing marks" not in said
    assert dry_run(download, GradingOptions(StandIn, ROOT, "04"), None, Tables(canvas=roster, column="Quiz")) == 1
    assert "✗ which column" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="layer against forks"):
        dry_run(download, GradingOptions(Refusing, ROOT, "04"))


def test_a_dry_run_is_asked_for_in_the_command(tmp_path, download, capsys):
    out = tmp_path / "out"
    assert command.main(["grade", str(download), "--out", str(out), "--dry-run"]) == 0
    assert "solation (" in (said := capsys.readouterr().out)
    assert "Lecture 01" in said
    assert not out.exists()


def test_one_lecture_after_all_of_them_takes_the_results_that_are_there(tmp_path, download, capsys):
    out = tmp_path / "out"
    assert grade(download, OPTIONS, out) == 0
    assert {row["name"]: row["points"] for row in rows(out / "grades.csv")}["kim"] == "3"
    # Without an engine nothing can be graded again, and leaving out a lecture changes no mark of the other.
    assert grade(download, GradingOptions(Refusing, ROOT, "04"), out, Tables(canvas=saved(tmp_path, GRADEBOOK))) == 0
    assert "2 marks in the column" in capsys.readouterr().out
    assert "notebook of lecture 01" in {row["name"]: row["notes"] for row in rows(out / "grades.csv")}["kim"]


def test_similar_solutions_get_a_page_and_lose_it_with_the_flag(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    own = "# earns 3\n" + ODD, "# earns 5\n" + DISGUISED
    for name, source in zip(("ada", "bob"), own, strict=True):
        (folder / f"{name}.ipynb").write_bytes(notebook(e2=source, e4=source.replace("causal_mask", "split_heads")))
    assert grade(folder, OPTIONS, out) == 0
    (page,) = (out / "similar").iterdir()
    assert "# my own idea" in page.read_text(encoding="utf-8")
    assert f'href="similar/{page.name}"' in (out / "index.html").read_text(encoding="utf-8")
    assert "# my own idea" in next((out / "students").glob("bob-*")).read_text(encoding="utf-8")
    (folder / "bob.ipynb").unlink()
    assert grade(folder, OPTIONS, out) == 0
    assert not list((out / "similar").iterdir())
