"""Figures of puzzles say what they draw: how many patches differ, which are marked, and which patch decides a mark."""

import torch

from course_tools.bank.drawn_puzzles import N, counterparts, draw_puzzles, through_bundle
from course_tools.lectures.lecture_13 import figures
from course_tools.lectures.lecture_13.figures import (
    laid_out,
    show_dependence,
    show_marks,
    show_one_mark,
    show_puzzle,
    show_rows,
)

ORDER = torch.randperm(N, generator=torch.Generator().manual_seed(0))


def test_patches_are_laid_out_with_gaps_and_others_are_left_out():
    image = torch.zeros(3, 24, 48)
    assert laid_out(image).shape == (27, 55, 3)
    assert laid_out(image)[6].min() == 1, "a gap"
    only = torch.arange(N) == 1
    shown = laid_out(image, only)[:6]
    assert shown[:, 7:13].max() == 0
    assert shown[:, :6].min() > 0.9
    assert laid_out(image, only, torch.arange(N).roll(1))[0, 14].max() == 0
    apart = laid_out(image, copies=True)
    assert apart.shape == (27, 58, 3)
    assert apart[:, 27:31].min() == 1
    assert apart[:6, [26, 31]].max() == 0


def test_a_puzzle_and_its_marks_are_counted(capsys):
    before = draw_puzzles(3, seed=0)
    after = through_bundle(before, ORDER)
    show_puzzle(before, after, 1, ORDER)
    differing = int(before.differs[1].sum())
    assert f"{differing // 2} patches differ" in capsys.readouterr().out
    marks = after.differs.clone()
    marks[1, 0] = ~marks[1, 0]
    show_marks(after, ORDER, marks, 1)
    said = capsys.readouterr().out
    assert f"the {int(marks[1].sum())} patches" in said
    assert "Wrong marks: 1 of 32" in said


def test_the_patches_that_decide_a_mark_are_named_by_their_places_before_the_bundle(capsys):
    depends, at = torch.zeros(N, N), ORDER.argsort()
    depends[at[10], at[10]], depends[at[10], at[14]] = 1.0, 2.0
    show_one_mark(depends, ORDER, 10)
    assert "row 2, column 7 and row 2, column 3" in capsys.readouterr().out
    show_dependence(depends, ORDER)
    assert "they form lines" in capsys.readouterr().out


def test_the_rows_that_subtract_one_pair_are_drawn_beside_the_one_by_hand(monkeypatch):
    drawn, places = [], torch.eye(N)
    monkeypatch.setattr(figures, "show", lambda figure, alt: drawn.extend(figure.axes))
    pair = places - places[counterparts(ORDER)]
    show_rows(torch.cat([places[:9] + 1, pair[:8]]), ORDER, pair[3])
    assert [ax.images[0].get_array().min() for ax in drawn] == [-1] * 9
    assert drawn[0].images[0].get_array().flat[int(ORDER[3])] == 1
