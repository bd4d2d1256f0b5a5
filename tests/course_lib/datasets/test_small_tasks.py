"""Recall, reversal and lookup: the label follows from the sequence, and the right pattern gives the right answer."""

import pytest
import torch

from course_lib.datasets import lookup, recall, reversal


def test_the_first_symbol_is_the_label_and_stands_nowhere_else():
    tokens, labels = recall(50, 1, 1, T=7, n_symbols=3, n_distractors=2, seed=1).train
    assert tokens.shape == (50, 7)
    assert (tokens[:, 0] == labels).all()
    assert set(labels.tolist()) == {0, 1, 2}
    assert set(tokens[:, 1:].unique().tolist()) == {3, 4}


def test_reversal_by_hand():
    tokens, targets, pattern = reversal(20, 1, 1, T=3, n_symbols=5).train
    a, b, c = tokens[0].tolist()
    assert targets[0].tolist() == [c, b, a]
    assert pattern[0].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_the_right_pattern_of_a_reversal_gives_its_targets():
    tokens, targets, pattern = reversal(20, 1, 1, T=5).train
    assert ((pattern @ tokens[..., None].float())[..., 0] == targets).all()


def test_the_right_pattern_of_a_lookup_gives_its_targets_and_names_the_right_keys():
    queries, keys, values, targets, pattern = lookup(50, 1, 1, T_q=3, T_k=5, n_keys=7, n_values=11, seed=2).train
    assert ((pattern @ values[..., None].float())[..., 0] == targets).all()
    assert ((pattern @ keys[..., None].float())[..., 0] == queries).all()
    assert (pattern.sum(-1) == 1).all()
    assert all(len(set(row)) == 5 for row in keys.tolist())


def test_the_right_pattern_of_a_lookup_changes_with_the_content():
    assert len(lookup(50, 1, 1).train.pattern.unique(dim=0)) > 40


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: recall(5, 1, 1, T=0), "must be positive"),
        (
            lambda: recall(5, 2, 2, T=2, n_symbols=2, n_distractors=4),
            "9 different sequences requested; with these sizes there are 1 to 8",
        ),
        (lambda: reversal(5, 2, 2, T=3, n_symbols=2), "1 to 8"),
        (lambda: reversal(0, 0, 0), "0 different"),
        (lambda: lookup(1, 1, 1, T_k=3, n_keys=2), "at least as many"),
        (lambda: lookup(7, 1, 1, T_q=1, T_k=2, n_keys=2, n_values=1), "1 to 4"),
    ],
)
def test_the_tasks_refuse_sizes_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_different_sequence_can_be_drawn():
    parts = reversal(5, 2, 1, T=3, n_symbols=2)
    assert len(torch.cat([parts.train.tokens, parts.valid.tokens, parts.test.tokens]).unique(dim=0)) == 8
