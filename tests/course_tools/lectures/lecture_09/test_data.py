"""Videos of digits behind a wall: labels match the content, nothing else reveals the answer, seeds determine all."""

import pytest
import torch

from course_tools.lectures.lecture_09.data import WALL, moving_digits
from tests.course_tools.lectures.lecture_09.test_same_or_different import digits_in


def test_a_film_is_labelled_same_where_the_kind_that_goes_in_comes_out():
    videos, labels = moving_digits(60, 1, 1, n_kinds=4).train
    for video, label in zip(videos[:, 0], labels.tolist(), strict=True):
        ((into, (_, start)),), ((out_of, (_, end)),) = digits_in(video[0]), digits_in(video[-1])
        assert label == (into == out_of)
        assert {start, end} == {0, 28}


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


def test_sizes_seeds_and_parts():
    parts = moving_digits(13, 5, 7, seed=3)
    assert [len(part.labels) for part in (parts.train, parts.valid, parts.test)] == [13, 5, 7]
    again, other = moving_digits(13, 5, 7, seed=3), moving_digits(13, 5, 7, seed=4)
    assert torch.equal(parts.train.videos, again.train.videos)
    assert not torch.equal(parts.train.videos, other.train.videos)
    with pytest.raises(ValueError, match="each part needs an image"):
        moving_digits(5, 0, 5)
