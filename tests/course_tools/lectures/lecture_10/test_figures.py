"""The figures of local attention say what their numbers are."""

import torch

from course_tools.lectures.lecture_10.figures import show_changes, show_costs, show_head_means, show_window


def test_costs_are_those_of_windows_from_1_to_11(capsys):
    show_costs({"a layer": lambda d_in, d_out, size, H, W, s: (0, d_in * d_out * size**2 * (H // s) * (W // s))}, 3, 2, side=10)
    text = capsys.readouterr().out
    assert "3 features, stride 2, 10 × 10 pixels: a layer 225 to 27,225." in text


def test_the_mean_is_over_the_chosen_pixels_alone(capsys):
    weights = torch.zeros(1, 2, 5, 7, 9)
    weights[0, 0, 1, 2, 3] = 0.8
    weights[0, 1, 1, 2, 8] = 0.6
    weights[0, :, 4, 6, 0] = 1.0
    chosen = torch.zeros(1, 5, 7, dtype=torch.bool)
    chosen[0, 1, 2] = True
    show_head_means(weights, chosen)
    text = capsys.readouterr().out
    assert "head 1 left (0.80); head 2 below right (0.60); uniform would be 0.11." in text


def test_a_window_lies_around_its_pixel(capsys):
    weights = torch.zeros(5, 7, 9)
    weights[2, 3] = torch.tensor([0, 0, 0, 0, 0.25, 0, 0, 0.75, 0])
    show_window(torch.rand(1, 5, 7), weights, 2, 3)
    text = capsys.readouterr().out
    assert "its pixel (2, 3): the largest is 0.75, the pixel's own 0.25." in text


def test_the_weights_beyond_the_border_are_not_drawn(capsys):
    weights = torch.zeros(5, 7, 9)
    weights[0, 0] = torch.tensor([0.9, 0, 0, 0, 0.1, 0, 0, 0, 0])
    show_window(torch.rand(1, 5, 7), weights, 0, 0)
    assert "the largest is 0.10" in capsys.readouterr().out


def test_changes_are_counted_and_relative_to_the_largest(capsys):
    change = torch.zeros(5, 7)
    change[1, 2], change[1, 3] = 2.0, 4.0
    show_changes(torch.rand(1, 5, 7), (1, 2), {"a layer": change})
    assert "a layer, 2 pixels change, the pixel itself by 0.50." in capsys.readouterr().out


def test_layers_that_do_not_change_have_changes_of_0(capsys):
    show_changes(torch.rand(1, 5, 7), (1, 2), {"a layer": torch.zeros(5, 7)})
    assert "a layer, 0 pixels change, the pixel itself by 0.00." in capsys.readouterr().out
