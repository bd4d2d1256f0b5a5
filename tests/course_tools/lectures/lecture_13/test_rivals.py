"""Rivals of the Mixer: what each sees of a puzzle, and what logistic regression can read from it."""

import pytest
import torch

from course_lib.primitives import patchify, unpatchify
from course_tools.bank.drawn_puzzles import (
    GRID,
    H,
    N,
    P,
    Puzzles,
    W,
    counterparts,
    draw_bundle,
    draw_puzzles,
    through_bundle,
)
from course_tools.lectures.lecture_13 import rivals

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


def test_distances_need_gains_of_one_and_the_spread_undoes_gains():
    old, new = draw_puzzles(1_500, seed=0), draw_puzzles(100, seed=5)

    def right(read, *bundle):
        known, unseen = through_bundle(old, *bundle), through_bundle(new, *bundle)
        return (rivals.logistic_regression(known, unseen.images, read(known)) == unseen.differs).float().mean()

    def distances(known):
        return rivals.distances

    assert right(distances, BUNDLE.order) > 0.9
    assert right(distances, *BUNDLE) < 0.85
    assert right(rivals.by_spread, *BUNDLE) > 0.9


def test_common_patterns_tell_equal_patches_from_others_after_any_mixture_of_places():
    generator = torch.Generator().manual_seed(0)
    old, mixture = draw_puzzles(1_500, seed=0), 0.5 * torch.eye(N) + 0.1 * torch.randn(N, N, generator=generator)
    mixed = old._replace(images=unpatchify(mixture.to(old.images) @ patchify(old.images, P), P, H, W))
    energies = rivals.by_common_patterns(mixed, n=1)(patchify(mixed.images, P))[..., 0]
    right = [
        (energies[:, place] > energies[:, place].quantile(1 - differs.float().mean())) == differs
        for place, differs in enumerate(old.differs.unbind(1))
    ]
    assert torch.stack(right).float().mean() > 0.85


def test_the_nearest_puzzle_of_a_known_one_is_itself():
    known = through_bundle(draw_puzzles(200, seed=0), *BUNDLE)
    few = Puzzles(*(part[:20] for part in known))
    assert torch.equal(rivals.nearest_known(known, few.images), few.differs)
