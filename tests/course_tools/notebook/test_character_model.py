"""Bits, training and sampling of character models, where the answer is known."""

import pytest
import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary
from course_lib.fast import fused_causal_attention
from course_lib.losses import next_token_loss
from course_lib.models import GPT, NGram
from course_tools.lectures.lecture_07.character_model import (
    bits_by_counts,
    bits_per_character,
    continuations,
    fit_text,
    gradient_by_position,
    letters_and_spaces,
    sampled_text,
    show_held_out_bits,
    unseen_runs,
    unseen_words,
)

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


def test_the_last_bits_are_in_the_caption(capsys):
    show_held_out_bits({"GPT": {100: 3.0, 200: 2.5}}, 64, {"table": 2.75})
    assert "GPT to 2.50. Baselines: table 2.75" in capsys.readouterr().out
