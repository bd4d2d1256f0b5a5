"""N-grams: by hand, by dictionaries, sums to 1, and the fallback for an unseen context."""

from collections import Counter

import pytest
import torch

from course_lib.models import NGram

N_TOKENS = 5
TEXT = torch.randint(4, (200,), generator=torch.Generator().manual_seed(0))


def ngram(order, text=TEXT, n_tokens=N_TOKENS):
    return NGram(text.unfold(0, order, 1), n_tokens)


def by_dictionaries(text, gram, order, n_tokens):
    """The formula of the paper, one gram at a time."""
    p = 1 / n_tokens
    runs = [tuple(run) for run in text.unfold(0, order, 1).tolist()]
    for n in range(1, order + 1):
        ends = Counter(run[order - n :] for run in runs)
        context = tuple(gram[len(gram) - n : -1])
        after = {run: count for run, count in ends.items() if run[:-1] == context}
        if after:
            p = (ends[(*context, gram[-1])] + len(after) * p) / (sum(after.values()) + len(after))
    return p


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_the_papers_formula(order):
    grams = torch.randint(N_TOKENS, (50, order), generator=torch.Generator().manual_seed(1))
    expected = [by_dictionaries(TEXT, gram, order, N_TOKENS) for gram in grams.tolist()]
    torch.testing.assert_close(ngram(order).probability(grams), torch.tensor(expected, dtype=torch.double))


def test_a_bigram_by_hand():
    """After 0 came 1, 1 and 0; p(1) of the tokens at the ends of the runs is 2 of 4, interpolated with 1/3."""
    model = ngram(2, torch.tensor([0, 1, 0, 1, 1]), 3)
    p_1 = (3 + 2 / 3) / (4 + 2)
    assert model.probability(torch.tensor([[1]])).item() == pytest.approx(p_1)
    assert model.probability(torch.tensor([[0, 1]])).item() == pytest.approx((2 + 1 * p_1) / (2 + 1))
    assert len(model) == 2 + 3


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_probabilities_after_a_context_sum_to_1(order):
    for context in (TEXT[:7], torch.tensor([4, 4, 4, 4]), TEXT[:0]):
        p = ngram(order).probabilities(context)
        assert p.shape == (N_TOKENS,)
        assert p.sum().item() == pytest.approx(1)
        assert (p > 0).all()


def test_the_probabilities_of_a_batch_of_contexts_are_those_of_each_alone():
    model, contexts = ngram(3), TEXT[:24].view(2, 3, 4)
    each = [model.probabilities(context) for context in contexts.flatten(0, 1)]
    assert torch.equal(model.probabilities(contexts), torch.stack(each).view(2, 3, N_TOKENS))


def test_an_unseen_context_says_what_a_shorter_one_says():
    """Token 4 never occurs."""
    model = ngram(3)
    seen, unseen = torch.tensor([[1, 2]]), torch.tensor([[4, 1, 2]])
    assert torch.equal(model.probability(seen), model.probability(unseen))


def test_what_is_longer_than_the_order_is_not_seen():
    model = ngram(3)
    near, far = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 2, 1, 2, 3]])
    assert torch.equal(model.probability(near), model.probability(far))


def test_a_text_that_repeats_is_soon_certain():
    text = torch.tensor([0, 1, 2, 3]).repeat(1_000)
    assert ngram(4, text).probability(text.unfold(0, 4, 1)).min() > 0.99


def test_runs_too_many_to_number_are_refused():
    with pytest.raises(ValueError, match="lower order"):
        ngram(7, TEXT, 1_000)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_a_gram_has_a_number_in_64_bits_whatever_the_type_of_its_tokens(dtype):
    grams = TEXT.unfold(0, 4, 1)
    torch.testing.assert_close(NGram(grams.to(dtype), 100).probability(grams.to(dtype)), NGram(grams, 100).probability(grams))
