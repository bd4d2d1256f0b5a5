"""Kneser-Ney: by hand, by dictionaries, sums to 1, step by step, and fewer bits than Witten-Bell's counts."""

from collections import Counter

import pytest
import torch

from course_lib.datasets import Vocabulary, language_reference
from course_lib.generation import LanguageModel, generate
from course_lib.models import KneserNey, NGram

N_TOKENS = 7
TEXT = torch.tensor([1, 2, 3, 5, 6, 1, 2] * 11)[torch.randint(77, (300,), generator=torch.Generator().manual_seed(0))]


def model(order, text=TEXT, n_tokens=N_TOKENS):
    return KneserNey(text.unfold(0, order, 1), n_tokens)


def by_dictionaries(text, gram, order, n_tokens):
    """The formula of the paper, one run at a time; of shorter runs, the different tokens before them are counted."""
    runs = {tuple(run) for run in text.unfold(0, order, 1).tolist()}
    p = 1 / n_tokens
    for n in range(1, order + 1):
        if n == order:
            counts = Counter(map(tuple, text.unfold(0, order, 1).tolist()))
        else:
            counts = Counter(run[1:] for run in {run[order - n - 1 :] for run in runs})
        of_counts = Counter(counts.values())
        Y = of_counts[1] / (of_counts[1] + 2 * of_counts[2]) if of_counts[1] else 0.0
        D = {k: max(0.0, k - (k + 1) * Y * of_counts[k + 1] / max(of_counts[k], 1)) for k in (1, 2, 3)}
        context = tuple(gram[len(gram) - n : -1])
        after = {run: count for run, count in counts.items() if run[:-1] == context}
        if after:
            total, count = sum(after.values()), after.get((*context, gram[-1]), 0)
            rest = sum(D[min(other, 3)] for other in after.values())
            p = (count - (D[min(count, 3)] if count else 0.0) + rest * p) / total
    return p


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_the_papers_formula(order):
    grams = torch.randint(N_TOKENS, (50, order), generator=torch.Generator().manual_seed(1))
    expected = [by_dictionaries(TEXT, gram, order, N_TOKENS) for gram in grams.tolist()]
    torch.testing.assert_close(model(order).probability(grams), torch.tensor(expected, dtype=torch.double))


def test_a_bigram_by_hand():
    """The pairs 01, 12, 20, 01, 11: after 0 only 1, twice; one token precedes 0, two 1 and one 2: discounts 1/2 and 2."""
    found = model(2, torch.tensor([0, 1, 2, 0, 1, 1]), 3)
    D_1, D_2 = 1 - 2 * (2 / 4) * 1 / 2, 2.0
    p_1 = (2 - D_2 + (2 * D_1 + D_2) / 3) / 4
    assert found.probability(torch.tensor([[1]])).item() == pytest.approx(p_1)
    pairs_Y = 3 / (3 + 2 * 1)
    assert found.probability(torch.tensor([[0, 1]])).item() == pytest.approx((2 - 2 + 2 * p_1) / 2)
    D_1_of_pairs = 1 - 2 * pairs_Y * 1 / 3
    assert found.probability(torch.tensor([[1, 1]])).item() == pytest.approx((1 - D_1_of_pairs + 2 * D_1_of_pairs * p_1) / 2)


def test_a_token_of_one_context_is_no_evidence_elsewhere():
    """6 follows nothing but 5, and often; 3 follows five different tokens, once each. After a new context, 3 is likelier."""
    text = torch.tensor([5, 6] * 20 + [0, 3, 1, 3, 2, 3, 4, 3])
    found, by_occurrence = model(2, text), NGram(text.unfold(0, 2, 1), N_TOKENS)
    six, three = (torch.tensor([[token]]) for token in (6, 3))
    assert found.probability(three) > found.probability(six)
    assert by_occurrence.probability(three) < by_occurrence.probability(six)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_probabilities_after_a_context_sum_to_1(order):
    found = model(order)
    for prompt in (TEXT[None, :9], torch.tensor([[4, 4, 4, 4]]), TEXT[None, :0]):
        logits, _ = found.step(torch.tensor([2]), found.start(prompt))
        assert logits.shape == (1, N_TOKENS)
        assert logits.exp().sum().item() == pytest.approx(1)


def test_an_unseen_context_has_the_probabilities_of_a_shorter_one():
    """Token 4 never occurs."""
    seen, unseen = torch.tensor([[1, 2]]), torch.tensor([[4, 1, 2]])
    assert torch.equal(model(3).probability(seen), model(3).probability(unseen))


def test_it_generates_as_the_other_language_models_do():
    text = torch.tensor([0, 1, 2, 3, 2]).repeat(50)
    found = model(3, text, 5)
    assert isinstance(found, LanguageModel)
    written = generate(found, text[None, :7].repeat(2, 1), 11, lambda logits: logits.argmax(-1))
    assert torch.equal(written, text[None, 7:18].expand(2, -1))
    state = found.start(text[None, :4])
    first, second = (found.step(torch.tensor([2]), state) for _ in range(2))
    assert torch.equal(first[0], second[0])
    torch.testing.assert_close(first[0][0, 0].exp(), found.probability(torch.tensor([[3, 2, 0]]))[0])


def test_it_needs_fewer_bits_than_witten_bell_on_real_text():
    parts = language_reference()
    characters = Vocabulary.of([parts.train, parts.valid])
    known, new = (torch.tensor(characters.encode(text)) for text in (parts.train, parts.valid))
    bits = [
        min(-made(known.unfold(0, n, 1), len(characters)).probability(new.unfold(0, n, 1)).log2().mean().item() for n in (5, 7))
        for made in (KneserNey, NGram)
    ]
    assert bits[0] < bits[1] - 0.1


def test_runs_too_many_to_number_are_refused():
    with pytest.raises(ValueError, match="lower order"):
        model(7, TEXT, 1_000)
