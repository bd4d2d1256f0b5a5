"""A text is cut into pieces of characters, and the loss is in bits."""

import math

import pytest
import torch

from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_tools.lectures.lecture_14.character_text import (
    CharacterText,
    ShortConvolution,
    bits_of,
    character_text,
    convolved,
    counts,
    next_character_loss,
    sampled,
    softmax_twin,
    window_twin,
)


def test_a_text_is_cut_into_pieces_and_a_uniform_model_needs_the_logarithm():
    text = character_text(32, n_held_out=50)
    assert text.held_out.shape == (50, 33)
    assert text.decode(text.encode("The value")[0]) == "The value"
    assert text.decode(text.learn[0]) in text.text
    n = len(text.letters)
    uniform = next_character_loss(lambda tokens: torch.zeros(*tokens.shape, n), (text.held_out,))
    torch.testing.assert_close(uniform, torch.tensor(float(n)).log2())


def test_the_twin_is_causal_and_a_sample_begins_with_its_prompt():
    text, sizes = character_text(8, n_held_out=20), Sizes(12, 3, 24, 1)
    torch.manual_seed(0)
    twin = softmax_twin(len(text.letters), sizes).eval()
    before = text.held_out[:2]
    after = before.clone()
    after[:, 5:] = 0
    torch.testing.assert_close(twin(before)[:, :5], twin(after)[:, :5])
    prompt = text.encode("The ")
    codes = sampled(LinearTransformer(len(text.letters), sizes).eval(), prompt, 5)
    assert codes.shape == (9,)
    assert torch.equal(codes[:4], prompt[0])


def test_a_window_twin_sees_its_window_and_no_more():
    torch.manual_seed(0)
    twin = window_twin(5, Sizes(12, 3, 24, 1), size=4).eval()
    changed = torch.zeros(1, 9, dtype=torch.long)
    changed[:, 2] = 1
    same = (twin(changed) == twin(torch.zeros_like(changed))).all(-1)[0]
    assert same.tolist() == [True, True, False, False, False, False, True, True, True]


def test_a_short_convolution_mixes_each_token_with_the_three_before_it():
    convolution, x = ShortConvolution(2), torch.randn(1, 6, 2)
    torch.testing.assert_close(convolution(x), x)
    torch.nn.init.ones_(convolution.weight)
    torch.testing.assert_close(convolution(x)[0, 5], x[0, 2:].sum(0))
    torch.testing.assert_close(convolution(x)[0, 1], x[0, :2].sum(0))
    model = convolved(LinearTransformer(5, Sizes(12, 3, 24, 1)))
    assert model(torch.zeros(1, 6, dtype=torch.long)).shape == (1, 6, 5)


def test_counts_by_hand():
    """Runs aa, ab, ba, ab: p(a) = ½, p(b | a) = (2 + 2 · ½) / (3 + 2) = 0.6, p(a | b) = (1 + 1 · ½) / (1 + 1) = 0.75."""
    pieces = torch.tensor([[0, 0, 1], [1, 0, 1]])
    text = CharacterText("", ["a", "b"], pieces, torch.tensor([[1, 0, 1]]))
    assert bits_of(counts(text, 2), text) == pytest.approx(-(math.log2(0.75) + math.log2(0.6)) / 2)
