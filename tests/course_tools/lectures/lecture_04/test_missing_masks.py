"""Padding is harmless only with its mask; a language model that reads its answers has a loss below the entropy."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.datasets import lookup
from course_lib.primitives import causal_mask, padding_mask
from course_tools.lectures.lecture_04 import missing_masks
from course_tools.lectures.lecture_04.experiments import SelfAttentionByFunction, TokenReader, lookup_task
from course_tools.lectures.lecture_04.missing_masks import measure_leak, measure_padding

LAYER = partial(SelfAttentionByFunction, scaled_dot_product_attention, 64)


@pytest.fixture
def reader():
    torch.manual_seed(0)
    parts = lookup(11, 2, 97, T_q=2, T_k=5, n_keys=7, n_values=3, seed=0)
    return TokenReader(LAYER(), [7, 4], 3), lookup_task(parts, n_values=3), parts.test


def test_with_its_mask_padding_changes_nothing(reader):
    found = measure_padding(*reader, padding_mask, n_padding=13)
    assert found.difference < 1e-5
    assert 0.0 <= found.alone <= 1.0


def test_a_mask_that_allows_padding_changes_the_logits(reader):
    def everything(lengths, T):
        return torch.ones(len(lengths), 1, T, dtype=torch.bool)

    assert measure_padding(*reader, everything, n_padding=13).difference > 1e-2


def test_the_entropy_is_that_of_counting_with_jumps():
    leak = measure_leak(LAYER, causal_mask(5), (0,), steps=2)
    assert leak.entropy == pytest.approx(-(0.75 * torch.tensor(0.75).log() + 0.25 * torch.tensor(0.25 / 7).log()).item())
    assert {name: len(values) for name, values in leak.losses.items()} == {
        "causal mask": 1,
        "no mask": 1,
        "masked afterwards": 1,
    }


def test_each_group_has_its_mask_and_the_unmasked_models_get_it_afterwards(monkeypatch):
    made = []

    class Mixer(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.mask = mask
            made.append(mask)

    class Model(nn.Module):
        def __init__(self, make_mixer):
            super().__init__()
            self.mixer = make_mixer()

    monkeypatch.setattr(missing_masks, "fit_token_reader", lambda make_mixer, task, seed, steps: Model(make_mixer))
    monkeypatch.setattr(missing_masks, "show_losses", lambda trained, across: None)
    monkeypatch.setattr(missing_masks, "loss_on_new", lambda model, task: 1.0 if model.mixer.mask is None else 2.0)
    leak = measure_leak(Mixer, causal_mask(5), (0, 1))
    assert [mask is None for mask in made] == [False, False, True, True]
    assert leak.losses == {"causal mask": [2.0, 2.0], "no mask": [1.0, 1.0], "masked afterwards": [2.0, 2.0]}
