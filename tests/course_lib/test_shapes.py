"""The names of shapes are checked: a tensor with a wrong axis, or of a wrong dtype, does not match."""

import pytest
import torch

from course_lib import shapes

B, T, d = 2, 5, 7

FITS = {
    "Queries": torch.zeros(B, T, d),
    "Keys": torch.zeros(T, d),
    "Values": torch.zeros(B, 3, T, d),
    "GroupKeys": torch.zeros(T, d),
    "GroupValues": torch.zeros(B, 3, T, d),
    "Scores": torch.zeros(B, T, d),
    "Weights": torch.zeros(T, d).bfloat16(),
    "Context": torch.zeros(B, T, d).double(),
    "Mask": torch.ones(T, d, dtype=torch.bool),
    "Tokens": torch.zeros(B, T, dtype=torch.int64),
    "Lengths": torch.zeros(B, dtype=torch.int32),
    "TokenFeatures": torch.zeros(B, T, d),
    "Memory": torch.zeros(B, T, d),
    "States": torch.zeros(B, T, d),
    "Image": torch.zeros(B, 3, T, d),
    "Logits": torch.zeros(d),
    "Nodes": torch.zeros(B, T, d),
    "Edges": torch.zeros(2, d, dtype=torch.int64),
    "Boxes": torch.zeros(B, 4),
}


def test_every_word_is_tried_here():
    assert set(FITS) == set(shapes.__all__)


@pytest.mark.parametrize("word", FITS)
def test_a_word_fits_its_tensor_and_no_other(word):
    meaning, tensor = getattr(shapes, word), FITS[word]
    assert isinstance(tensor, meaning)
    assert not isinstance(tensor.to(torch.complex64), meaning)
    if word != "Mask":
        assert not isinstance(tensor.bool(), meaning)
        assert not isinstance(torch.zeros((), dtype=tensor.dtype), meaning)


@pytest.mark.parametrize("word", ["Tokens", "Lengths", "TokenFeatures", "Memory", "States", "Image", "Edges"])
def test_words_without_a_star_count_their_axes(word):
    meaning, tensor = getattr(shapes, word), FITS[word]
    assert not isinstance(tensor[None], meaning)
    assert not isinstance(tensor[0], meaning)
