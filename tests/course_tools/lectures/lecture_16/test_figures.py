"""Embeddings lie in their panels, and views and neighbours are those described."""

import numpy as np
import pytest
import torch

from course_lib.datasets import photographs, warp
from course_tools.bank.drawn_stickers import NAMES
from course_tools.lectures.lecture_16.figures import (
    clouds,
    show_nearest_windows,
    show_pairs,
    show_photograph_view,
    show_photos_and_names,
    show_restored,
    show_retrieved,
    show_similarities,
    show_views,
    show_windows,
)
from course_tools.lectures.lecture_16.windows import draw_windows

# Clouds of embeddings: every point is drawn, along the widest axes, as the numeral of its label.


def test_every_point_is_drawn_in_every_panel():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(30) % 3 + 4
    figure = clouds({"first": torch.randn(30, 7, generator=generator), "last": torch.randn(30, 7, generator=generator)}, labels)
    assert [ax.get_title() for ax in figure.axes] == ["first", "last"]
    assert [[len(c.get_offsets()) for c in ax.collections] for ax in figure.axes] == [[10, 10, 10]] * 2
    assert tuple(figure.get_size_inches()) <= (6.0, 4.0)


def test_the_widest_axis_lies_across():
    points = torch.zeros(4, 3)
    points[:, 2] = torch.tensor([-3.0, -1.0, 1.0, 3.0])
    points[:, 0] = torch.tensor([0.1, -0.1, -0.1, 0.1])
    (ax,) = clouds({"": points}, torch.zeros(4, dtype=torch.long)).axes
    places = ax.collections[0].get_offsets()
    assert np.allclose(sorted(np.abs(places[:, 0])), [1, 1, 3, 3], atol=0.01)
    assert np.abs(places[:, 1]).max() < 0.2


def test_a_line_and_a_single_point_are_drawn():
    assert clouds({"line": torch.arange(3.0)[:, None], "line again": torch.arange(3.0)[:, None]}, torch.arange(3)).axes
    assert clouds({"point": torch.ones(1, 5)}, torch.tensor([7])).axes


def test_panels_and_labels_must_fit():
    with pytest.raises(ValueError, match="one to three panels of 2 points"):
        clouds({"": torch.zeros(3, 2)}, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="one to three panels"):
        clouds({}, torch.zeros(2, dtype=torch.long))


# The texts of the figures contain how much a view differs, and which neighbours are of the same class.


def test_negatives_differ_by_twice_of_what_grey_does_from_white(capsys):
    stickers = torch.full((20, 3, 5, 7), 0.5)
    signs = iter((1, -1))
    show_views(stickers, lambda batch, generator: next(signs) * batch)
    assert "views differ by 1.00, those of two stickers by 0.00." in capsys.readouterr().out


def test_a_photograph_is_unchanged_by_the_identity(capsys):
    show_photograph_view(warp, turn=0, zoom=1, hue=0, saturation=1)
    red = photographs((60, 90))[1, 0].mean()
    assert f"changes from {red:.2f} to {red:.2f}" in capsys.readouterr().out


def test_windows_and_their_neighbours_are_named(capsys):
    windows = draw_windows(6, seed=0)
    kinds = [NAMES[kind] for kind in windows.kinds.tolist()]
    show_windows(windows, torch.tensor([2, 0]))
    assert f"one thing: {kinds[2]}, {kinds[0]}." in capsys.readouterr().out
    angles = torch.tensor([0.0, 0.1, 3.0, 0.2, -2.0, 1.5])
    show_nearest_windows(0, torch.stack([angles.cos(), angles.sin()], 1), windows, n=2)
    agree = [kinds[1], kinds[3]].count(kinds[0])
    assert (
        f"window 0, {kinds[0]}, then {kinds[1]}, {kinds[3]}: its 2 nearest neighbours, of which {agree}"
        in capsys.readouterr().out
    )


def test_partners_and_false_negatives_share_the_weight(capsys):
    """Windows 0 and 1 are of one kind, 2 of another: a view of the first two gives a third to each of three others."""
    z = torch.eye(2)[[0, 0, 1]].repeat(2, 1)
    show_similarities({"known": z}, torch.tensor([0, 0, 1]), temperature=0.01)
    assert "the partner gets 0.56 of the weight, all views of its kind 1.00." in capsys.readouterr().out


def test_equal_views_do_not_differ(capsys):
    photos = draw_windows(4, seed=0).photos[:, 0]
    show_pairs(photos, photos)
    assert "differ by 0.00 on average" in capsys.readouterr().out


def test_the_text_counts_the_photographs_that_are_nearest_to_their_name(capsys):
    cosines = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.4, 0.6], [-1.0, 0.3, 0.5]])
    show_photos_and_names(torch.rand(3, 3, 24, 36), ["red star", "blaues Herz", "синий зонт"], cosines)
    said = capsys.readouterr().out
    assert "nearest of them for 2 photographs; its mean cosine is 0.60, that of the others 0.03" in said
    assert "blaues Herz" in said


def test_each_query_has_a_row_of_photographs(capsys):
    show_retrieved(
        {"blue": torch.rand(4, 3, 24, 36), "sol": torch.rand(4, 3, 24, 36)}, {"blue": ["blue sun"], "sol": ["red sun", "sun"]}
    )
    assert "each of 2 texts show, blue: blue sun; sol: red sun, sun." in capsys.readouterr().out


def test_the_error_of_what_was_hidden_is_named(capsys):
    patches, hidden = torch.rand(2, 16, 27), torch.tensor([[0, 5], [3, 15]])
    restored = patches.clone()
    restored[0, 0] += 0.2  # hidden: a quarter of the hidden patches are wrong by 0.2
    restored[0, 1] += 9.0  # shown
    show_restored(patches, hidden, restored)
    said = capsys.readouterr().out
    assert "12 % of their patches hidden" in said
    assert "hidden patches 0.010" in said
