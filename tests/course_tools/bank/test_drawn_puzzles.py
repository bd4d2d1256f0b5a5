"""Puzzles: what differs is what the images show, a bundle permutes both, and counterparts are found behind it."""

import torch

from course_lib.primitives import patchify
from course_tools.bank.drawn_puzzles import (
    GRID,
    N,
    P,
    counterparts,
    draw_bundle,
    draw_puzzles,
    from_many_crops,
    through_bundle,
)


def test_patches_are_marked_where_they_differ_from_their_counterpart():
    puzzles, counterpart = draw_puzzles(50, seed=0), counterparts(torch.arange(N))
    patches = patchify(puzzles.images, P)
    apart = (patches - patches[:, counterpart]).square().mean(-1)
    assert torch.equal(puzzles.differs, puzzles.differs[:, counterpart])
    assert apart[~puzzles.differs].max() < 0.01, "equal but for the noise, whose variance is 0.0025 in each copy"
    assert apart[puzzles.differs].median() > 0.02
    assert 0.4 < puzzles.differs.float().mean() < 0.6


def test_the_counterpart_is_in_the_same_row_of_the_other_copy():
    counterpart = counterparts(torch.arange(N))
    assert counterpart[:6].tolist() == [4, 5, 6, 7, 0, 1]
    assert counterpart[2 * GRID + 1] == 3 * GRID + 1


def test_a_bundle_moves_images_and_marks_alike_and_counterparts_follow():
    puzzles, order = draw_puzzles(20, seed=1), torch.randperm(N, generator=torch.Generator().manual_seed(2))
    moved, counterpart = through_bundle(puzzles, order), counterparts(order)
    assert torch.equal(patchify(moved.images, P), patchify(puzzles.images, P)[:, order])
    assert torch.equal(moved.differs, puzzles.differs[:, order])
    assert torch.equal(order[counterpart], counterparts(torch.arange(N))[order])


def test_a_cable_multiplies_the_distance_from_grey_and_about_half_deliver_negatives():
    puzzles, (order, gain) = draw_puzzles(20, seed=1), draw_bundle(3)
    before, after = (patchify(each.images, P) - 0.5 for each in (puzzles, through_bundle(puzzles, order, gain)))
    torch.testing.assert_close(after, before[:, order] * gain[:, None])
    assert sorted(order.tolist()) == list(range(N))
    assert 0.25 <= gain.abs().min() < gain.abs().max() <= 1
    assert 8 < sum((draw_bundle(seed).gain < 0).sum() for seed in range(10)) / 10 < 24


def test_pairs_of_many_crops_stay_pairs_of_one_crop_and_keep_their_places():
    puzzles, counterpart = draw_puzzles(40, seed=1), counterparts(torch.arange(N))
    made, before = from_many_crops(puzzles), patchify(puzzles.images, P)
    after = patchify(made.images, P)
    source = (after[:, None] - before).abs().amax(-1).argmin(1)  # (40, 32): the puzzle of each patch
    assert torch.equal(source, source[:, counterpart])
    assert all(len(row.unique()) == N // 2 for row in source)
    assert torch.equal(made.differs, puzzles.differs.gather(0, source))


def test_puzzles_follow_the_seed_and_unseen_ones_come_from_other_parts_of_the_photographs():
    one, again, other, unseen = (
        draw_puzzles(20, 3),
        draw_puzzles(20, 3),
        draw_puzzles(20, 4),
        draw_puzzles(20, 3, unseen=True),
    )
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)
    assert not torch.equal(one.images, unseen.images)
    assert torch.equal(one.differs, unseen.differs), "the same differences, in other images"
