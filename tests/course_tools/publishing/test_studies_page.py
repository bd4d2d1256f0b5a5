"""The page of studies has the question, record and finding of each study; a missing or stale record is stated, not shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from course_tools.publishing.studies_page import studies_page
from course_tools.studies import RecordedRun, RecordedStudy, load
from course_tools.studies.study_record import read, write

TOY = '''"""Is it?

Budget: none.
"""

SETTINGS = {"a": 1, "b": 2}


def run(setting, seed, device):
    return {}


def figure(study):
    return None, "A flat line."


def finding(study):
    return f"A is {study.mean('a', 'score'):.2f}."
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "authoring" / "studies"
    folder.mkdir(parents=True)
    (folder / "12_toy.py").write_text(TOY)
    study = load("12_toy", folder)
    record = RecordedStudy("12_toy", study.source_on("cpu"), "", "3.11.7", "2.13.0", "one CPU thread")
    for run in (
        RecordedRun("a", 0, {"score": 0.25}, {}, 60.0),
        RecordedRun("a", 1, {"score": 0.5}, {}, 60.0),
        RecordedRun("b", 0, {"n": 4_321}, {}, 60.0),
    ):
        record = record.with_run(run)
    write(record, folder / "12_toy.json")
    return tmp_path


def test_a_recorded_study_is_shown_whole(root):
    assert studies_page(root).partition("## ")[2] == (
        "12_toy\n\n**Is it?**\n\nBudget: none.\n\n"
        "| setting | seeds | score | n |\n| --- | --- | --- | --- |\n"
        "| a | 2 | 0.375 (0.25 to 0.5) |  |\n| b | 1 |  | 4,321 |\n\n"
        "*3 runs, 3 minutes of one CPU thread, torch 2.13.0.*\n\n"
        "**Figure.** A flat line.\n\n**Finding.** A is 0.38.\n"
    )


def test_the_record_of_a_gpu_follows_that_of_the_cpu(root):
    folder = root / "authoring" / "studies"
    on_cpu = read(folder / "12_toy.json")
    on_gpu = replace(on_cpu, source=load("12_toy", folder).source_on("cuda"), machine="one fast GPU")
    write(on_gpu.with_run(RecordedRun("a", 0, {"score": 1.0}, {}, 60.0)), folder / "12_toy.cuda.json")
    before, _, after = studies_page(root).partition("**On a GPU**, with its own settings:\n\n")
    assert "A is 0.38." in before
    assert "| a | 2 | 0.75 (0.5 to 1) |" in after
    assert "*3 runs, 3 minutes of one fast GPU, torch 2.13.0.*" in after
    assert "A is 0.75." in after


def test_of_a_study_that_lacks_a_setting_neither_figure_nor_finding_is_shown(root):
    path = root / "authoring" / "studies" / "12_toy.json"
    record = read(path)
    write(replace(record, runs=[run for run in record.runs if run.name == "a"]), path)
    shown = studies_page(root)
    assert "| a | 2 | 0.375 (0.25 to 0.5) |" in shown
    assert shown.endswith("*Not recorded yet: b. `course study 12_toy` runs them.*\n")


def test_a_study_without_a_record_or_with_a_stale_one_shows_no_number(root):
    study = root / "authoring" / "studies" / "12_toy.py"
    study.write_text(TOY.replace("return {}", "return {'score': 1}"))
    assert "Changed since it was recorded" in studies_page(root)
    study.with_suffix(".json").unlink()
    assert "Not recorded yet: `course study 12_toy` runs it." in studies_page(root)
    assert "0.375" not in studies_page(root)
