"""Models of documents use the function that they are given, and two means without an activation are one mean."""

import pytest
import torch
from torch import nn

from course_lib.attention import Pool, pool
from course_lib.models import compose_document
from course_tools.lectures.lecture_03.documents import PoolByFunction, TwoLevels, TwoMeans

WORDS, LENGTHS = torch.tensor([[[1, 2, 3], [4, 0, 0]], [[5, 6, 0], [7, 8, 9]]]), torch.tensor([[3, 1], [2, 3]])


def test_a_pool_by_the_librarys_function_is_the_librarys_pool():
    torch.manual_seed(0)
    ours, theirs = PoolByFunction(pool, 7, 5), Pool(7, 5)
    theirs.load_state_dict(ours.weights.state_dict())
    values, mask = torch.randn(2, 3, 7), torch.tensor([[True, True, False], [True, False, False]])
    for a, b in zip(ours(values, mask), theirs(values, mask), strict=True):
        torch.testing.assert_close(a, b)


def test_the_function_that_is_given_computes_the_result():
    values = torch.randn(2, 3, 7)
    context, weights = PoolByFunction(lambda values, W, b, u, mask: (values[..., 0, :], values[..., 0]), 7, 5)(values)
    assert context.equal(values[:, 0])
    assert weights.equal(values[..., 0])


def test_two_levels_return_the_weights_of_real_words():
    torch.manual_seed(0)
    logits, document = TwoLevels(compose_document, 11, 4, d=5)(WORDS, LENGTHS)
    assert logits.shape == (2, 4)
    torch.testing.assert_close(document.sentences.sum(-1), torch.ones(2))
    assert document.words[0, 1].tolist() == [1.0, 0.0, 0.0]


def mean_of_means(vectors: torch.Tensor) -> torch.Tensor:
    """The mean over the sentences of the means of their real words, (B, d)."""
    sentences = [[vectors[row[:n]].mean(0) for row, n in zip(*pair, strict=True)] for pair in zip(WORDS, LENGTHS, strict=True)]
    return torch.stack([torch.stack(document).mean(0) for document in sentences])


@pytest.mark.parametrize(("activation", "is_linear"), [(nn.Identity, True), (nn.ReLU, False)])
def test_two_means_are_linear_in_the_word_vectors_only_without_an_activation(activation, is_linear):
    torch.manual_seed(0)
    model = TwoMeans(activation, 11, 4, d=5)
    logits, weights = model(WORDS, LENGTHS)
    assert weights is None
    one_mean = model.readout(model.layer[0](mean_of_means(model.words.weight)))
    assert torch.allclose(logits, one_mean, atol=1e-5) is is_linear
