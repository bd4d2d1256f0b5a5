"""The rivals of the Mixer give ten logits, and their costs are those of attention that the counter sees."""

import torch

from course_lib.blocks import Sizes
from course_lib.metrics import OperationCount
from course_tools.notebook.digit_rivals import cnn, cost, show_accuracy_against_cost, vit


def test_both_rivals_give_ten_logits_of_an_image():
    images = torch.rand(3, 1, 28, 28)
    assert [tuple(make()(images).shape) for make in (cnn, vit)] == [(3, 10), (3, 10)]


def test_positions_start_as_much_larger_as_asked():
    lengths = []
    for scale in (1.0, 4.0):
        torch.manual_seed(0)
        lengths.append(vit(scale=scale).encoder.positions.norm())
    torch.testing.assert_close(lengths[1], 4 * lengths[0])


def test_the_cost_of_a_vit_includes_its_attention():
    image, sizes = torch.rand(1, 1, 28, 28), Sizes(8, 2, 16, 1)
    counted = cost(vit(sizes), image)
    linear = 16 * 49 * 8 + 17 * (4 * 8 * 8 + 2 * 8 * 16) + 8 * 10
    assert counted.multiply_adds == linear + 2 * 17 * 17 * 8
    assert counted.parameters == sum(parameter.numel() for parameter in vit(sizes).parameters())


def test_the_text_gives_each_accuracy_at_its_cost_and_chance(capsys):
    costs = {"CNN": [OperationCount(parameters=1_200, multiply_adds=34_000)]}
    show_accuracy_against_cost(costs, {"CNN": [0.875]}, "one seed")
    text = capsys.readouterr().out
    assert "Accuracy against parameters: CNN 0.88 at 1,200; chance is 0.1." in text
    assert "Accuracy against multiply-adds for one image: CNN 0.88 at 34,000; chance is 0.1." in text
