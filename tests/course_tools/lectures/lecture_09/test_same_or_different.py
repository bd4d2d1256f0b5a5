"""Composed images: labels match the content, nothing else reveals the answer, and seeds determine all."""

from functools import cache

import pytest
import torch

from course_lib.datasets import mnist
from course_tools.lectures.lecture_09.same_or_different import ALONE, PAPER, TWIN, same_or_different, twins

each_set = pytest.mark.parametrize("make", [same_or_different, twins])


@cache
def kinds():
    """The digit of each drawing of 14 × 14 pixels, an independent way to read an image."""
    images, labels = mnist()
    halved = torch.nn.functional.avg_pool2d(images, 2)[:, 0]
    return {drawing.numpy().tobytes(): label for drawing, label in zip(halved, labels.tolist(), strict=True)}


def digits_in(picture):
    """Every complete digit in an image (H, W): its kind, and (row, column) of its upper left corner."""
    windows = picture.unfold(0, 14, 1).unfold(1, 14, 1)
    places = ((i, j) for i in range(windows.shape[0]) for j in range(windows.shape[1]))
    found = ((kinds().get(windows[place].contiguous().numpy().tobytes()), place) for place in places)
    return [(kind, place) for kind, place in found if kind is not None]


def test_digits_are_labelled_same_where_they_are_of_one_kind():
    images, labels = same_or_different(60, 1, 1, side=31, n_kinds=3).train
    for picture, label in zip(images[:, 0], labels.tolist(), strict=True):
        (one, (top, left)), (other, (bottom, right)) = digits_in(picture)
        assert label == (one == other)
        assert max(one, other) < 3
        assert 17 in (abs(bottom - top), abs(right - left))


def test_the_pixels_of_two_digits_of_one_kind_are_labelled_twins():
    images, labels = twins(40, 1, 1).train
    for picture, classes in zip(images[:, 0], labels, strict=True):
        found = digits_in(picture)
        shown = [kind for kind, _ in found]
        assert sorted(map(shown.count, shown)) == [1, 1, 2, 2]
        expected = torch.full_like(classes, PAPER)
        for kind, (i, j) in found:
            ink = picture[i : i + 14, j : j + 14] > 0.5
            expected[i : i + 14, j : j + 14][ink] = TWIN if shown.count(kind) == 2 else ALONE
        assert torch.equal(classes, expected)


@each_set
def test_sizes_seeds_and_parts(make):
    parts = make(13, 5, 7, seed=3)
    assert [len(part[0]) for part in (parts.train, parts.valid, parts.test)] == [13, 5, 7]
    for part, again, other in zip(*(vars(make(13, 5, 7, seed=s)).values() for s in (3, 3, 4)), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(part, again, strict=True))
        assert not torch.equal(part[0], other[0])
    for part in vars(parts).values():
        assert part[0].dtype == torch.float32
        assert part[1].dtype == torch.int64
        assert part[0].shape[1] == 1
        assert (part[0].min() >= 0, part[0].max() <= 1) == (True, True)


@each_set
def test_an_empty_part_is_refused(make):
    with pytest.raises(ValueError, match="each part needs an image"):
        make(5, 0, 5)


def test_two_digits_stand_at_opposite_borders_with_nothing_between():
    images, labels = same_or_different(60, 1, 1, side=44).train
    ink = images[:, 0] > 0
    empty_rows, empty_columns = (~ink[:, 14:30].any((1, 2)), ~ink[:, :, 14:30].any((1, 2)))
    assert (empty_rows | empty_columns).all()
    assert 10 < empty_columns.sum() < 50
    assert labels.sum() == 30


def test_the_two_digits_are_never_one_drawing():
    images, _ = same_or_different(200, 1, 1, side=28, n_kinds=2).train
    beside = images[:, 0].unflatten(2, (2, 14))
    ink = [beside[:, :, i].sum((1, 2)) for i in range(2)]
    assert not torch.isclose(*ink, atol=1e-6).any()


def test_two_digits_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit side by side on 27 × 27"):
        same_or_different(5, 1, 1, side=27)


def test_ink_is_labelled_and_paper_is_not():
    images, labels = twins(40, 1, 1, n_digits=3, n_cells=2).train
    assert images.shape == (40, 1, 32, 32)
    assert torch.equal(images[:, 0] > 0.5, labels != PAPER)
    cells = labels.unflatten(2, (2, 16)).unflatten(1, (2, 16)).permute(0, 1, 3, 2, 4).flatten(3).flatten(1, 2)
    kinds = [sorted(cell.unique().tolist()) for picture in cells for cell in picture]
    assert all(kind in ([PAPER], [PAPER, ALONE], [PAPER, TWIN]) for kind in kinds)
    assert [kinds.count([PAPER, kind]) for kind in (ALONE, TWIN)] == [40, 80]


@pytest.mark.parametrize(("n_digits", "n_cells"), [(1, 3), (5, 2), (12, 4)])
def test_too_few_or_too_many_digits_are_refused(n_digits, n_cells):
    with pytest.raises(ValueError, match=f"{n_digits} digits: two must be of one kind"):
        twins(5, 1, 1, n_digits, n_cells)
