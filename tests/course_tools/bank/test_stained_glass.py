"""Stained glass: one colour for each pane, and noise of the stated strength."""

import pytest
import torch

from course_tools.bank.stained_glass import UNEVEN, decibels, noisy_glass, stained_glass, uneven_glass


def test_glass_has_one_colour_for_each_pane_and_noise_of_the_stated_strength():
    glass = stained_glass(4, torch.Generator().manual_seed(0), side=11, panes=3)
    assert glass.shape == (4, 3, 11, 11)
    assert all(2 <= len(image.flatten(1).unique(dim=1).T) <= 3 for image in glass)
    noisy, clean = next(noisy_glass(seed=0, n=100))
    assert (noisy - clean).std().item() == pytest.approx(0.2, rel=0.02)
    assert decibels(noisy, clean) == pytest.approx(13.98, abs=0.1)
    noisy, clean = next(uneven_glass(seed=0, n=100))
    assert (noisy - clean).std((0, 2, 3)).tolist() == pytest.approx(UNEVEN, rel=0.02)
