"""BLEU: the examples of its paper by hand, by crossing off matches, its laws, and against sacreBLEU."""

import math
import random

import pytest
import torch

from course_lib.metrics import bleu

ONE = "It is a guide to action which ensures that the military always obeys the commands of the party"
TWO = "It is to insure the troops forever hearing the activity guidebook that party direct"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


def words(text):
    return text.lower().split()


def corpus(seed, n=11, n_references=(1, 3), longest=13):
    """Random sentences of few words, so that runs of four sometimes match, with references of other lengths."""
    draw = random.Random(seed)

    def changed(sentence):
        return [word if draw.random() < 0.8 else draw.choice("abcde") for word in sentence][draw.randrange(3) :] or ["a"]

    candidates = [draw.choices("abcde", k=draw.randint(4, longest)) for _ in range(n)]
    return candidates, [[changed(candidate) for _ in range(draw.randint(*n_references))] for candidate in candidates]


def crossed_off(candidates, references, n):
    """Matches of runs of n: in the best reference for each different run, one copy is crossed off for each match."""
    matches = 0
    for candidate, of_it in zip(candidates, references, strict=True):
        runs = [candidate[i : i + n] for i in range(len(candidate) - n + 1)]
        lists = [[reference[i : i + n] for i in range(len(reference) - n + 1)] for reference in of_it]
        for run in runs:
            left = max(lists, key=lambda each: each.count(run))
            if run in left:
                matches += 1
                for each in lists:
                    if run in each:
                        each.remove(run)
    return matches


def test_the_papers_translations_by_hand():
    """Section 2.1: 17 of 18 words of the first, 8 of 14 of the second; 10 of 17 and 1 of 13 pairs."""
    one, two = (bleu([words(text)], [[words(each) for each in REFERENCES]]) for text in (ONE, TWO))
    assert one.precisions[:2] == [17 / 18, 10 / 17]
    assert two.precisions[:2] == [8 / 14, 1 / 13]
    assert one.score > two.score == 0.0


def test_a_word_counts_as_often_as_in_one_reference():
    """Section 2.1: of seven times "the", the references contain it twice and once."""
    references = [words("The cat is on the mat"), words("There is a cat on the mat")]
    assert bleu([["the"] * 7], [references]).precisions[0] == 2 / 7


def test_a_score_by_hand():
    """Five words for six: four words, two pairs and no more match; the penalty is exp(1 − 6/5)."""
    found = bleu([words("a b c x e")], [[words("a b c d e f")]], n_max=2)
    assert found.precisions == [4 / 5, 2 / 4]
    assert found.score == pytest.approx(math.exp(-1 / 5) * math.sqrt(4 / 5 * 2 / 4))
    assert found[2:] == (pytest.approx(math.exp(-1 / 5)), 5, 6)


@pytest.mark.parametrize("seed", range(3))
def test_its_precisions_are_those_of_runs_crossed_off_a_list(seed):
    candidates, references = corpus(seed)
    found = bleu(candidates, references)
    for n, p in enumerate(found.precisions, start=1):
        assert p == crossed_off(candidates, references, n) / sum(max(0, len(each) - n + 1) for each in candidates)


def test_a_translation_that_is_a_reference_has_one_and_a_foreign_one_zero():
    candidates, references = corpus(5)
    exact = [[*of_it, candidate] for candidate, of_it in zip(candidates, references, strict=True)]
    assert bleu(candidates, exact).score == pytest.approx(1.0)
    assert bleu([["z"] * 9 for _ in candidates], references).score == 0.0


def test_a_reference_more_never_lowers_a_precision():
    candidates, references = corpus(6, n_references=(3, 3))
    before = bleu(candidates, [of_it[:1] for of_it in references]).precisions
    after = bleu(candidates, references).precisions
    assert all(b <= a for b, a in zip(before, after, strict=True))
    assert before != after


def test_only_the_corpus_counts_not_the_order_nor_the_mean_of_its_sentences():
    candidates, references = corpus(7)
    whole = bleu(candidates, references)
    assert bleu(candidates[::-1], references[::-1]) == whole
    alone = [bleu([each], [of_it]).score for each, of_it in zip(candidates, references, strict=True)]
    assert abs(sum(alone) / len(alone) - whole.score) > 0.01


@pytest.mark.parametrize(("lengths", "r"), [((3, 6), 6), ((4, 6), 4), ((9, 2), 2), ((5,), 5)])
def test_the_closest_reference_gives_the_length_and_of_two_the_shorter(lengths, r):
    found = bleu([["a"] * 5], [[["a"] * n for n in lengths]])
    assert found.reference_length == r
    assert found.brevity_penalty == pytest.approx(min(1.0, math.exp(1 - r / 5)))


def test_tokens_may_be_numbers_and_an_empty_translation_has_zero():
    assert bleu([[1, 2, 3, 4]], [[[1, 2, 3, 4]]]).score == pytest.approx(1.0)
    assert bleu([[]], [[[1, 2]]]) == (0.0, [0.0] * 4, 0.0, 0, 2)


@pytest.mark.parametrize(("candidates", "references"), [([], []), ([["a"]], []), ([["a"]], [[]])])
def test_what_has_no_reference_is_refused(candidates, references):
    with pytest.raises(ValueError, match="needs a list of references"):
        bleu(candidates, references)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_sacrebleu(seed):
    peer = pytest.importorskip("sacrebleu.metrics", reason="sacrebleu is not installed: pip install -e '.[peers]'")
    candidates, references = corpus(seed, n_references=(2, 2))
    judge = peer.BLEU(tokenize="none", smooth_method="none", force=True)
    streams = [[" ".join(of_it[k]) for of_it in references] for k in range(2)]
    expected = judge.corpus_score([" ".join(each) for each in candidates], streams)
    found = bleu(candidates, references)
    assert 100 * found.score == pytest.approx(expected.score)
    assert [100 * p for p in found.precisions] == pytest.approx(expected.precisions)
    assert found[2:] == (pytest.approx(expected.bp), expected.sys_len, expected.ref_len)
    assert 0.05 < found.score < 0.95


def test_tokens_may_be_tensors_which_are_compared_by_value():
    candidates, references = [[1, 2, 3, 4, 5], [2, 1, 4, 3]], [[[1, 2, 3, 4, 6]], [[2, 1, 4, 3], [7, 7]]]
    vectors = [torch.tensor(each) for each in candidates], [[torch.tensor(each) for each in of_it] for of_it in references]
    assert bleu(*vectors) == bleu([list(each) for each in vectors[0]], references) == bleu(candidates, references)
    assert bleu(candidates, references).score > 0.5
