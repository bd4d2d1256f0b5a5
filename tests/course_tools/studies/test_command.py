"""`course study`: runs, lists and checks, with an exit status; and every record of the course is up to date."""

from contextlib import nullcontext

import pytest

from course_tools import cli
from course_tools.studies import command, load, names, studies_folder
from course_tools.studies.runner import require_fresh
from course_tools.studies.study_record import read, record_path

RECORDED = sorted(path.stem for path in studies_folder().glob("*.json"))


@pytest.fixture
def course(folder, here, monkeypatch):
    """A course whose studies are those of the folder, run in this process."""
    monkeypatch.setattr(command, "workers", lambda jobs, dask: nullcontext(here))
    (folder / "authoring").mkdir()
    (folder / "authoring" / "studies").symlink_to(folder, target_is_directory=True)
    monkeypatch.setattr(cli, "project_root", lambda: folder)
    return folder


def test_a_study_is_run_listed_and_checked(course, capsys, ran):
    assert cli.main(["study", "12_toy", "--seeds", "1"]) == 0
    assert capsys.readouterr().out.endswith("\n2 runs.\n")
    assert cli.main(["study", "--list"]) == 0
    assert "12_toy  Does the second letter come later than the first?\n    2 of 4 runs so far" in capsys.readouterr().out
    assert cli.main(["study", "--check"]) == 0
    assert capsys.readouterr().out == ("12_other: not recorded\n12_toy: the repeated run agrees with the record\n")
    assert ran() in ("11 21 11 ", "11 21 21 ")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["12_tyo"], 2, "course: there is no study '12_tyo'; similar names are: 12_toy"),
        (["12_toy", "--check"], 1, "course: the study 12_toy is not recorded yet"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(course, capsys, arguments, status, said):
    assert cli.main(["study", *arguments]) == status
    error = capsys.readouterr().err
    assert error.startswith(said)
    assert error.count("\n") == 1


def test_a_seed_that_is_no_number_is_refused_before_any_run(course, capsys, ran):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["study", "12_toy", "--seeds", "one"])
    assert "argument --seeds: must be whole numbers" in capsys.readouterr().err
    assert ran() == ""


@pytest.mark.parametrize("name", RECORDED)
def test_every_record_is_that_of_its_study(name):
    study = load(name.partition(".")[0])
    record = require_fresh(study, read(record_path(study.path.parent, study.name)))
    assert set(record.names) <= study.settings.keys()
    assert {run.seed for run in record.runs} <= set(study.seeds)
    if study.figure:
        study.drawn(record)
    if study.finding:
        assert study.finding(record)


@pytest.mark.parametrize("name", names())
def test_every_study_has_a_question_settings_a_budget_and_what_a_gpu_runs(name):
    study = load(name)
    assert study.question.endswith("?")
    assert study.settings  # one, where it adds a model to another study
    assert "Budget:" in study.text
    assert study.gpu_settings or "On a GPU" in study.text
