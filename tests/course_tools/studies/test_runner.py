"""A study resumes after an interruption; a stale record is refused; a check finds differences; a failed run stops no other."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from course_tools.studies import CannotStudy, RecordedStudy, StaleStudy, Study, check, load, run_missing
from course_tools.studies.runner import require_fresh, run_one, state, workers
from course_tools.studies.study_record import read, record_path, write

ENVIRONMENT = os.environ | {"PYTHONPATH": f"{Path(__file__).parents[3]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def recorded(toy) -> RecordedStudy | None:
    return read(record_path(toy.path.parent, toy.name))


def changed(toy, first: str) -> Study:
    """The toy study with a statement at the beginning of its run."""
    text, head = toy.path.read_text(), "def run(setting, seed, device):\n"
    toy.path.write_text(text.replace(head, f"{head}    {first}\n"))
    return load(toy.name, toy.path.parent)


def test_all_settings_and_seeds_are_run_one_seed_after_another(toy, here, folder, ran):
    record = run_missing(toy, here, folder=folder)
    assert ran() == "10 20 11 21 "
    assert record.scores("b", "score") == [2, pytest.approx(2 + 1 / 3)]
    assert [run.texts for run in recorded(toy).of("b")] == [{"sample": "Exit, pursued\nby a bear — off"}] * 2
    assert record.machine.startswith("one CPU thread")
    assert state(toy) == recorded(toy).cost


def test_runs_of_one_worker_share_what_the_study_caches(toy, here, folder):
    """The file is executed once, so a list of the module grows from run to run."""
    text = (
        toy.path.read_text().replace("SEEDS =", "BEFORE = []\nSEEDS =").replace('"parameters": 7', '"parameters": len(BEFORE)')
    )
    toy.path.write_text(text)
    record = run_missing(changed(toy, "BEFORE.append(seed)"), here, folder=folder)
    assert sorted(run.scores["parameters"] for run in record.runs) == [1, 2, 3, 4]


def test_a_study_that_was_stopped_goes_on_and_runs_nothing_twice(toy, here, folder, ran):
    run_missing(toy, here, [0], folder=folder)
    assert state(toy).startswith("2 of 4 runs so far")
    run_missing(toy, here, [7, 8], folder=folder)
    assert state(toy).startswith("2 of 4 runs so far"), "other seeds do not complete the study"
    run_missing(toy, here, folder=folder)
    run_missing(toy, here, folder=folder)
    assert ran() == "10 20 17 27 18 28 11 21 "
    assert len(recorded(toy).runs) == 8


def test_what_ended_before_a_run_failed_is_kept(toy, here, folder, ran):
    (folder / "broken").touch()
    with pytest.raises(CannotStudy, match="1 of 4 runs failed; b, seed 1: FloatingPointError: the loss is nan"):
        run_missing(toy, here, folder=folder)
    assert len(recorded(toy).runs) == 3
    (folder / "broken").unlink()
    run_missing(toy, here, folder=folder)
    assert ran() == "10 20 11 21 "


def test_a_killed_worker_loses_nothing_that_was_done(toy, folder):
    deadly = changed(toy, "if seed and (FOLDER / 'kill').exists():\n        __import__('os')._exit(1)")
    (folder / "kill").touch()
    with pytest.raises(CannotStudy, match="run the same command to resume"), workers(1) as executor:
        run_missing(deadly, executor, folder=folder)
    assert [(run.name, run.seed) for run in recorded(toy).runs] == [("a", 0), ("b", 0)]


COMMAND = """
import sys
from pathlib import Path
from course_tools.studies.command import run_all

if __name__ == "__main__":
    run_all(["12_toy"], Path(sys.argv[1]), None, "cpu", 1, *sys.argv[2:])
"""


@pytest.mark.parametrize("dask", [(), pytest.param(("local",), marks=pytest.mark.slow)])
def test_a_study_whose_process_was_killed_goes_on_with_what_is_missing(toy, here, folder, ran, tmp_path, dask):
    if dask:
        pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    slow = changed(toy, "if seed and (FOLDER / 'wait').exists():\n        __import__('time').sleep(600)")
    (folder / "wait").touch()
    (script := tmp_path / "command.py").write_text(COMMAND, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script), str(folder), *dask], env=ENVIRONMENT) as process:
        while process.poll() is None and (recorded(toy) is None or len(recorded(toy).runs) < 2):
            time.sleep(0.05)
        process.kill()
    assert ran() == "10 20 "
    (folder / "wait").unlink()
    assert len(run_missing(slow, here, folder=folder).runs) == 4
    assert ran() == "10 20 11 21 "


PARENT = """
import os, time
from course_tools.studies.runner import workers

if __name__ == "__main__":
    with workers(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
        time.sleep(600)
"""


def test_no_worker_outlives_a_study_that_was_killed(tmp_path):
    (script := tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([worker], timeout=300)
    assert not worker.is_running()


@pytest.mark.parametrize("changed", ["source", "library", "torch", "machine"])
def test_runs_of_another_version_or_machine_are_not_continued(toy, here, folder, ran, changed):
    run_missing(toy, here, [0], folder=folder)
    write(replace(recorded(toy), **{changed: "another"}), record_path(folder, toy.name))
    run_missing(toy, here, [0], folder=folder)
    assert ran() == "10 20 10 20 "


def test_a_stale_record_is_refused_and_named(toy, here, folder):
    with pytest.raises(CannotStudy, match="not recorded yet: `course study 12_toy` runs it"):
        require_fresh(toy, recorded(toy))
    run_missing(toy, here, [0], folder=folder)
    assert require_fresh(toy, recorded(toy)) == recorded(toy)
    toy.path.write_text(toy.path.read_text().replace("seed / 3", "seed / 4"))
    changed = load("12_toy", folder)
    with pytest.raises(StaleStudy, match="changed since it was recorded"):
        check(changed, here, folder=folder)
    assert state(changed) == "stale: the study has changed since"


def test_a_worker_with_another_copy_of_the_study_refuses(toy, folder):
    with pytest.raises(StaleStudy, match="another version"):
        run_one(toy.name, "another", "a", 0, "cpu", folder)


@pytest.mark.parametrize(
    ("score", "planted", "told"),
    [
        ("score", 1.09, []),
        ("score", 1.2, ["a, seed 0: score was 1.2, is 1.0; the tolerance is 0.1"]),
        ("parameters", 8, ["a, seed 0: parameters was 8, is 7; the tolerance is 0.0008"]),
        ("lost", 1, ["a, seed 0: lost was 1, is None; the tolerance is 0.0001"]),
    ],
)
def test_a_check_repeats_the_cheapest_run_and_finds_a_planted_difference(toy, here, folder, ran, score, planted, told):
    record = run_missing(toy, here, folder=folder)
    runs = [replace(run, seconds=1.0 if (run.name, run.seed) == ("a", 0) else 2.0) for run in record.runs]
    runs = [replace(run, scores={**run.scores, score: planted}) if run.seconds == 1.0 else run for run in runs]
    write(replace(record, runs=runs, library="before"), record_path(folder, toy.name))
    assert check(toy, here, folder=folder) == told
    assert ran() == "10 20 11 21 10 "
    assert recorded(toy).library == ("before" if told else toy.library)


def test_a_repeated_run_that_fails_is_named(toy, here, folder):
    record = run_missing(toy, here, folder=folder)
    runs = [replace(run, seconds=1.0 if (run.name, run.seed) == ("b", 1) else 2.0) for run in record.runs]
    write(replace(record, runs=runs), record_path(folder, toy.name))
    (folder / "broken").touch()
    with pytest.raises(CannotStudy, match="b, seed 1: FloatingPointError: the loss is nan"):
        check(toy, here, folder=folder)


def test_a_check_compares_curves(toy, here, folder):
    record = run_missing(toy, here, [0], folder=folder)
    runs = [replace(run, seconds=float(run.name == "b"), curve={10: 0.25, 20: 9.0}) for run in record.runs]
    write(replace(record, runs=runs), record_path(folder, toy.name))
    assert check(toy, here, folder=folder) == ["a, seed 0: curve at 20 was 9.0, is 1.0; the tolerance is 0.101"]


def test_without_a_gpu_a_study_for_one_says_so(toy, here, folder, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(CannotStudy, match="the device cuda is not available"):
        run_missing(toy, here, device="cuda", folder=folder)


@pytest.mark.slow
def test_a_study_on_a_dask_cluster_survives_a_killed_worker(toy, folder, ran):
    pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    killing = "(FOLDER / 'kill').unlink()\n        __import__('psutil').Process().kill()"
    deadly = changed(toy, f"if (setting, seed) == (2, 0) and (FOLDER / 'kill').exists():\n        {killing}")
    (folder / "kill").touch()
    with workers(2, "local") as executor:
        run_missing(deadly, executor, folder=folder)
    assert not (folder / "kill").exists()
    assert {(run.name, run.seed) for run in recorded(toy).runs} == {("a", 0), ("b", 0), ("a", 1), ("b", 1)}
    assert set(ran().split()) == {"10", "20", "11", "21"}
