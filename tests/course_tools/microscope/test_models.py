"""The models of the microscope: their stored weights, their training script, and their accuracy."""

import json
from itertools import pairwise

import pytest
import torch

from course_tools.microscope import train
from course_tools.microscope.models import MAKE, PARTS, WEIGHTS, packed, settings, trained_model, unpacked, without

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
    assert tuple(STORED[name]["without"]) == PARTS[name]
    for stored in (STORED[name], *STORED[name]["without"].values()):
        assert {key: part["shape"] for key, part in stored["weights"].items()} == shapes
        assert len(stored["losses"]) == train.N_POINTS
    assert {key: STORED[name][key] for key in ("n_heads", "eps")} == settings(model)


@pytest.mark.parametrize(("name", "missing"), [(name, part) for name, parts in PARTS.items() for part in (None, *parts)])
def test_the_stored_weights_do_what_the_page_says_of_them(name, missing):
    stored = STORED[name]["without"][missing] if missing else STORED[name]
    assert train.accuracy_of(name, trained_model(name, missing)) == pytest.approx(stored["accuracy"], abs=5e-3)


@pytest.mark.parametrize(("name", "at_least"), [("reverse", 0.995), ("continue", 0.85), ("digit", 0.92)])
def test_each_whole_model_is_trained_to_its_end(name, at_least):
    losses, without_parts = STORED[name]["losses"], STORED[name]["without"].values()
    assert STORED[name]["accuracy"] >= at_least
    assert losses[-6] - losses[-1] < 0.01 + 0.1 * losses[-1]
    assert all(max(stored["losses"][-6:]) < 1.1 * min(stored["losses"][-6:]) + 0.01 for stored in without_parts)


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_each_part_matters_when_it_is_switched_off(name, part):
    assert train.accuracy_of(name, without(part, trained_model(name))) < STORED[name]["accuracy"] - 0.03


def test_a_word_and_its_reversal_start_at_the_first_place_and_padding_follows():
    source, target, held = train.words(50, torch.Generator().manual_seed(0))
    for word, backwards, letters in zip(source, target, held, strict=True):
        n = int(letters.sum())
        assert letters.tolist() == [True] * n + [False] * (len(word) - n)
        assert word[:n].flip(0).tolist() == backwards[:n].tolist()


def test_a_letter_that_can_be_known_follows_as_it_followed_before():
    tokens, known = train.texts(30, torch.Generator().manual_seed(0))
    assert known.any(-1).all()
    for text, flags in zip(tokens.tolist(), known.tolist(), strict=True):
        for t in (t for t, flag in enumerate(flags) if flag):
            assert (text[t - 1], text[t]) in list(pairwise(text[:t]))
