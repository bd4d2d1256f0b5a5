"""Each setting of a study is printed once, with its costs and a score for every seed."""

import pytest

from course_tools.notebook.study_scores import print_scores, second_half_gain
from course_tools.studies import RecordedRun, RecordedStudy


def recorded() -> RecordedStudy:
    runs = [
        RecordedRun(name, seed, {"accuracy": 0.5 + seed / 10 + extra, "parameters": 1_234.0}, {}, 30.0)
        for name, extra in (("short", 0.0), ("a longer name", 0.03))
        for seed in (1, 0)
    ]
    return RecordedStudy("00_any", "s", "l", "3.11", "2.13", "one CPU thread", runs)


def test_scores_stand_in_the_order_of_the_seeds_after_the_costs(capsys):
    print_scores(recorded(), "accuracy", costs=["parameters"], decimals=3)
    cost, *lines = capsys.readouterr().out.splitlines()
    assert cost.startswith("4 runs, 2 minutes of one CPU thread")
    assert lines == [
        "short              1,234 parameters; accuracy by seed 0.500, 0.600",
        "a longer name      1,234 parameters; accuracy by seed 0.530, 0.630",
    ]


def test_a_score_that_was_not_recorded_is_refused():
    with pytest.raises(KeyError):
        print_scores(recorded(), "loss")


def test_the_gain_of_the_second_half_is_that_of_the_mean_curve():
    runs = [RecordedRun("any", seed, {}, {5: 4.0, 10: 3.0 + seed, 20: 1.0}, 1.0) for seed in (0, 1)]
    study = RecordedStudy("00_any", "s", "l", "3.11", "2.13", "one CPU thread", runs)
    assert second_half_gain(study, "any") == 2.5
