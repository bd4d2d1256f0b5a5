"""A crowd has one coloured creature of each kind; rivals are at least as large as the block and see all cells."""

from functools import partial

import pytest
import torch

from course_tools.lectures.lecture_09 import rivals
from course_tools.lectures.lecture_09.crowd import CELL, GRID, draw_crowds, drawings, new_crowds, painted, share_right

CROWDS = draw_crowds(40, torch.Generator().manual_seed(0))


def cells_of(images):
    cells = images.unfold(2, CELL, CELL).unfold(3, CELL, CELL)
    return cells.permute(0, 2, 3, 1, 4, 5).flatten(1, 2)


def test_one_creature_of_each_kind_has_its_colour_and_all_of_a_kind_have_one_drawing():
    assert torch.equal(CROWDS.kinds[~CROWDS.is_grey].view(40, 4).sort(1).values, torch.arange(4).expand(40, 4))
    assert torch.equal(CROWDS.is_grey.sum(1), torch.full((40,), GRID**2 - 4))
    cells = cells_of(CROWDS.images)
    ink = cells.amax(2) > 0
    for kind in range(4):
        of_kind = ink[0, CROWDS.kinds[0] == kind]
        assert torch.equal(of_kind, of_kind[:1].expand_as(of_kind))
    shown = cells.amax((3, 4))
    torch.testing.assert_close(shown[~CROWDS.is_grey], CROWDS.colours[~CROWDS.is_grey])
    assert (shown[CROWDS.is_grey].std(1) < 1e-6).all()


def test_unseen_crowds_share_no_drawing_with_others():
    def drawn(crowds):
        return {tuple(row) for row in (cells_of(crowds.images).amax(2) > 0)[..., :5, :5].flatten(2).flatten(0, 1).tolist()}

    unseen = draw_crowds(40, torch.Generator().manual_seed(0), unseen=True)
    assert not drawn(CROWDS) & drawn(unseen)
    assert len(drawings()) == 14_029
    assert torch.equal(drawings(), drawings().flip(-1))


def test_the_seed_decides_the_crowds():
    one, again, other = (next(new_crowds(seed, n=3)).images for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_wanted_colours_are_all_right_and_paint_the_coloured_creatures_as_they_are():
    wanted = CROWDS.colours.mT.unflatten(2, (GRID, GRID))
    assert share_right(wanted, CROWDS) == 1.0
    assert share_right(CROWDS.palette[:, :1].mT.expand(-1, -1, 25).unflatten(2, (5, 5)), CROWDS) == pytest.approx(
        0.25, abs=0.06
    )
    cells, given = cells_of(painted(CROWDS.images, wanted)), cells_of(CROWDS.images)
    torch.testing.assert_close(cells[~CROWDS.is_grey], given[~CROWDS.is_grey])


@pytest.mark.parametrize("make", [rivals.dilated, partial(rivals.dilated, 36, 128), rivals.pooled])
def test_a_rival_is_at_least_as_large_as_the_block_and_every_cell_sees_every_other(make):
    torch.manual_seed(0)
    model, images = make().eval(), torch.rand(8, 3, 30, 30)
    assert sum(p.numel() for p in model.parameters()) >= 57_539
    for near, far in ((slice(0, 6), 4), (slice(24, 30), 0)):
        changed = images.clone()
        changed[:, :, near, near] = torch.rand(8, 3, 6, 6)
        assert (model(changed) - model(images))[:, :, far, far].abs().max() > 0


def test_told_to_compare_ink_non_local_means_finds_the_kind_and_by_pixels_it_does_not():
    by_ink = rivals.by_pixels(CROWDS.images, 0.5, by_ink=True)
    assert share_right(by_ink, CROWDS) >= 0.98
    by_pixels = rivals.by_pixels(CROWDS.images, 0.5)
    assert share_right(by_pixels, CROWDS) <= 0.35
    assert by_pixels.flatten(2).mT[CROWDS.is_grey].std(1).mean() < 0.1, "mostly grey"
