"""Many notebooks: nothing that happens over one touches another, and a grading that was killed goes on where it was."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from course_tools.grading import journal as journals
from course_tools.grading.batch import GradingOptions, _grade_on_worker, grade_all, grade_notebook
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Intake, handed_in
from course_tools.grading.journal import Journal, grading_version, key
from course_tools.grading.notebook_result import NotebookResult
from course_tools.grading.pipeline import grade
from tests.course_tools.grading.student_notebooks import ROOT, Refusing, StandIn, notebook

OPTIONS = GradingOptions(StandIn, ROOT)
RESULTS = ("grades.csv", "flags.csv", "report.json", "index.html")


def school(folder: Path, **notebooks: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in notebooks.items():
        (folder / f"{name}.ipynb").write_bytes(data)
    return folder


def written(out: Path) -> dict[str, bytes]:
    files = [out / name for name in RESULTS] + sorted((out / "students").iterdir())
    return {path.name: path.read_bytes() for path in files}


def graded(path: Path, out: Path, options: GradingOptions = OPTIONS):
    with handed_in(path) as intake, Journal(out) as journal:
        return {item.submission.student.id: item for item in grade_all(intake.submissions, journal, options)}


@pytest.mark.usefixtures("started_quickly")
def test_each_notebook_gets_its_own_marks_whatever_the_others_do(tmp_path):
    path = school(
        tmp_path / "in",
        ada=notebook(e1="# earns 12"),
        bad=notebook(e1="# fails"),
        dead=notebook(e1="# dies"),
        empty=b"",
        eve=notebook(e2="# earns 3"),
        other=b"[1, 2]",
        unknown=b'{"cells": []}',
    )
    found = graded(path, tmp_path / "j", GradingOptions(StandIn, ROOT, jobs=2))
    assert {id: item.result.points for id, item in found.items() if item.result and item.result.marks} == {"ada": 12, "eve": 3}
    assert "the engine stopped" in found["bad"].failure
    assert "died twice" in found["dead"].failure
    assert "is empty" in found["empty"].result.note
    assert "not a notebook" in found["other"].result.note
    assert "--lecture" in found["unknown"].result.note
    keys = [json.loads(line)["key"] for line in (tmp_path / "j").read_bytes().splitlines()]
    assert len(keys) == len(set(keys)) == 5  # what failed is not noted, and so is tried again the next time


@pytest.mark.usefixtures("started_quickly")
def test_what_is_in_the_journal_is_not_graded_again(tmp_path):
    path = school(tmp_path / "in", ada=notebook(e1="# earns 12"))
    first = graded(path, tmp_path / "j")
    lines = (tmp_path / "j").read_bytes()
    again = graded(path, tmp_path / "j", GradingOptions(Refusing, ROOT))  # no engine is started
    assert again["ada"].result == first["ada"].result
    assert (tmp_path / "j").read_bytes() == lines
    with pytest.raises(CannotGrade, match="layer against forks"):
        graded(path, tmp_path / "j", GradingOptions(Refusing, ROOT, seed=1))
    with pytest.raises(CannotGrade, match="layer against forks"):
        graded(path, tmp_path / "j", GradingOptions(Refusing, ROOT, require_isolation=True))


@pytest.mark.slow
def test_killed_half_way_and_started_again_the_result_is_that_of_an_undisturbed_run(tmp_path):
    notebooks = {
        f"s{i:02}": notebook(e1=f"# earns {i} \n# waits 60\n# thinks thought {i % 3}", e2="# flag odd") for i in range(12)
    }
    path = school(tmp_path / "in", **notebooks)
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    code = (
        "from pathlib import Path; from course_tools.grading.batch import GradingOptions;"
        "from course_tools.grading.pipeline import grade;"
        "from tests.course_tools.grading.student_notebooks import StandIn, ROOT;"
        f"grade(Path({str(path)!r}), GradingOptions(StandIn, ROOT), Path({str(out)!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    journal, deadline = out / "journal.jsonl", time.monotonic() + 600
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().splitlines()
    assert 3 <= len(done) < 12
    assert not (out / "grades.csv").exists()
    with journal.open("ab") as file:
        file.write(b'{"key": "half a li')  # as a kill within the writing would leave it
    assert grade(path, OPTIONS, out) == grade(path, OPTIONS, undisturbed) == 0
    assert written(out) == written(undisturbed)
    assert set(done) <= set(journal.read_bytes().splitlines())
    assert journal.read_bytes() == (undisturbed / "journal.jsonl").read_bytes()
    assert grade(path, OPTIONS, out) == 0
    assert written(out) == written(undisturbed)


def test_a_journal_with_strange_lines_keeps_the_good_ones(tmp_path):
    result = NotebookResult("04", (), "note", {"04.1": ("a", "b")}, "isolation")
    with Journal(tmp_path / "j") as journal:
        journal.add("k", result)
    strange = b'\xff\xfe\n[]\n{"key": "x", "result": {"lecture": 1}}\nnull\n{"key": "torn'
    (tmp_path / "j").write_bytes((tmp_path / "j").read_bytes() + strange)
    with Journal(tmp_path / "j") as journal:
        assert journal.get("k") == result
        assert journal.get("x") is None
        journal.add("l", result)
    with Journal(tmp_path / "j") as journal:
        assert journal.get("l") == result


def test_a_grading_leaves_its_lines_in_the_order_of_its_notebooks_and_still_locked(tmp_path):
    results = {key: NotebookResult("04", (), key) for key in "abcd"}
    with Journal(tmp_path / "j") as journal:
        for key in "dcab":
            journal.add(key, results[key])
        journal.put_in_order(["a", "b", "x", "c", "a"])
        with pytest.raises(CannotGrade, match="another grading is running"):
            Journal(tmp_path / "j")
        journal.add("e", results["a"])
    assert [json.loads(line)["key"] for line in (tmp_path / "j").read_bytes().splitlines()] == [*"dabce"]
    with Journal(tmp_path / "j") as journal:
        assert {key: journal.get(key) for key in "abcd"} == results
    assert [path.name for path in tmp_path.iterdir()] == ["j"]


def test_a_second_grading_into_the_same_folder_is_refused(tmp_path):
    with Journal(tmp_path / "j"), pytest.raises(CannotGrade, match="another grading is running"):
        Journal(tmp_path / "j")


@pytest.mark.usefixtures("started_quickly")
def test_a_full_disk_says_so_and_keeps_what_was_done(tmp_path, monkeypatch):
    path = school(tmp_path / "in", ada=notebook(e1="# earns 12"), bob=notebook(e1="# earns 5"))
    real, calls = os.fsync, []

    def fills_up(file):
        calls.append(file)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(journals.os, "fsync", fills_up)
    with pytest.raises(CannotGrade, match=r"the disk is full.*Finished results are kept"):
        graded(path, tmp_path / "j")
    monkeypatch.setattr(journals.os, "fsync", real)
    found = graded(path, tmp_path / "j")
    assert {id: item.result.points for id, item in found.items()} == {"ada": 12, "bob": 5}


@pytest.mark.usefixtures("started_quickly")
def test_an_unreadable_file_costs_nobody_else_anything(tmp_path):
    path = school(tmp_path / "in", ada=notebook(e1="# earns 12"), eve=notebook(e1="# earns 1"))
    with handed_in(path) as intake, Journal(tmp_path / "j") as journal:

        def refuse():
            raise PermissionError(errno.EACCES, "Permission denied")

        broken = [type(item)(item.student, item.source, item.file_name, refuse) for item in intake.submissions[:1]]
        first, second = grade_all([*broken, *intake.submissions[1:]], journal, OPTIONS)
    assert (first.result, second.result.points) == (None, 1)
    assert "cannot be read: permission denied" in first.failure


def test_the_key_of_a_notebook_hangs_on_its_bytes_the_checks_and_what_is_asked(tmp_path):
    keys = {key(b"x", "s", "04"), key(b"y", "s", "04"), key(b"x", "t", "04"), key(b"x", "s", None), key(b"x", "s", "0", "4")}
    assert len(keys) == 5
    assert grading_version(0, ROOT) == grading_version(0, ROOT) != grading_version(1, ROOT)


def test_an_engine_that_does_not_start_is_reported_before_anything_is_graded(tmp_path):
    path = school(tmp_path / "in", ada=notebook(e1="# earns 12"))
    with pytest.raises(CannotGrade, match="leave --require-isolation out"):
        graded(path, tmp_path / "j", GradingOptions(Refusing, ROOT, require_isolation=True))


def test_no_process_is_left_over(tmp_path):
    import psutil

    graded(school(tmp_path / "in", ada=notebook(e1="# earns 12")), tmp_path / "j", GradingOptions(StandIn, ROOT, jobs=3))
    with contextlib.suppress(psutil.NoSuchProcess):
        left = [child for child in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]
        assert left == []


def test_a_result_says_what_is_odd_about_a_notebook():
    course, engine = Course.at(ROOT), StandIn()
    result = grade_notebook(notebook("01", e1="# earns 1"), "04_self_attention.ipynb", engine, course, None)
    assert (result.lecture, result.note) == ("01", "Its name says lecture 04, but its cells are those of lecture 01.")
    result = grade_notebook(notebook("01", e1="# earns 1"), "x.ipynb", engine, course, "04")
    assert (result.lecture, result.note) == (None, "It is the notebook of lecture 01, not of lecture 04.")
    result = grade_notebook(b'{"cells": []}', "x.ipynb", engine, course, "04")
    assert (result.lecture, result.points) == ("04", 0)
    assert result.isolation == "No layer: this is a stand-in."


def test_an_intake_of_nothing_needs_no_engine(tmp_path):
    with Journal(tmp_path / "j") as journal:
        assert grade_all(Intake((), ()).submissions, journal, GradingOptions(Refusing, ROOT)) == []


def test_a_notebook_that_stalls_is_killed_and_costs_the_others_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("course_tools.grading.batch.NOTEBOOK_LIMIT", 2.0)
    path = school(tmp_path / "in", ada=notebook(e1="# waits 600000"), bob=notebook(e1="# earns 12"))
    begun = time.monotonic()
    found = graded(path, tmp_path / "j", GradingOptions(StandIn, ROOT))
    stalled, fine = found["ada"], found["bob"]
    assert (stalled.result, fine.result.points) == (None, 12)
    assert "longer than 2 seconds" in stalled.failure
    assert time.monotonic() - begun < 600.0


@pytest.mark.usefixtures("started_quickly")
def test_one_student_cannot_have_slow_notebooks_graded_for_hours(tmp_path):
    """Forty notebooks whose answers end just before their limits would take half a day."""
    path = tmp_path / "in"
    for i in range(9):
        path.mkdir(exist_ok=True)
        school(path / "eve", **{f"nb{i}": notebook(e1=f"# takes 500 earns 1 {i}")})
    school(path / "zoe", nb=notebook(e1="# earns 12"))
    with handed_in(path) as intake, Journal(tmp_path / "j") as journal:
        *of_eve, zoe = grade_all(intake.submissions, journal, OPTIONS)
        assert [item.result is not None for item in of_eve] == [True] * 3 + [False] * 6
        assert {item.failure for item in of_eve[3:]} == {"was left out: other notebooks of this student took 20 minutes."}
        assert zoe.result.points == 12
        again = grade_all(intake.submissions, journal, OPTIONS)
        assert [item.result is not None for item in again] == [True] * 6 + [False] * 3 + [True]


@pytest.mark.full
@pytest.mark.slow
def test_a_dask_worker_that_is_killed_loses_nothing_and_counts_nothing_twice(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    notebooks = {f"s{i:02}": notebook(e1=f"# earns {i} \n# waits 150", e2="# flag odd") for i in range(12)}
    path, out, alone = school(tmp_path / "in", **notebooks), tmp_path / "out", tmp_path / "alone"
    assert grade(path, replace(OPTIONS, require_isolation=True), alone) == 0
    address = {"dashboard_address": ":0", "n_workers": 2, "threads_per_worker": 1}
    with distributed.LocalCluster(**address) as cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill_one() -> None:
            journal, deadline = out / "journal.jsonl", time.monotonic() + 600
            while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)  # each worker has a notebook at work, and another that waits

        with ThreadPoolExecutor(1) as threads:
            killing = threads.submit(kill_one)
            assert grade(path, replace(OPTIONS, dask=cluster.scheduler_address), out) == 0
            killing.result()
        assert pids[0] not in client.run(os.getpid).values()
    assert written(out) == written(alone)
    assert (out / "journal.jsonl").read_bytes() == (alone / "journal.jsonl").read_bytes()


def test_on_a_dask_cluster_a_worker_without_isolation_refuses(tmp_path):
    pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    path = school(tmp_path / "in", ada=notebook(e1="# earns 12"))
    with pytest.raises(CannotGrade, match=r"the worker on .* cannot grade: the layer against forks does not hold here"):
        graded(path, tmp_path / "j", GradingOptions(Refusing, ROOT, dask="local"))


def test_a_dask_worker_with_another_version_of_the_course_refuses():
    with pytest.raises(CannotGrade, match="another version of the course"):
        _grade_on_worker(OPTIONS, "another", notebook(e1="# earns 12"), "ada.ipynb", {})
