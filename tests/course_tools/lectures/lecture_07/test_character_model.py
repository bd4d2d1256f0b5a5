"""Bits of counts, new words, the sizes of a nucleus and the odds of a character are those worked by hand."""

import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary
from course_lib.fast import fused_causal_attention
from course_lib.generation import top_p
from course_lib.models import GPT, NGram
from course_tools.lectures.lecture_07.character_model import (
    bits_by_counts,
    letters_and_spaces,
    nucleus_sizes,
    unseen_words,
)

CHARACTERS = Vocabulary.of(["abab"])
A, B = CHARACTERS.encode("ab")
TEXT = torch.tensor([A, B] * 60)


def test_counts_know_what_follows():
    table = NGram(TEXT.unfold(0, 3, 1), len(CHARACTERS))
    assert bits_by_counts(table, TEXT, 3) < bits_by_counts(table, TEXT, 1)


def test_words_that_are_new():
    assert unseen_words("to be or not", "not to bee, but bee bee") == ["but", "bee"]


def test_a_text_becomes_letters_and_single_spaces():
    alphabet, tokens = letters_and_spaces("A b,\n\n3 c!", 4)
    assert "".join(alphabet[token] for token in tokens) == "a b "


# Nucleus sizes and odds of a character model whose logits are known.


WITH_SPACE = Vocabulary.of(["ab "])


def model_of(favourite):
    """A GPT whose most likely next character is always the same; with "" all are equally likely."""
    model = GPT(len(WITH_SPACE), 16, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), fused_causal_attention)
    nn.init.zeros_(model.tokens.weight)
    if favourite:
        nn.init.ones_(model.stack.closing.bias)
        model.tokens.weight.data[WITH_SPACE.encode(favourite)] = 9.0
    return model.eval()


def test_the_nucleus_of_equal_characters_keeps_a_fraction_of_them():
    tokens = torch.randint(len(WITH_SPACE), (40,))
    kept = nucleus_sizes(model_of(""), tokens, 8, top_p, 0.5)
    assert kept.unique().tolist() == [-(-len(WITH_SPACE) // 2)]
    assert len(kept) == 3 * len(tokens.unfold(0, 8, 4))
