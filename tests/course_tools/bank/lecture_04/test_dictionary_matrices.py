"""Matrices set by hand make one head of attention a dictionary."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import scaled_dot_product_attention
from course_tools.bank.lecture_04.dictionary_matrices import dictionary_matrices


def test_three_pairs_and_a_question_by_hand():
    """k0=v1, k2=v0, k1=v1 and the question k2?: e⁵ for the pair and for the question itself, whose blank adds nothing."""
    W_q, W_k, W_v = dictionary_matrices(3, 2)
    x = torch.cat([F.one_hot(torch.tensor([0, 2, 1, 2]), 3), F.one_hot(torch.tensor([1, 0, 1, 2]), 3)], dim=-1).float()
    found = scaled_dot_product_attention(x @ W_q.mT, x @ W_k.mT, x @ W_v.mT)
    e = torch.tensor(5.0).exp()
    torch.testing.assert_close(found.weights[-1], torch.stack([e**0, e, e**0, e]) / (2 + 2 * e))
    torch.testing.assert_close(found.context[-1], torch.stack([e, 2 * e**0]) / (2 + 2 * e))


@pytest.mark.parametrize(("n_keys", "n_values"), [(2, 3), (16, 8), (64, 5)])
def test_every_key_finds_its_value(n_keys, n_values):
    W_q, W_k, W_v = dictionary_matrices(n_keys, n_values)
    keys, values = torch.arange(n_keys).repeat(2), torch.arange(n_keys) % n_values
    tokens = F.one_hot(torch.cat([values, torch.full_like(values, n_values)]), n_values + 1)
    x = torch.cat([F.one_hot(keys, n_keys), tokens], dim=-1).float()
    context = scaled_dot_product_attention(x @ W_q.mT, x @ W_k.mT, x @ W_v.mT).context
    assert context[n_keys:].argmax(-1).equal(values)
