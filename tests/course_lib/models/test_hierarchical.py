"""Hierarchical attention: weights of words in a sentence and of sentences in a document; padding has no weight."""

import pytest
import torch

from course_lib.attention import Pool, mean_pool, pool
from course_lib.fast import fused_bidirectional_gru, stacked_bidirectional_gru
from course_lib.models import Hierarchical, compose_document

B, S, T, D, D_A, N, C = 3, 5, 4, 7, 2, 11, 13
LENGTHS = torch.tensor([[4, 2, 3, 1, 4], [1, 3, 0, 0, 0], [2, 0, 0, 0, 0]])
WORDS = torch.randint(N, (B, S, T), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(T) < LENGTHS[..., None]


def weights(normal):
    return normal(D_A, D), normal(D_A), normal(D_A)


def model(**settings):
    torch.manual_seed(0)
    return Hierarchical(N, C, 3, 2, **settings).double()


def test_words_make_sentences_and_sentences_a_document_one_after_the_other(normal):
    states, words, sentences = normal(B, S, T, D), weights(normal), weights(normal)
    document = compose_document(states, MASK, words, sentences)
    for b in range(B):
        made = []
        for s in range(S):
            length = int(LENGTHS[b, s])
            if length:
                context, row = pool(states[b, s, :length], *words)
                torch.testing.assert_close(document.words[b, s, :length], row)
                made.append(context)
        vector, row = pool(torch.stack(made), *sentences)
        torch.testing.assert_close(document.vector[b], vector)
        torch.testing.assert_close(document.sentences[b, : len(made)], row)


def test_the_shares_of_all_words_sum_to_1_and_padding_has_none(normal):
    document = compose_document(normal(B, S, T, D), MASK, weights(normal), weights(normal))
    shares = document.sentences[..., None] * document.words
    torch.testing.assert_close(shares.sum((1, 2)), torch.ones(B, dtype=torch.float64))
    assert (shares[~MASK] == 0).all()
    assert (shares[MASK] > 0).all()


def test_the_vector_is_the_words_by_their_shares(normal):
    states = normal(B, S, T, D)
    document = compose_document(states, MASK, weights(normal), weights(normal))
    shares = document.sentences[..., None] * document.words
    torch.testing.assert_close(document.vector, torch.einsum("bst,bstd->bd", shares, states))


def test_a_document_by_hand():
    """Queries of 0 give equal weights: the mean of sentence means, not the mean of the words."""
    states = torch.tensor([[[[1.0], [3.0]], [[8.0], [99.0]]]])
    mask = torch.tensor([[[True, True], [True, False]]])
    nothing = (torch.zeros(1, 1), torch.zeros(1), torch.zeros(1))
    document = compose_document(states, mask, nothing, nothing)
    assert document.vector.item() == 5.0
    assert document.sentences.tolist() == [[0.5, 0.5]]
    assert document.words.tolist() == [[[0.5, 0.5], [1.0, 0.0]]]


def test_gradients_against_differences(normal):
    def vector(states, *rest):
        return tuple(compose_document(states, MASK[:2, :3], rest[:3], rest[3:]))

    inputs = normal(2, 3, T, D), *weights(normal), *weights(normal)
    assert torch.autograd.gradcheck(vector, inputs, fast_mode=True)


def test_a_document_alone_is_read_as_in_a_padded_batch():
    hierarchical = model()
    logits, document = hierarchical(WORDS, LENGTHS)
    for row in range(B):
        n = int((LENGTHS[row] > 0).sum())
        longest = int(LENGTHS[row].max())
        alone, read = hierarchical(WORDS[row : row + 1, :n, :longest], LENGTHS[row : row + 1, :n])
        torch.testing.assert_close(alone[0], logits[row])
        torch.testing.assert_close(read.words[0], document.words[row, :n, :longest])


def test_what_stands_at_padding_changes_nothing():
    other = torch.where(MASK, WORDS, 1)
    assert torch.equal(model()(WORDS, LENGTHS)[0], model()(other, LENGTHS)[0])


@pytest.mark.parametrize("run", [fused_bidirectional_gru, stacked_bidirectional_gru])
def test_the_fast_forms_have_the_outputs_and_gradients_of_the_equations(run):
    results = []
    for hierarchical in (model(), model(run=run)):
        logits, document = hierarchical(WORDS, LENGTHS)
        gradients = torch.autograd.grad(logits.square().sum(), list(hierarchical.parameters()))
        results.append((logits, *document, *gradients))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_pools_is_an_argument():
    """With a plain mean, every word of a sentence has the same weight."""
    _, document = model(pooling=lambda d_v, d_a: mean_pool)(WORDS, LENGTHS)
    torch.testing.assert_close(document.words, torch.where(MASK, 1 / LENGTHS.clamp(min=1)[..., None], 0.0).double())
    assert isinstance(model().pool_words, Pool)


def test_an_empty_document_gives_no_nan():
    hierarchical = model()
    logits, document = hierarchical(WORDS, torch.zeros_like(LENGTHS))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert (document.vector == 0).all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in hierarchical.parameters())
