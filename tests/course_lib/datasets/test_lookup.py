"""Look-up: the right pattern gives the right answer, and every different sequence can be drawn."""

import pytest
import torch

from course_lib.datasets import lookup


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
        (lambda: lookup(1, 1, 1, T_q=0), "must be positive"),
        (lambda: lookup(0, 0, 0), "0 different sequences requested; with these sizes there are 1 to"),
        (lambda: lookup(1, 1, 1, T_k=3, n_keys=2), "at least as many"),
        (lambda: lookup(7, 1, 1, T_q=1, T_k=2, n_keys=2, n_values=1), "1 to 4"),
    ],
)
def test_the_tasks_refuse_sizes_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_different_sequence_can_be_drawn():
    parts = lookup(2, 1, 1, T_q=1, T_k=2, n_keys=2, n_values=1)
    rows = torch.cat([torch.cat([part.queries, part.keys], dim=1) for part in (parts.train, parts.valid, parts.test)])
    assert len(rows.unique(dim=0)) == 4
