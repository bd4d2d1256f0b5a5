"""One thing stays in the four photographs of a window, and the rivals learn from the views and labels that they are given."""

import math

import pytest
import torch
from torch import nn

from course_tools.bank.drawn_stickers import THINGS
from course_tools.lectures.lecture_16 import rivals
from course_tools.lectures.lecture_16.windows import CELL, PASS, cells_of, draw_windows, one_of_each, thing_of


def test_each_photograph_shows_the_thing_that_stays_in_its_cell():
    windows = draw_windows(60, seed=0)
    assert windows.photos.shape == (60, 4, 3, 24, 36)
    assert 0 <= windows.photos.min() < windows.photos.max() <= 1
    shown = thing_of(windows).amin(2).flatten(2)  # the least of red, green and blue
    same, others = windows.kinds[:, None] == windows.kinds, torch.eye(60, dtype=torch.bool)
    alike = nn.functional.cosine_similarity(shown[:, None, 0], shown[None, :, 1], dim=-1)
    assert alike[same & ~others].mean() > alike[~same].mean() + 0.08


def test_cells_are_numbered_row_by_row():
    windows = draw_windows(7, seed=0)
    cells = cells_of(windows)
    assert torch.equal(cells[3, 2, 4], windows.photos[3, 2, :, CELL:, CELL : 2 * CELL])
    assert torch.equal(thing_of(windows)[3, 2], cells[3, 2, windows.cells[3, 2]])


def test_nothing_that_passes_stays_and_unseen_windows_are_others():
    assert len(THINGS) == 10
    assert not set(THINGS) & set(PASS)
    known, unseen = draw_windows(5, seed=0), draw_windows(5, seed=0, unseen=True)
    assert torch.equal(known.kinds, unseen.kinds)
    assert not torch.equal(known.photos, unseen.photos)
    assert torch.equal(known.photos, draw_windows(5, seed=0).photos)


def test_ten_windows_have_all_kinds():
    kinds = draw_windows(200, seed=1).kinds
    assert kinds[one_of_each(kinds, 3)].tolist() == list(range(10))
    assert one_of_each(kinds, 3).tolist() != one_of_each(kinds, 4).tolist()


def test_a_view_is_one_of_the_photographs_in_colours_of_its_own():
    photos = torch.arange(4.0).view(1, 4, 1, 1, 1).expand(30, 4, 3, 5, 7).contiguous()
    views = rivals.photo_in_new_colours(photos, torch.Generator().manual_seed(0))
    assert views.shape == (30, 3, 5, 7)
    grey = views.mean((1, 2, 3))
    assert grey.unique().numel() > 10
    assert (grey == 0).any()


def test_only_guesses_that_are_sure_are_learned():
    class Sure(nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0], torch.zeros(len(x))], 1)

    views, kinds = torch.zeros(2, 1), torch.tensor([0, 1])
    first, second = torch.tensor([[9.0], [0.1]]), torch.zeros(2, 1)
    loss = rivals.with_pseudo_labels(0.8)(Sure(), (first, second, views, kinds))
    torch.testing.assert_close(loss, torch.tensor(2.0).log() * 1.5)


def test_rules_without_a_network_name_the_windows_that_they_know():
    known = draw_windows(100, seed=0)
    few = one_of_each(known.kinds, 0)
    same = type(known)(*(part[few] for part in known))
    assert rivals.recurring_cells(known, few, same) >= 0.8
    assert 0 <= rivals.label_spreading(known, few, same, n=50) <= 1


def test_a_classifier_is_judged_by_the_first_photograph():
    windows = draw_windows(20, seed=0)

    class Constant(nn.Module):
        def forward(self, x):
            return torch.eye(10)[torch.zeros(len(x), dtype=torch.long)]

    assert rivals.right(Constant(), windows) == (windows.kinds == 0).float().mean().item()
    assert rivals.classifier()(windows.photos[:, 0]).shape == (20, 10)
    views, kinds = next(rivals.labelled(windows, torch.arange(10), seed=0))
    assert views.shape == (40, 3, 24, 36)
    assert torch.equal(kinds, windows.kinds[:10].repeat(4))
    batch = next(rivals.with_unlabelled(windows, torch.arange(10), seed=0))
    assert [len(part) for part in batch] == [40, 40, 40, 40]
    assert rivals.from_labels(rivals.classifier(), batch[2:]).item() > 0


def test_two_heads_answer_for_the_thing_and_for_the_colour():
    assert rivals.two_heads()(draw_windows(3, seed=0).photos[:, 0]).shape == (3, 16)
    logits = torch.zeros(2, 16)
    logits[0, 3] = logits[1, 10 + 5] = 99.0  # sure of thing 3, and sure of colour 5
    loss = rivals.from_both_labels(lambda photos: logits, (None, torch.tensor([6 * 3 + 2, 6 * 7 + 5])))
    assert loss.item() == pytest.approx((math.log(6) + math.log(10)) / 2, rel=1e-5)
