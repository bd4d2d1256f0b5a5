"""A model of associative recall computes one query per question and one key per pair."""

import pytest
import torch

from course_lib.attention import scaled_dot_product_attention
from course_tools.lectures.lecture_14.associative_recall import (
    D_MODEL,
    AssociativeRecall,
    pairs_task,
    show_recall_weights,
    train_readers,
)


def test_queries_and_pairs_are_projected():
    torch.manual_seed(0)
    part = pairs_task(5).test
    inputs = part.queries[:3], part.keys[:3], part.values[:3]
    model = AssociativeRecall(scaled_dot_product_attention, 10, size=16)
    q, k = model.projected(*inputs)
    assert (q.shape, k.shape, model(*inputs).shape) == ((3, 4, 16), (3, 5, 16), (3, 4, 8))


def test_readers_are_trained_with_each_seed_and_each_size():
    readers = train_readers({"softmax": lambda size: scaled_dot_product_attention}, 3, {4: (0, 1), 6: (0,)}, steps=3, lr=0.01)
    assert {size: len(trained) for size, trained in readers["softmax"].items()} == {4: 2, 6: 1}
    models = [trained[0].model for trained in readers["softmax"].values()]
    assert [model.attention.W_k.weight.shape for model in models] == [(4, D_MODEL), (6, D_MODEL)]
    assert [model.key.weight.shape for model in models] == 2 * [(6, D_MODEL)]


def test_the_weight_of_the_right_pair_is_uniform_for_equal_features():
    torch.manual_seed(0)
    model = AssociativeRecall(scaled_dot_product_attention, 10)
    share = show_recall_weights({"equal": (model, torch.ones_like), "softmax": (model, None)}, 5)
    assert share["equal"] == pytest.approx(1 / 5)
    assert share["softmax"] != pytest.approx(1 / 5)
