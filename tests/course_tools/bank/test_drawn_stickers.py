"""Stickers have two colours, one light and one dark, in either place, and unseen ones come from other drawings."""

import torch

from course_tools.bank.drawn_stickers import NAMES, THINGS, draw_stickers


def greys(images: torch.Tensor) -> torch.Tensor:
    """The mean of the channels, centred on each sticker: (n, 144)."""
    grey = images.mean(1).flatten(1)
    return grey - grey.mean(1, keepdim=True)


def test_a_sticker_has_two_colours_and_what_lies_between():
    images = draw_stickers(200, seed=0).images.flatten(2)
    _, values, _ = torch.linalg.svd(images - images.mean(2, keepdim=True))
    assert (values[:, 1] < 1e-4 * values[:, 0]).all()


def test_ink_is_lighter_than_the_ground_on_about_half_of_the_stickers():
    stickers = draw_stickers(1_000, seed=0).images.mean(1)
    lighter = (stickers[:, 4:8, 4:8].mean((1, 2)) > stickers[:, 0, 0]).float().mean()
    assert 0.45 < lighter < 0.55


def test_stickers_follow_the_seed_and_all_things_occur():
    one, again, other = draw_stickers(300, 2), draw_stickers(300, 2), draw_stickers(300, 3)
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)
    assert one.images.shape == (300, 3, 12, 12)
    assert one.images.abs().max() <= 1
    assert len(one.kinds.unique()) == len(THINGS) == len(NAMES) == 10


def test_unseen_stickers_are_of_other_drawings():
    def shapes(unseen):
        return torch.nn.functional.normalize(greys(draw_stickers(600, 0, unseen).images), dim=1)

    known, again, unseen = (
        shapes(False),
        torch.nn.functional.normalize(greys(draw_stickers(600, 1).images), dim=1),
        shapes(True),
    )
    assert ((again @ known.mT).abs().amax(1) > 0.99999).float().mean() > 0.1  # the same drawing in other colours
    assert ((unseen @ known.mT).abs() > 0.99999).sum() == 0
