"""The costs of a model include its attention, and the figures give each accuracy at its cost."""

import torch

from course_lib.blocks import Sizes
from course_lib.metrics import OperationCount
from course_tools.lectures.lecture_13.costs import cost, show_accuracy_against_cost
from course_tools.notebook.digit_vit import small_vit


def test_the_cost_of_a_vit_includes_its_attention():
    image, sizes = torch.rand(1, 1, 28, 28), Sizes(8, 2, 16, 1)
    counted = cost(small_vit(sizes=sizes), image)
    linear = 16 * 49 * 8 + 17 * (4 * 8 * 8 + 2 * 8 * 16) + 8 * 10
    assert counted.multiply_adds == linear + 2 * 17 * 17 * 8
    assert counted.parameters == sum(parameter.numel() for parameter in small_vit(sizes=sizes).parameters())


def test_the_text_gives_each_accuracy_at_its_cost_and_chance(capsys):
    costs = {"CNN": [OperationCount(parameters=1_200, multiply_adds=34_000)]}
    show_accuracy_against_cost(costs, {"CNN": [0.875]}, "one seed")
    text = capsys.readouterr().out
    assert "Accuracy against parameters: CNN 0.88 at 1,200; chance is 0.1." in text
    assert "Accuracy against multiply-adds for one image: CNN 0.88 at 34,000; chance is 0.1." in text
