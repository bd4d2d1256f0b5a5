"""A study keeps each run as it ends, goes on where it was stopped, and drops what another source or other settings gave."""

import json
from pathlib import Path

import pytest

from course_tools.notebook.recorded_studies import _RESULTS, Study, recorded

PROGRAMS = sorted((Path(__file__).parents[3] / "authoring" / "studies").glob("*.py"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    program = tmp_path / "12_matching.py"
    program.write_text("print()\n")
    return program


def run_all(study: Study, names: tuple[str, ...], seeds: tuple[int, ...]) -> list[tuple[str, int]]:
    done = []
    for name, seed in study.missing(names, seeds):
        study.record(name, seed, {"score": seed / 3}, {10: 0.25, 20: 0.5 + seed})
        done.append((name, seed))
    return done


def test_a_study_goes_on_where_it_was_stopped(source, tmp_path):
    first = Study(source, results=tmp_path, steps=20)
    assert run_all(first, ("a",), (0,)) == [("a", 0)]
    again = Study(source, results=tmp_path, steps=20)
    assert run_all(again, ("a", "b"), (0, 1)) == [("b", 0), ("a", 1), ("b", 1)]
    assert len(json.loads((tmp_path / "12_matching.json").read_text())["runs"]) == 4


@pytest.mark.parametrize("change", ["source", "settings"])
def test_runs_of_another_source_or_other_settings_are_dropped(source, tmp_path, change):
    run_all(Study(source, results=tmp_path, steps=20), ("a",), (0,))
    if change == "source":
        source.write_text("print(2)\n")
    other = Study(source, results=tmp_path, steps=20 if change == "source" else 21)
    assert run_all(other, ("a",), (0,)) == [("a", 0)]


def test_scores_come_by_seed_and_curves_as_their_mean(source, tmp_path, monkeypatch):
    monkeypatch.setattr("course_tools.notebook.recorded_studies._RESULTS", tmp_path)
    run_all(Study(source, results=tmp_path, steps=20), ("a",), (2, 0))
    found = recorded("12_matching")
    assert found.scores("a", "score") == [0.0, 0.6667]
    assert found.curve("a") == ([10, 20], [0.25, 1.5])
    assert found.cost.startswith("2 runs, ")
    with pytest.raises(KeyError, match="it has \\['a'\\]"):
        found.scores("b", "score")


def test_a_study_that_was_never_run_says_how_to_run_it():
    with pytest.raises(FileNotFoundError, match=r"python authoring/studies/99_nothing\.py"):
        recorded("99_nothing")


@pytest.mark.parametrize("result", sorted(_RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_recorded_result_has_its_program(result):
    assert result.stem in {program.stem for program in PROGRAMS}
    assert recorded(result.stem).runs
