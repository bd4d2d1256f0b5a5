"""Composed images: captions and positions match the content, and no drawing is in two parts."""

import pytest
import torch

from course_tools.bank.drawn_digits import halved_digits
from course_tools.bank.lecture_03._captioned_digits import NAMES, captioned_digits

SIZES = (211, 7, 53)


@pytest.fixture(scope="module")
def parts():
    return captioned_digits(*SIZES, seed=3)


def stamped(part):
    """The two windows of each image, (n, 2, 14, 14)."""
    return torch.stack(
        [
            torch.stack([image[0, top : top + 14, left : left + 14] for top, left in corners])
            for image, corners in zip(part.images, part.corners.tolist(), strict=True)
        ]
    )


def test_what_is_named_first_stands_left_or_above(parts):
    for part, n in zip((parts.train, parts.valid, parts.test), SIZES, strict=True):
        assert len(part.images) == len(part.captions) == len(part.corners) == n
        for caption, ((top, left), (below, right)) in zip(part.captions, part.corners.tolist(), strict=True):
            first, *relation, second = caption.split()
            assert {first, second} <= set(NAMES)
            if relation == ["left", "of"]:
                assert right - left >= 14
                assert abs(below - top) <= 6
            else:
                assert relation == ["above"]
                assert below - top >= 14
                assert abs(right - left) <= 6


def test_the_windows_hold_all_the_ink_and_drawings_of_the_named_digits(parts):
    drawings = halved_digits(torch.Generator().manual_seed(3))
    for part, from_these in ((parts.train, drawings.train), (parts.test, drawings.test)):
        windows = stamped(part)
        torch.testing.assert_close(windows.sum((1, 2, 3)), part.images.sum((1, 2, 3)))
        for pair, caption in zip(windows, part.captions, strict=True):
            for window, name in zip(pair, (caption.split()[0], caption.split()[-1]), strict=True):
                assert (window == from_these[NAMES.index(name)]).all((1, 2)).any()


def test_the_seed_decides(parts):
    again, other = captioned_digits(*SIZES, seed=3), captioned_digits(*SIZES, seed=4)
    assert torch.equal(again.test.images, parts.test.images)
    assert again.train.captions == parts.train.captions
    assert other.train.captions != parts.train.captions


def test_every_digit_and_both_relations_occur(parts):
    words = [word for caption in parts.train.captions for word in caption.split()]
    assert set(words) == {*NAMES, "left", "of", "above"}
    assert 70 < words.count("above") < 140


def test_a_part_without_a_picture_is_refused():
    with pytest.raises(ValueError, match="each part needs an image, got 3, 0 and 1"):
        captioned_digits(3, 0, 1)
