"""Captioners are trained once for each seed on what they are given, and scored by the captions that they write."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.datasets import Vocabulary
from course_lib.models import caption_step
from course_tools.lectures.lecture_03 import captions
from course_tools.lectures.lecture_03.captions import (
    CaptionerByFunction,
    Captioners,
    CaptionExperiment,
    position_weighted_means,
    without_positions,
)

RIGHT = ("three left of seven", "two above two")
WORDS = Vocabulary.of(RIGHT, between=" ")


class FakeTask(SimpleNamespace):
    """A task that trains nothing, and whose models all write the first right caption."""

    def fit(self, model, seen, seed, lr):
        self.fits.append((type(model).__name__, tuple(seen.shape), seed, lr))
        return model

    def captions_by(self, model, seen):
        return [RIGHT[0]] * len(seen)

    def exact_match(self, captions):
        return sum(a == b for a, b in zip(captions, RIGHT, strict=True)) / 2

    def names_both(self, captions):
        return 1.0


@pytest.fixture
def experiment():
    generator = torch.Generator().manual_seed(0)
    task = FakeTask(
        fits=[],
        words=WORDS,
        regions=torch.randn(5, 36, 66, generator=generator),
        captions=WORDS.batch(RIGHT, begin=True, end=True)[0][[0, 1, 0, 1, 0]],
        new_regions=torch.randn(2, 36, 66, generator=generator),
        new_captions=WORDS.batch(RIGHT, begin=True, end=True)[0],
        examples=SimpleNamespace(test=SimpleNamespace(captions=RIGHT)),
    )
    return CaptionExperiment(task, (0, 1))


def test_show_and_tell_gets_one_vector_of_each_image(experiment):
    group = experiment.from_one_vector(lambda regions: regions.mean(1), lr=1e-2, width=7)
    assert experiment.task.fits == [("ShowAndTell", (5, 66), seed, 1e-2) for seed in (0, 1)]
    assert (group.exact_match, group.names_both) == ([0.5, 0.5], [1.0, 1.0])
    assert group.models[0].look.weight.shape == (7, 66)
    assert len(experiment.from_one_vector(lambda regions: regions.flatten(1), lr=1e-2, n_seeds=1).models) == 1


def test_attention_gets_the_regions_and_a_change_changes_them(experiment, monkeypatch):
    seen = []
    monkeypatch.setattr(type(experiment.task), "fit", lambda self, model, regions, seed, lr: seen.append(regions) or model)
    experiment.with_attention(caption_step)
    experiment.with_attention(caption_step, without_positions)
    plain, changed = seen[0], seen[2]
    assert plain.equal(experiment.task.regions)
    assert changed[..., :64].equal(plain[..., :64])
    assert not changed[..., 64:].any()


def test_one_vector_of_each_image_can_be_read_before_each_word(experiment):
    group = experiment.with_one_region(caption_step, position_weighted_means, lr=1e-2)
    assert experiment.task.fits == [("CaptionerByFunction", (5, 1, 192), seed, 1e-2) for seed in (0, 1)]
    assert group.exact_match == [0.5, 0.5]


def test_position_weighted_means_are_those_of_the_positive_features_and_their_products_with_row_and_column():
    regions = torch.randn(2, 36, 66, generator=torch.Generator().manual_seed(0))
    features, row, column = regions[..., :64].clamp(min=0), regions[..., 64:65], regions[..., 65:]
    means = [part.mean(1) for part in (features, features * row, features * column)]
    assert torch.allclose(position_weighted_means(regions), torch.cat(means, dim=-1), atol=1e-6)
    assert torch.allclose(position_weighted_means(regions.flip(1)), position_weighted_means(regions), atol=1e-6)


def test_the_untrained_model_is_the_one_that_training_starts_from(experiment):
    group = experiment.with_attention(caption_step)
    for model, seed in zip(group.models, (0, 1), strict=True):
        assert isinstance(model, CaptionerByFunction)
        assert all(map(torch.equal, model.model.parameters(), experiment.untrained(seed).parameters()))


def test_the_difference_to_the_library_is_that_of_the_step(experiment):
    def shifted(*given):
        logits, *others = caption_step(*given)
        return logits + 0.5, *others

    ours, other = (CaptionerByFunction(experiment.untrained(0), step) for step in (caption_step, shifted))
    assert experiment.difference_to_library(ours) < 1e-5
    assert experiment.difference_to_library(other) == pytest.approx(0.5, abs=1e-5)


def test_a_right_caption_has_the_word_and_is_that_of_the_first_model(experiment):
    def wrote(*captions):
        return Captioners([None], [list(captions)], [0.0], [0.0])

    assert experiment.right_caption_with("above", wrote(*RIGHT)) == 1
    assert experiment.right_caption_with("left", wrote(*RIGHT)) == 0
    assert experiment.right_caption_with("above", wrote(RIGHT[0], RIGHT[0])) == 0


def test_the_right_captions_of_those_that_name_both_digits():
    assert Captioners([], [], [0.6, 0.4], [0.8, 0.7]).right_of_named() == pytest.approx(2 / 3)
    assert math.isnan(Captioners([], [], [0.0], [0.0]).right_of_named())


def test_the_comparison_draws_losses_and_scores(experiment, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(captions, "show_losses", drawn.append)
    assert experiment.compare({"A": Captioners(["model"], [[]], [0.5], [1.0])}) == {"A": [0.5]}
    assert drawn == [{"A": ["model"]}]
    assert "A 0.500" in capsys.readouterr().out


def test_a_captioner_of_ones_own_is_trained_with_the_first_seed_and_its_captions_are_scored(experiment, capsys):
    given = []

    class Fixed(nn.Module):
        def forward(self, regions):
            return WORDS.batch([RIGHT[0]] * len(regions), begin=True, end=True)[0]

    def train_captioner(regions, captions, n_tokens, n_steps):
        given.append((tuple(regions.shape), tuple(captions.shape), n_tokens, n_steps, torch.initial_seed()))
        return Fixed()

    assert experiment.exact_match_of(train_captioner, n_steps=3) == 0.5
    assert given == [((5, 36, 66), tuple(experiment.task.captions.shape), len(WORDS), 3, 0)]
    assert capsys.readouterr().out.splitlines() == [f"{RIGHT[0]:<24}right: {right}" for right in RIGHT]
