"""Rivals of the Mixer: what each sees of a puzzle, and what logistic regression needs to be told."""

import pytest
import torch

from course_tools.lectures.lecture_13 import rivals
from course_tools.lectures.lecture_13.puzzles import (
    GRID,
    N,
    Puzzles,
    W,
    counterparts,
    draw_bundle,
    draw_puzzles,
    through_bundle,
)

BUNDLE = draw_bundle(0)


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


def test_counterparts_most_often_show_the_same_texture():
    puzzles = through_bundle(draw_puzzles(600, seed=0), *BUNDLE)
    assert (rivals.often_alike(puzzles.images).cpu() == counterparts(BUNDLE.order)).sum() > 24


def test_the_first_convolution_across_sees_only_places_four_apart():
    torch.manual_seed(0)
    look, x = rivals.LookAcross(3, GRID).eval(), torch.rand(1, 3, GRID, 2 * GRID, requires_grad=True)
    (gradient,) = torch.autograd.grad(look(x)[0, :, 1, 2].sum(), x)
    assert gradient[0].abs().sum(0).nonzero().tolist() == [[1, 2], [1, 6]]


def test_distances_mark_nearly_all_unless_cables_have_gains_and_the_nearest_puzzle_marks_its_own():
    old, new = draw_puzzles(1_500, seed=0), draw_puzzles(100, seed=5)

    def right(read, *bundle):
        known, unseen = through_bundle(old, *bundle), through_bundle(new, *bundle)
        return (rivals.logistic_regression(known, unseen.images, read) == unseen.differs).float().mean()

    assert right(rivals.distances, BUNDLE.order) > 0.9
    assert right(rivals.distances, *BUNDLE) < 0.85
    known = through_bundle(old, *BUNDLE)
    few = Puzzles(*(part[:20] for part in known))
    assert torch.equal(rivals.nearest_known(known, few.images), few.differs)


def test_no_gain_changes_the_angles_between_patches():
    patches = 0.5 + 0.2 * torch.randn(3, N, 108, generator=torch.Generator().manual_seed(0))
    gained = 0.5 + BUNDLE.gain[:, None] * (patches - 0.5)
    torch.testing.assert_close(rivals.angles(gained), rivals.angles(patches), atol=1e-2, rtol=1e-3)
    assert rivals.angles(patches).argmin(-1).tolist() == [list(range(N))] * 3, "each is nearest to itself"
