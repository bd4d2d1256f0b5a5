"""A model of associative recall computes one query per question and one key per pair."""

import torch

from course_lib.attention import scaled_dot_product_attention
from course_tools.notebook.associative_recall import AssociativeRecall, pairs_task


def test_queries_and_pairs_are_projected():
    torch.manual_seed(0)
    part = pairs_task(5).test
    inputs = part.queries[:3], part.keys[:3], part.values[:3]
    model = AssociativeRecall(scaled_dot_product_attention, 10, d_model=16)
    q, k = model.projected(*inputs)
    assert (q.shape, k.shape, model(*inputs).shape) == ((3, 4, 16), (3, 5, 16), (3, 4, 8))
