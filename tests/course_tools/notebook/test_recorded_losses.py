"""Mean losses of several trainings; figures that say in words what they draw."""

from course_tools.notebook import accuracy_points, recorded_losses
from course_tools.notebook.accuracy_points import show_by_seed
from course_tools.notebook.recorded_losses import mean_losses, show_recorded_losses


def test_losses_are_averaged_over_blocks_and_over_the_shortest_run():
    ends, means = mean_losses([[1.0] * 10 + [3.0] * 10, [2.0] * 10 + [4.0] * 15])
    assert (list(ends), means) == ([10, 20], [1.5, 3.5])


def test_the_alt_texts_give_the_numbers(monkeypatch):
    shown = []
    for module in (accuracy_points, recorded_losses):
        monkeypatch.setattr(module, "show", lambda figure, alt: shown.append(alt))
    show_recorded_losses({"model": [[2.0] * 10 + [0.5] * 10]})
    show_by_seed({"model": [0.25, 0.5]}, "accuracy", across={"chance": 0.1})
    assert shown == [
        "Training loss, in the first and in the last ten updates: model 2.00 and 0.50.",
        "Accuracy, one point per seed: model 0.250, 0.500; chance is 0.1.",
    ]
