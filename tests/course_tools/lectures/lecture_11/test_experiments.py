"""Rivals of interpolated positions: the nearest old ones, and new ones of the same size."""

import torch

from course_tools.lectures.lecture_11.experiments import nearest_positions, new_positions


def positions() -> torch.Tensor:
    return torch.randn(1 + 2 * 3, 200, generator=torch.Generator().manual_seed(1))


def test_each_patch_of_a_larger_grid_gets_the_position_of_the_nearest_old_one():
    old = positions()
    larger = nearest_positions(old, 2, 3, 4, 6)
    assert torch.equal(larger[0], old[0])
    grid, old_grid = larger[1:].unflatten(0, (4, 6)), old[1:].unflatten(0, (2, 3))
    for row in range(4):
        for column in range(6):
            assert torch.equal(grid[row, column], old_grid[row // 2, column // 2])


def test_new_positions_are_as_large_as_the_old_ones_and_follow_the_seed():
    old = 3 * positions()
    new = new_positions(old, 2, 3, 4, 6)
    assert new.shape == (25, 200)
    assert torch.equal(new[0], old[0])
    torch.testing.assert_close(new[1:].std(), old[1:].std(), rtol=0.05, atol=0.0)
    assert torch.equal(new, new_positions(old, 2, 3, 4, 6))
    assert not torch.equal(new, new_positions(old, 2, 3, 4, 6, seed=1))
