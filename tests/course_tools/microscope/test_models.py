"""The models of the microscope: their stored weights, their training script, and their accuracy."""

import json
from itertools import pairwise

import pytest
import torch

from course_tools.microscope import train
from course_tools.microscope.models import MAKE, WEIGHTS, packed, settings, trained_models, unpacked

STORED = json.loads(WEIGHTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("shape", [(5, 7), (3,), (1, 2), (2, 3, 5)])
def test_a_tensor_is_stored_to_half_a_step_of_its_row(shape):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    read = unpacked(json.loads(json.dumps(packed(weights))))
    assert read.shape == weights.shape
    assert ((read - weights).abs() <= weights.abs().amax(-1, keepdim=True) / 61).all()


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_is_the_architecture_that_is_trained(name):
    model = MAKE[name]()
    shapes = {key: list(part.shape) for key, part in model.state_dict().items()}
    assert {key: part["shape"] for key, part in STORED[name]["weights"].items()} == shapes
    assert {key: STORED[name][key] for key in ("n_heads", "eps")} == settings(model)


@pytest.mark.parametrize(("name", "at_least"), [("reverse", 0.99), ("continue", 0.85), ("digit", 0.9)])
def test_the_stored_weights_do_what_the_page_says_of_them(name, at_least):
    accuracy = train.accuracy_of(name, trained_models()[name])
    assert accuracy == pytest.approx(STORED[name]["accuracy"], abs=5e-3)
    assert accuracy >= at_least


def test_a_word_and_its_reversal_have_their_letters_at_opposite_ends():
    source, target, held = train.words(50, torch.Generator().manual_seed(0))
    for word, backwards, letters in zip(source, target, held, strict=True):
        assert word[letters].flip(0).tolist() == backwards[letters.flip(0)].tolist()
        assert 2 <= letters.sum() <= len(word)


def test_a_letter_that_can_be_known_follows_as_it_followed_before():
    tokens, known = train.texts(30, torch.Generator().manual_seed(0))
    assert known.any(-1).all()
    for text, flags in zip(tokens.tolist(), known.tolist(), strict=True):
        for t in (t for t, flag in enumerate(flags) if flag):
            assert (text[t - 1], text[t]) in list(pairwise(text[:t]))
