"""Composed images and videos: labels match the content, nothing else reveals the answer, and seeds determine all."""

from functools import cache

import pytest
import torch

from course_lib.datasets import ALONE, PAPER, TWIN, WALL, clutter, mnist, moving_digits, same_or_different, twins

each_set = pytest.mark.parametrize("make", [clutter, same_or_different, twins, moving_digits])


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


def test_the_label_of_clutter_is_the_digit_that_is_there():
    """Without pieces; with pieces the labels are the same (below)."""
    images, labels = clutter(60, 1, 1, canvas=20, n_pieces=0).train
    assert [[kind for kind, _ in digits_in(picture)] for picture in images[:, 0]] == [[label] for label in labels.tolist()]


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


def test_a_film_is_labelled_same_where_the_kind_that_goes_in_comes_out():
    videos, labels = moving_digits(60, 1, 1, n_kinds=4).train
    for video, label in zip(videos[:, 0], labels.tolist(), strict=True):
        ((into, (_, start)),), ((out_of, (_, end)),) = digits_in(video[0]), digits_in(video[-1])
        assert label == (into == out_of)
        assert {start, end} == {0, 28}


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


def test_without_pieces_there_is_one_digit_on_a_clean_canvas():
    images, labels = clutter(50, 1, 1, canvas=29, n_pieces=0).train
    assert images.shape == (50, 1, 29, 29)
    ink = images[:, 0] > 0
    rows, columns = ink.any(2).sum(1), ink.any(1).sum(1)
    assert (rows <= 14).all()
    assert (columns <= 14).all()
    assert labels.unique().tolist() == list(range(10))


def test_pieces_add_ink_and_leave_the_digit():
    clean, cluttered = (clutter(50, 1, 1, n_pieces=n).train for n in (0, 12))
    assert torch.equal(clean.labels, cluttered.labels)
    assert (cluttered.images >= clean.images).all()
    assert cluttered.images.sum() > 1.5 * clean.images.sum()


def test_a_canvas_of_one_digit_is_wide_enough_and_smaller_ones_are_refused():
    assert clutter(3, 1, 1, canvas=14).train.images.shape == (3, 1, 14, 14)
    with pytest.raises(ValueError, match="got canvas=13 and n_pieces=12"):
        clutter(3, 1, 1, canvas=13)
    with pytest.raises(ValueError, match="n_pieces=-1"):
        clutter(3, 1, 1, n_pieces=-1)


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


def test_no_picture_of_a_film_shows_two_digits_and_the_wall_never_moves():
    videos, labels = moving_digits(80, 1, 1).train
    assert videos.shape == (80, 1, 6, 20, 42)
    assert (videos[..., 14:28] == WALL).all()
    left, right = (videos[:, 0, ..., part].flatten(2).any(2) for part in (slice(0, 14), slice(28, 42)))
    assert not (left & right).any()
    starts_left = left[:, 0]
    assert torch.equal(starts_left, right[:, -1])
    assert 20 < starts_left.sum() < 60
    assert labels.sum() == 40


def test_the_digit_is_whole_at_both_ends_of_a_film():
    videos, _ = moving_digits(30, 1, 1, n_times=2, height=14).train
    assert videos.shape[2:] == (2, 14, 42)
    open_parts = torch.cat([videos[..., :14], videos[..., 28:]], dim=-1)
    assert (open_parts.flatten(3).sum(-1) > 5).all()


@pytest.mark.parametrize(("n_times", "height"), [(1, 20), (6, 13)])
def test_videos_that_are_too_small_are_refused(n_times, height):
    with pytest.raises(ValueError, match=f"got {n_times} frames of {height} rows"):
        moving_digits(5, 1, 1, n_times, height)
