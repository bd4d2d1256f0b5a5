"""A record has scores by seed and mean curves, and is read as it was written."""

import pytest

from course_tools.studies import RecordedRun, RecordedStudy
from course_tools.studies.study_record import read, record_path, write

RUNS = [
    RecordedRun("a", 2, {"score": 2 / 3, "parameters": 1_234_567}, {10: 0.25, 20: 2.5}, 90.0),
    RecordedRun("a", 0, {"score": 0.0}, {10: 0.75, 20: 0.5, 30: 1.0}, 60.0, {"sample": "O,\n„O”"}),
]
RECORD = RecordedStudy("12_toy", "s", "l", "3.11.7", "2.13.0", "one CPU thread", RUNS)


def test_scores_come_by_seed_and_curves_as_their_mean():
    assert RECORD.scores("a", "score") == [0.0, 2 / 3]
    assert RECORD.mean("a", "score") == pytest.approx(1 / 3)
    assert RECORD.curve("a") == ([10, 20], [0.5, 1.5])
    assert RECORD.cost == "2 runs, 2 minutes of one CPU thread, torch 2.13.0"
    with pytest.raises(KeyError, match="it has \\['a'\\]"):
        RECORD.scores("b", "score")


def test_a_run_replaces_that_of_its_setting_and_seed():
    assert [run.seconds for run in RECORD.with_run(RecordedRun("a", 2, {}, {}, 1.0)).runs] == [60.0, 1.0]
    assert len(RECORD.with_run(RecordedRun("b", 2, {}, {}, 1.0)).runs) == 3


def test_a_record_is_read_as_it_was_written_with_five_digits(tmp_path):
    path = record_path(tmp_path, "12_toy")
    assert read(path) is None
    write(RECORD, path)
    found = read(path)
    assert found.runs[0].scores == {"score": 0.66667, "parameters": 1_234_567}
    assert found.runs[1] == RUNS[1]
    assert path.read_text().count('"texts": {"sample"') == 1
    assert (found.name, found.machine) == ("12_toy", "one CPU thread")
    assert len(path.read_text().splitlines()) == 11
    assert [each.name for each in tmp_path.iterdir()] == ["12_toy.json"]


def test_a_gpu_has_a_record_of_its_own(tmp_path):
    assert record_path(tmp_path, "12_toy", "cuda:1").name == "12_toy.cuda.json"
    write(RECORD, record_path(tmp_path, "12_toy", "cuda:1"))
    assert read(tmp_path / "12_toy.cuda.json").name == "12_toy"
