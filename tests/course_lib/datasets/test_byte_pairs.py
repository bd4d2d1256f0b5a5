"""Pieces of words: lossless, frequent words stay whole, and the merges are those of the paper's algorithm."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from course_lib.datasets import BytePairs, Vocabulary

PAPER = ["low " * 5 + "lower " * 2 + "newest " * 6 + "widest " * 3]


def test_merges_by_hand():
    """The words of the paper's figure 1. First e·s and s·t, 9 each, the later one; then ▁·l, l·o, o·w, 7 each."""
    learned = BytePairs.learn(PAPER, 5)
    assert learned.merges == (("s", "t"), ("e", "st"), ("▁", "l"), ("▁l", "o"), ("▁lo", "w"))
    assert learned.cut("lowest  newt\nlow") == "▁low est ▁ n e w t ▁low"


def learned_slowly(texts, n_merges):
    """Algorithm 1 of the paper literally: recount all pairs for each merge."""
    words, merges = Counter(("▁", *word) for text in texts for word in text.split()), []
    for _ in range(n_merges):
        pairs = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        after = Counter()
        for word, times in words.items():
            whole, i = [], 0
            while i < len(word):
                step = 2 if word[i : i + 2] == best else 1
                whole.append("".join(word[i : i + step]))
                i += step
            after[tuple(whole)] += times
        words = after
    return tuple(merges)


@pytest.mark.parametrize("seed", range(5))
def test_counts_kept_up_to_date_give_the_merges_of_counting_anew(seed):
    """Few letters, so that words contain runs such as aaa, whose pairs overlap."""
    draw = random.Random(seed)
    texts = [" ".join("".join(draw.choices("aab", k=draw.randint(1, 9))) for _ in range(13)) for _ in range(3)]
    assert BytePairs.learn(texts, 37).merges == learned_slowly(texts, 37)


def test_join_undoes_cut_but_for_white_space():
    learned = BytePairs.learn(PAPER, 7)
    for text in ("slow newts, lowest of all", "", "Ünïcode → 𝟘", "a\tb\n\n c "):
        assert learned.join(learned.cut(text)) == " ".join(text.split())


def test_without_merges_all_is_spelled():
    assert BytePairs.learn(PAPER, 0).cut("low er") == "▁ l o w ▁ e r"


def test_with_enough_merges_every_word_that_was_learned_is_one_piece():
    learned = BytePairs.learn(PAPER, 1_000)
    assert learned.cut("low lower newest widest") == "▁low ▁lower ▁newest ▁widest"
    assert len(learned.merges) < 30


def test_a_text_is_cut_by_the_merges_in_the_order_they_were_learned():
    """If two merges are possible, the earlier one is applied first, regardless of its position in the word."""
    assert BytePairs((("b", "c"), ("a", "b"))).cut("abc") == "▁ a bc"
    assert BytePairs((("a", "b"), ("b", "c"))).cut("abc") == "▁ ab c"


def test_a_vocabulary_reads_the_pieces_of_a_new_word():
    learned = BytePairs.learn(PAPER, 9)
    pieces = Vocabulary.of([*"▁lowernstid", *map("".join, learned.merges)], between=" ")
    text = "slowest newt"
    assert learned.join(pieces.decode(pieces.encode(learned.cut(text)))) == text


@pytest.mark.parametrize("texts", [[], [""], ["a"]])
def test_little_text_gives_few_merges(texts):
    assert BytePairs.learn(texts, 5).merges == tuple(("▁", word) for text in texts for word in text.split())


def test_what_cannot_be_learned_or_cut_is_refused():
    with pytest.raises(ValueError, match="not be negative"):
        BytePairs.learn(PAPER, -1)
    with pytest.raises(ValueError, match="list of texts"):
        BytePairs.learn("low", 1)
    with pytest.raises(ValueError, match="marks where a word begins"):
        BytePairs.learn(["lo▁w"], 1)
    with pytest.raises(ValueError, match="marks where a word begins"):
        BytePairs(()).cut("▁low")
