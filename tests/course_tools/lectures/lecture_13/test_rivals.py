"""Rivals of the Mixer: what each sees of a puzzle, and that logistic regression finds the differences in distances."""

import pytest
import torch

from course_tools.lectures.lecture_13 import rivals
from course_tools.lectures.lecture_13.puzzles import GRID, N, Puzzles, W, counterparts, draw_puzzles, through_bundle

ORDER = torch.randperm(N, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("make", [rivals.mixer, rivals.vision_transformer, rivals.convolutions])
def test_models_of_equal_size_see_the_counterpart(make):
    torch.manual_seed(0)
    model, images = make().eval(), torch.rand(1, 3, 24, W, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(images)[0, 0], images)
    assert gradient[0, :, :6, 24:30].abs().sum() > 0, "the mark of the first patch depends on its counterpart"
    assert 20_000 < sum(parameter.numel() for parameter in model.parameters()) < 22_000


@pytest.mark.parametrize("make", [rivals.free_weights, rivals.wide_convolutions])
def test_from_the_last_place_the_first_is_in_reach(make):
    torch.manual_seed(0)
    images = torch.rand(1, 3, 24, W, requires_grad=True)
    (gradient,) = torch.autograd.grad(make().eval()(images)[0, N - 1], images)
    assert gradient[0, :, :6, :6].abs().sum() > 0


def test_counterparts_are_most_often_alike():
    puzzles = through_bundle(draw_puzzles(600, seed=0), ORDER)
    assert (rivals.often_alike(puzzles.images).cpu() == counterparts(ORDER)).sum() > 24


def test_the_first_convolution_across_sees_only_places_four_apart():
    torch.manual_seed(0)
    look, x = rivals.LookAcross(3, GRID).eval(), torch.rand(1, 3, GRID, 2 * GRID, requires_grad=True)
    (gradient,) = torch.autograd.grad(look(x)[0, :, 1, 2].sum(), x)
    assert gradient[0].abs().sum(0).nonzero().tolist() == [[1, 2], [1, 6]]


def test_distances_mark_nearly_all_and_the_nearest_puzzle_its_own():
    known = through_bundle(draw_puzzles(1_500, seed=0), ORDER)
    new = through_bundle(draw_puzzles(100, seed=5), ORDER)
    assert (rivals.by_distances(known, new.images) == new.differs).float().mean() > 0.9
    few = Puzzles(*(part[:20] for part in known))
    assert torch.equal(rivals.nearest_known(known, few.images), few.differs)
