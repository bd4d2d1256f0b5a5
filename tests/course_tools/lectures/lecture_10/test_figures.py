"""The figures of local attention say what their numbers are."""

import torch

from course_tools.lectures.lecture_10.figures import (
    show_bands,
    show_costs,
    show_heads,
    show_reach,
    show_restored,
    show_weights,
)


def test_costs_are_those_of_windows_from_1_to_11(capsys):
    show_costs({"a layer": lambda d_in, d_out, size, H, W, s: (0, d_in * d_out * size**2 * (H // s) * (W // s))}, 3, 2, side=10)
    text = capsys.readouterr().out
    assert "3 features, stride 2, 10 × 10 pixels: a layer 225 to 27,225." in text


def test_bands_count_their_pairs(capsys):
    show_bands()
    text = capsys.readouterr().out
    assert "text: a token and 3 before it, 42 of 144 pairs" in text
    assert "windows of 3 × 3, 247 of 1,225 pairs" in text
    assert "blocks of 3 × 3, 324 of 1,296 pairs" in text


def test_the_pixels_that_are_reached_are_counted(capsys):
    corner = torch.zeros(5, 7, dtype=torch.bool)
    corner[:2, :3] = True
    show_reach({"one layer": corner, "all": corner | True}, 1, 1)
    assert "have an influence on the pixel (1, 1): one layer: 6 pixels; all: 35 pixels." in capsys.readouterr().out


def test_a_restored_image_is_shown_with_its_ratio(capsys):
    clean = torch.zeros(1, 3, 5, 7)
    show_restored({"noisy": clean + 0.1, "a filter": clean + 0.01}, clean)
    assert "noisy, 20.0 dB; a filter, 40.0 dB" in capsys.readouterr().out


def test_weights_lie_around_their_pixel_and_those_beyond_the_border_are_not_drawn(capsys):
    clean = torch.zeros(3, 5, 7)
    clean[:, :, 4:] = 1.0
    weights = torch.zeros(5, 7, 9)
    weights[2, 3] = torch.tensor([0, 0, 0, 0.6, 0.25, 0.15, 0, 0, 0])
    weights[0, 0] = torch.tensor([0.9, 0, 0, 0, 0.1, 0, 0, 0, 0])
    show_weights(clean, clean, weights, 2, 3)
    assert "0.85 of the weight is on its own pane, 0.25 on itself" in capsys.readouterr().out
    show_weights(clean, clean, weights, 0, 0)
    assert "0.10 of the weight is on its own pane, 0.10 on itself" in capsys.readouterr().out


def test_the_weights_of_a_head_are_averaged_where_the_window_is_inside(capsys):
    weights = torch.zeros(1, 2, 4, 5, 9)
    weights[0, 0, 1:3, 1:4, 1], weights[0, 0, 1:3, 1:4, 4] = 0.75, 0.25
    weights[0, 1, :, :, 3] = 1.0
    show_heads(weights)
    text = capsys.readouterr().out
    assert "head 1: 1.00 in the pixel's column, 0.25 in its row, 0.250 on itself; head 2: 0.00" in text
