"""The alternative text names every seed's score."""

from course_tools.notebook.seed_scores import show_seeds


def test_every_score_is_in_the_text(capsys):
    show_seeds({"A": [0.5, 0.625], "B": [0.75]}, "accuracy", "two seeds", {"chance": 0.1}, decimals=3)
    assert capsys.readouterr().out == "Accuracy, a point for each seed; two seeds: A 0.500, 0.625; B 0.750.\n"
