"""Bits per character, sampled words and the sizes of a nucleus are those worked by hand."""

import itertools

import pytest
import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary
from course_lib.fast import fused_causal_attention
from course_lib.generation import top_k, top_p
from course_lib.losses import next_token_loss
from course_lib.models import GPT, NGram
from course_tools.lectures.lecture_07.character_model import (
    bits_by_counts,
    bits_per_character,
    continuations,
    fit_text,
    gradient_by_position,
    letters_and_spaces,
    next_character_figure,
    nucleus_sizes,
    sampled_text,
    unseen_runs,
    unseen_words,
    word_fractions,
)

# Bits, training and sampling of character models, where the answer is known.


CHARACTERS = Vocabulary.of(["abab"])
A, B = CHARACTERS.encode("ab")
TEXT = torch.tensor([A, B] * 60)


class Uniform(nn.Module):
    """Gives every token the same logit."""

    def forward(self, tokens):
        return torch.zeros(*tokens.shape, 8)


def test_a_uniform_guess_among_eight_needs_three_bits():
    assert bits_per_character(Uniform(), TEXT, 6) == pytest.approx(3)


def test_counts_know_what_follows():
    table = NGram(TEXT.unfold(0, 3, 1), len(CHARACTERS))
    assert bits_by_counts(table, TEXT, 3) < bits_by_counts(table, TEXT, 1)


def test_an_alternation_is_learned_and_continued():
    torch.manual_seed(0)
    model = GPT(len(CHARACTERS), 8, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), fused_causal_attention)
    model, curve = fit_text(model, TEXT, TEXT, next_token_loss, T=8, steps=80, lr=1e-2, seed=0)
    assert list(curve) == [5, 10, 20, 40, 80]
    assert curve[80] < 0.1 < curve[5]
    sure = lambda logits: logits * 100  # noqa: E731
    assert continuations(model, TEXT[None, :3], 4, sure, CHARACTERS, seed=0) == ["baba"]
    assert sampled_text(model, TEXT[:3], 9, 8, sure) == TEXT[:12].tolist()


def test_runs_and_words_that_are_new():
    assert unseen_runs("abcab", "abcb", 2) == pytest.approx(1 / 3)
    assert unseen_words("to be or not", "not to bee, but bee bee") == ["but", "bee"]


def test_a_text_becomes_letters_and_single_spaces():
    alphabet, tokens = letters_and_spaces("A b,\n\n3 c!", 4)
    assert "".join(alphabet[token] for token in tokens) == "a b "


def test_the_gradient_ends_at_the_position():
    torch.manual_seed(0)
    model = GPT(len(CHARACTERS), 8, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), fused_causal_attention)
    gradient = gradient_by_position(model, TEXT[None, :7], 3)
    assert (gradient > 0).tolist() == [True] * 4 + [False] * 3


# Words, nucleus sizes and odds of a character model whose logits are known.


WITH_SPACE = Vocabulary.of(["ab "])


def model_of(favourite):
    """A GPT whose most likely next character is always the same; with "" all are equally likely."""
    model = GPT(len(WITH_SPACE), 16, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), fused_causal_attention)
    nn.init.zeros_(model.tokens.weight)
    if favourite:
        nn.init.ones_(model.stack.closing.bias)
        model.tokens.weight.data[WITH_SPACE.encode(favourite)] = 9.0
    return model.eval()


def test_words_are_compared_with_the_text():
    prompts, spaces = (
        torch.tensor([WITH_SPACE.encode("a b a b")] * 20),
        WITH_SPACE.encode("ab "),
    )
    only_letters = lambda logits: torch.full_like(logits, -torch.inf).index_fill(-1, torch.tensor(spaces), 0.0)  # noqa: E731
    all_known = " ".join("".join(word) for n in range(1, 9) for word in itertools.product("ab", repeat=n))
    found = [word_fractions(model_of(""), prompts, 8, only_letters, WITH_SPACE, text, 0) for text in (all_known, "c", "a b")]
    assert (found[0].real, found[1].real) == (1, 0)
    assert 0 < found[2].real < 1
    assert found[0].different == found[1].different < 1


def test_the_nucleus_of_equal_characters_keeps_a_fraction_of_them():
    tokens = torch.randint(len(WITH_SPACE), (40,))
    kept = nucleus_sizes(model_of(""), tokens, 8, top_p, 0.5)
    assert kept.unique().tolist() == [-(-len(WITH_SPACE) // 2)]
    assert len(kept) == 3 * len(tokens.unfold(0, 8, 4))


def test_the_most_likely_character_is_in_the_caption(capsys):
    draw = next_character_figure(model_of("b"), WITH_SPACE, "ab", top_k, top_p)
    draw(k=1)
    assert "'b' with 1.00" in capsys.readouterr().out
