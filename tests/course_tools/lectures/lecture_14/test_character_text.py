"""A text is cut into pieces of characters, and the loss is in bits."""

import math

import pytest
import torch

from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_tools.lectures.lecture_14.character_text import (
    CharacterText,
    bits_of_counts,
    character_text,
    gap_of_steps,
    next_character_loss,
    sampled,
    softmax_twin,
    train_writers,
)


def test_a_text_is_cut_into_pieces_and_a_uniform_model_needs_the_logarithm():
    text = character_text(32, n_held_out=50)
    assert text.held_out.shape == (50, 33)
    assert text.decode(text.encode("The value")[0]) == "The value"
    assert text.decode(text.learn[0]) in text.text
    n = len(text.letters)
    uniform = next_character_loss(lambda tokens: torch.zeros(*tokens.shape, n), (text.held_out,))
    torch.testing.assert_close(uniform, torch.tensor(float(n)).log2())


def test_writers_are_trained_with_each_seed_and_write_step_by_step():
    text, sizes = character_text(8, n_held_out=20), Sizes(12, 3, 24, 1)
    n = len(text.letters)
    makers = {
        "linear": (lambda: LinearTransformer(n, sizes), (0, 1)),
        "softmax": (lambda: softmax_twin(n, sizes), (0,)),
    }
    writers = train_writers(makers, text, steps=50, lr=1e-2)
    assert {name: len(trained) for name, trained in writers.items()} == {"linear": 2, "softmax": 1}
    for trained in writers.values():
        measured = next_character_loss(trained[0].model, (text.held_out,))
        assert trained[0].bits == pytest.approx(measured.item())
    model, prompt = writers["linear"][0].model, text.encode("The ")
    codes = sampled(model, prompt, 5)
    assert codes.shape == (9,)
    assert torch.equal(codes[:4], prompt[0])
    assert torch.equal(codes, sampled(model, prompt, 5))
    assert gap_of_steps(model, model, text.held_out[:2, :8], n_prompt=3) < 1e-4
    assert gap_of_steps(model, writers["linear"][1].model, text.held_out[:2, :8], n_prompt=3) > 1e-2


def test_counts_by_hand():
    """Runs aa, ab, ba, ab: p(a) = ½, p(b | a) = (2 + 2 · ½) / (3 + 2) = 0.6, p(a | b) = (1 + 1 · ½) / (1 + 1) = 0.75."""
    pieces = torch.tensor([[0, 0, 1], [1, 0, 1]])
    text = CharacterText("", ["a", "b"], pieces, torch.tensor([[1, 0, 1]]))
    assert bits_of_counts(text, 2) == pytest.approx(-(math.log2(0.75) + math.log2(0.6)) / 2)
