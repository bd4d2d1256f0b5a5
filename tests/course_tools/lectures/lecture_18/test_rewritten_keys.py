"""Every question asks for the value that was written last under its key, or last since the subject changed."""

from collections import Counter

import torch

from course_tools.lectures.lecture_18.rewritten_keys import N_KEYS, N_VALUES, each_key_once, hot_keys, new_subject


def test_the_wanted_value_is_the_last_that_was_written():
    writes = hot_keys(23, torch.Generator().manual_seed(0))
    for keys, values, asked, wanted in zip(*(x.tolist() for x in writes), strict=True):
        newest = dict(zip(keys, values, strict=True))
        assert [newest[key] for key in asked] == wanted
        assert len(set(asked)) == len(asked) == 8


def test_keys_are_written_as_often_as_it_says():
    for keys in hot_keys(23, torch.Generator().manual_seed(1)).keys.tolist():
        assert Counter(Counter(keys).values()) == {1: 16, 12: 4}


def test_the_first_questions_ask_for_hot_keys_which_are_new_in_each_sequence():
    writes = hot_keys(23, torch.Generator().manual_seed(2))
    hot = writes.asked[:, :4]
    assert ((writes.keys[:, None] == hot[..., None]).sum(-1) == 12).all()
    assert len(hot.unique()) > 20


def test_what_was_written_before_the_marker_is_void():
    marker, none, void = N_KEYS - 1, N_VALUES - 1, 0
    writes = new_subject(23, torch.Generator().manual_seed(3))
    for keys, values, asked, wanted in zip(*(x.tolist() for x in writes), strict=True):
        at = keys.index(marker)
        assert keys.count(marker) == values.count(none) == 1
        assert values[at] == none
        assert 20 <= at < 44
        newest = dict(zip(keys[at + 1 :], values[at + 1 :], strict=True))
        assert [newest.get(key, none) for key in asked] == wanted
        assert len(set(asked)) == 8
        assert len(set(keys)) <= 13
        void += wanted.count(none)
    assert 0 < void < 23 * 8


def test_each_key_is_written_once_and_asked_keys_are_among_them():
    writes = each_key_once(23, torch.Generator().manual_seed(2), n_pairs=11, n_keys=31)
    assert writes.keys.shape == (23, 11)
    for keys, values, asked, wanted in zip(*(part.tolist() for part in writes), strict=True):
        written = dict(zip(keys, values, strict=True))
        assert len(written) == 11
        assert len(set(asked)) == 8
        assert [written[key] for key in asked] == wanted
