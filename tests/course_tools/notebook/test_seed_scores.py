"""The alternative text names every seed's score and every line; differences are taken seed by seed."""

import pytest

from course_tools.notebook import seed_scores
from course_tools.notebook.seed_scores import lead_over_best, paired_differences, show_seeds


def test_every_score_and_line_is_in_the_text(capsys):
    show_seeds({"A": [0.5, 0.625], "B": [0.75]}, "accuracy", "digits", {"chance": 0.1})
    assert capsys.readouterr().out == "Accuracy, one point per training; digits: A 0.500, 0.625; B 0.750; chance is 0.1.\n"


def test_the_axis_begins_where_it_is_asked_to(monkeypatch):
    drawn = []
    monkeypatch.setattr(seed_scores, "show", lambda figure, alt: drawn.append(figure.axes[0].get_ylim()[0]))
    show_seeds({"A": [0.5, 0.625]})
    show_seeds({"A": [0.5, 0.625]}, lowest=0)
    assert drawn[0] > 0.4
    assert drawn[1] == 0


def test_without_a_title_the_scores_follow_the_label(capsys):
    show_seeds({"A": [0.5]})
    assert capsys.readouterr().out == "Accuracy on unseen digits, one point per training: A 0.500.\n"


def test_a_title_that_names_the_points_is_not_repeated(capsys):
    show_seeds({"A": [0.5]}, "PSNR (dB)", "photograph, one point per sample")
    assert capsys.readouterr().out == "PSNR (dB); photograph, one point per sample: A 0.500.\n"


def test_differences_are_those_of_equal_seeds():
    assert paired_differences([0.5, 0.75], [0.25, 1.0]) == [0.25, -0.25]
    with pytest.raises(ValueError, match="shorter"):
        paired_differences([0.5, 0.75], [0.25])


def test_the_lead_is_over_the_best_other_model_of_each_seed():
    scores = {"ours": [0.75, 0.5], "A": [0.5, 1.0], "B": [0.25, 0.0]}
    assert lead_over_best(scores, "ours") == [0.25, -0.5]
    with pytest.raises(ValueError, match="shorter"):
        lead_over_best(scores | {"B": [0.25]}, "ours")
