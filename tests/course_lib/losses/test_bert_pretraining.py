"""BERT's two tasks: proportions within 5 σ, corruption determined by its draws, and pairs from the right documents."""

import math

import pytest
import torch

from course_lib.losses import corrupt, mask_tokens, mlm_loss, nsp_pairs, segment_input

B, T, N, MASK = 3, 7, 11, 10
BIG, VOCABULARY = (200, 500), 1000


def tokens():
    return torch.randint(N - 1, (B, T), generator=torch.Generator().manual_seed(0))


def everywhere(*shape):
    return torch.ones(*shape, dtype=torch.bool)


def uniform(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def big():
    """A text of 100,000 words, of which the first tenth of each row must not change, and the masked text."""
    text = torch.randint(VOCABULARY, BIG, generator=torch.Generator().manual_seed(1))
    eligible = everywhere(*BIG)
    eligible[:, : BIG[1] // 10] = False
    masked = mask_tokens(text, eligible, VOCABULARY, VOCABULARY, torch.Generator().manual_seed(2))
    return text, eligible, masked


def within_5_sigma(count, n, p):
    return abs(int(count) - n * p) <= 5 * math.sqrt(n * p * (1 - p))


def test_fifteen_percent_of_the_eligible_words_are_chosen_at_5_sigma(big):
    _, eligible, (_, chosen) = big
    assert not chosen[~eligible].any()
    assert within_5_sigma(chosen.sum(), int(eligible.sum()), 0.15)


def test_of_the_chosen_eighty_are_masked_ten_replaced_ten_stay_at_5_sigma(big):
    """A replacement is the true word with probability 1 / vocabulary, and then looks unchanged."""
    text, _, (corrupted, chosen) = big
    n, same = int(chosen.sum()), corrupted[chosen] == text[chosen]
    masked = corrupted[chosen] == VOCABULARY
    assert within_5_sigma(masked.sum(), n, 0.8)
    assert within_5_sigma(same.sum(), n, 0.1 + 0.1 / VOCABULARY)
    assert within_5_sigma((~same & ~masked).sum(), n, 0.1 - 0.1 / VOCABULARY)


def test_replacements_come_from_the_whole_vocabulary_evenly(big):
    """χ² over ten tenths of the vocabulary, below the value that chance exceeds once in a million (44.8)."""
    text, _, (corrupted, chosen) = big
    replaced = corrupted[chosen & (corrupted != VOCABULARY) & (corrupted != text)]
    counts = torch.bincount(replaced // 100, minlength=10).double()
    assert ((counts - counts.mean()).square() / counts.mean()).sum() < 44.8


def test_words_that_were_not_chosen_stay(big):
    text, _, (corrupted, chosen) = big
    assert torch.equal(corrupted[~chosen], text[~chosen])


def test_corruption_by_hand():
    """Not chosen, not eligible, masked, masked, replaced, stays, stays."""
    text = torch.tensor([[1, 2, 3, 4, 5, 6, 7]])
    eligible = torch.tensor([[True, False, True, True, True, True, True]])
    choice = torch.tensor([[0.15, 0.0, 0.1, 0.0, 0.0, 0.0, 0.149]])
    fate = torch.tensor([[0.0, 0.0, 0.0, 0.79, 0.8, 0.9, 0.99]])
    corrupted, chosen = corrupt(text, eligible, MASK, choice, fate, text + 20)
    assert corrupted.tolist() == [[1, 2, MASK, MASK, 25, 6, 7]]
    assert chosen.tolist() == [[False, False, True, True, True, True, True]]


def test_masking_is_corruption_by_draws_and_a_generator_decides_them():
    first, second, other = (
        mask_tokens(tokens(), everywhere(B, T), MASK, N, torch.Generator().manual_seed(seed), rate=0.5) for seed in (0, 0, 1)
    )
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.chosen, second.chosen)
    assert not torch.equal(first.chosen, other.chosen)


def test_the_text_that_came_in_is_not_changed():
    text = tokens()
    mask_tokens(text, everywhere(B, T), MASK, N, rate=1.0)
    assert torch.equal(text, tokens())


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_none_or_all_may_be_chosen(rate):
    chosen = mask_tokens(tokens(), everywhere(B, T), MASK, N, rate=rate).chosen
    assert chosen.float().mean().item() == rate


@pytest.mark.parametrize("rate", [-0.1, 15])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(ValueError, match="in 0…1"):
        mask_tokens(tokens(), everywhere(B, T), MASK, N, rate=rate)


def test_only_chosen_words_are_asked_for_and_each_counts_once(normal, agree):
    chosen = uniform(3, B, T) < 0.4

    def by_loop(logits):
        losses = [
            logits[b, t].exp().sum().log() - logits[b, t, tokens()[b, t]] for b in range(B) for t in range(T) if chosen[b, t]
        ]
        return sum(losses) / len(losses)

    agree(lambda logits: mlm_loss(logits, tokens(), chosen), by_loop, normal(B, T, N, scale=2))
    logits = normal(B, T, N)
    mlm_loss(logits, tokens(), chosen).backward()
    assert logits.grad[chosen].all()
    assert not logits.grad[~chosen].any()


def test_the_loss_by_hand():
    """The true words have probability ½ and ¼: 1½ ln 2."""
    logits = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.5, 0.25, 0.25]]]).log()
    loss = mlm_loss(logits, torch.tensor([[0, 0, 1]]), torch.tensor([[True, False, True]]))
    assert loss.item() == pytest.approx(1.5 * math.log(2))


def test_the_loss_of_no_word_is_not_a_number_and_gradients_are_those_of_differences(normal):
    assert mlm_loss(normal(B, T, N), tokens(), ~everywhere(B, T)).isnan()
    assert torch.autograd.gradcheck(lambda x: mlm_loss(x, tokens(), everywhere(B, T)), normal(B, T, N))


DOCUMENTS = torch.tensor([4, 4, 4, 9, 2, 2])


def test_pairs_by_hand():
    """Coins: follows, from elsewhere, from elsewhere; the first document draws from 3 4 5, the last one from 0 1 2 3."""
    first, second, follows = nsp_pairs(DOCUMENTS, torch.tensor([0.49, 0.5, 0.9]), torch.tensor([0.0, 0.67, 0.3]))
    assert first.tolist() == [0, 1, 4]
    assert second.tolist() == [1, 5, 1]
    assert follows.tolist() == [True, False, False]


@pytest.mark.parametrize("pick", [0.0, 0.3, 0.67, 0.999, 1.0])
def test_strangers_are_the_sentences_of_all_other_documents_in_order(pick):
    document = torch.tensor([1, 1, 0, 7, 7, 7, 3])
    first, second, _ = nsp_pairs(document, torch.ones(3), torch.full((3,), pick))
    for i, stranger in zip(first.tolist(), second.tolist(), strict=True):
        others = [j for j in range(7) if document[j] != document[i]]
        assert stranger == others[min(int(pick * len(others)), len(others) - 1)]


def test_half_the_pairs_follow_at_5_sigma_and_the_others_come_from_other_documents():
    document = torch.arange(20).repeat_interleave(30)
    n = 20 * 29
    first, second, follows = nsp_pairs(document, uniform(0, n), uniform(1, n))
    assert within_5_sigma(follows.sum(), n, 0.5)
    assert torch.equal(second[follows], first[follows] + 1)
    assert (document[second] == document[first])[follows].all()
    assert not (document[second] == document[first])[~follows].any()
    assert len(document[second[~follows]].unique()) == 20
    assert first.tolist() == [i for i in range(600) if i % 30 != 29]


def test_no_pair_where_no_sentence_has_another_after_it():
    none = torch.zeros(0)
    for document in (torch.tensor([3, 1, 2]), torch.tensor([5]), torch.zeros(0, dtype=torch.long)):
        assert [len(part) for part in nsp_pairs(document, none, none)] == [0, 0, 0]


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(ValueError, match="3 pairs need as many coins"):
        nsp_pairs(DOCUMENTS, torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="another document"):
        nsp_pairs(torch.tensor([3, 3]), torch.ones(1), torch.ones(1))


def test_one_sentence_and_two_as_bert_reads_them():
    first, second = torch.tensor([5, 6]), torch.tensor([7, 8, 9])
    assert [x.tolist() for x in segment_input(first, None, 1, 2)] == [[1, 5, 6, 2], [0, 0, 0, 0]]
    expected = [[1, 5, 6, 2, 7, 8, 9, 2], [0, 0, 0, 0, 1, 1, 1, 1]]
    assert [x.tolist() for x in segment_input(first, second, 1, 2)] == expected
    empty = torch.zeros(0, dtype=torch.long)
    assert [x.tolist() for x in segment_input(empty, empty, 1, 2)] == [[1, 2, 2], [0, 0, 1]]
