"""Regions, captioners by a function and captions of several seeds are as described."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.datasets import Vocabulary
from course_lib.models import ShowAndTell, ShowAttendAndTell, caption_step
from course_tools.lectures.lecture_03.captions import (
    CaptionerByFunction,
    Captioners,
    CaptionExperiment,
    CaptionTask,
    add_weight_scale,
    both_images,
    caption_task,
    overlaid,
    position_weighted_means,
    standardised,
    without_positions,
    without_second_digit,
)
from course_tools.notebook import plots

# The task of captioning: regions, captions, their measures, and weights over an image.


@pytest.fixture(scope="module")
def task() -> CaptionTask:
    """The task with few images, whose encoder trained for few steps."""
    return caption_task(seed=0, n_images=40, steps=3)


def test_a_region_has_standardised_features_and_its_row_and_column(task):
    assert task.regions.shape == (40, 36, 66)
    assert task.new_regions.shape == (500, 36, 66)
    features = task.regions[..., :64].flatten(0, 1)
    torch.testing.assert_close(features.mean(0), torch.zeros(64), atol=1e-3, rtol=0)
    varies = task.spread > 2e-3  # after few steps, some features are nearly constant
    torch.testing.assert_close(features.std(0)[varies], torch.ones(int(varies.sum())), atol=1e-2, rtol=0)
    assert task.regions[7, :, 64:].tolist() == [[row, column] for row in range(-15, 16, 6) for column in range(-15, 16, 6)]


def test_the_regions_of_new_images_are_scaled_as_those_learned_from(task):
    torch.testing.assert_close(task.regions_of(task.examples.test.images[:3]), task.new_regions[:3], atol=1e-4, rtol=1e-4)


def test_the_captions_read_as_they_were_written(task):
    assert [task.words.decode(row) for row in task.new_captions.tolist()] == list(task.examples.test.captions)


def test_the_right_captions_match_and_reversed_ones_name_both_digits(task):
    right = task.examples.test.captions
    assert task.exact_match(right) == task.names_both(right) == 1.0
    reversed_words = [" ".join(reversed(text.split())) for text in right]
    assert task.exact_match(reversed_words) == sum(map(str.__eq__, reversed_words, right)) / 500
    assert task.exact_match(reversed_words) < 0.1
    assert task.names_both(reversed_words) == 1.0
    assert task.names_both([f"{text.split()[0]} only" for text in right]) < 0.2


def test_a_captioner_learns_and_writes_words(task):
    torch.manual_seed(0)
    seen, new = standardised(task.regions.mean(1), task.new_regions.mean(1))
    model = ShowAndTell(len(task.words), 66, 5, 7)
    assert task.fit(model, seen, seed=0, lr=1e-2, steps=30) is model
    assert set(" ".join(task.captions_by(model, new)).split()) <= set(task.words.symbols)


def test_standardised_vectors_have_mean_0_and_deviation_1_and_a_constant_stays_0():
    torch.manual_seed(0)
    vectors = torch.cat([3 * torch.randn(50, 5) + 2, torch.full((50, 1), 4.0)], dim=1)
    scaled, new = standardised(vectors, vectors[:2])
    torch.testing.assert_close(scaled.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(0), torch.tensor([1.0] * 5 + [0.0]))
    assert torch.equal(new, scaled[:2])


def test_two_images_are_overlaid_and_a_digit_is_erased(task):
    part = task.examples.test
    both, single = both_images(part, 0, 1), without_second_digit(part, 2)
    assert both.shape == single.shape == (1, 1, 42, 42)
    assert both[0].equal(torch.where(part.images[0] > part.images[1], part.images[0], part.images[1]))
    (first, second), before = part.corners[2].tolist(), part.images[2, 0]
    kept, erased = ((slice(top, top + 14), slice(left, left + 14)) for top, left in (first, second))
    assert before[erased].any()
    assert not single[0, 0][erased].any()
    assert single[0, 0][kept].equal(before[kept])


def test_a_region_with_weight_0_shows_the_picture_and_the_largest_is_yellow():
    image, weights = torch.rand(1, 42, 42, generator=torch.Generator().manual_seed(0)), torch.zeros(6, 6)
    weights[2, 4] = 0.5
    drawn = overlaid(image, weights, most=0.5)
    assert drawn.shape == (42, 42, 3)
    torch.testing.assert_close(drawn[:14], image[0, :14, :, None].expand(-1, -1, 3))
    covered = drawn[14:21, 28:35]
    torch.testing.assert_close(covered, 0.35 * image[0, 14:21, 28:35, None] + 0.65 * torch.tensor([1.0, 0.8, 0.0]))


def test_the_colour_bar_runs_from_no_weight_to_the_yellow_of_the_largest():
    drawn = overlaid(torch.zeros(1, 42, 42), torch.full((6, 6), 0.7), most=0.7)
    figure = plots.pictures({"a word": drawn})
    add_weight_scale(figure, most=0.7)
    bar = figure.axes[1]
    assert bar.get_ylim() == (0.0, 0.7)
    assert bar.get_ylabel() == "attention weight"
    (mesh,) = (drawn for drawn in bar.collections if drawn.get_array() is not None)
    assert mesh.cmap(0.0)[:3] == (0.0, 0.0, 0.0)
    torch.testing.assert_close(torch.tensor(mesh.cmap(1.0)[:3], dtype=torch.float32), drawn[0, 0], atol=1e-6, rtol=0)


# A captioner by the library's step equals the library's model, and step by step it computes the same logits.


REGIONS = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
CAPTION = torch.tensor([[1, 4, 2], [1, 3, 3], [1, 2, 4]])


def captioner(step=caption_step):
    torch.manual_seed(0)
    return CaptionerByFunction(ShowAttendAndTell(11, 7, 5, 13, 3), step)


def test_it_computes_what_the_librarys_model_computes():
    model = captioner()
    ours, theirs = model(REGIONS, CAPTION), model.model(REGIONS, CAPTION)
    torch.testing.assert_close(ours.logits, theirs.logits)
    torch.testing.assert_close(ours.weights, theirs.weights)


def test_reading_word_by_word_gives_the_same_logits():
    model = captioner()
    state, logits = model.start(REGIONS), []
    for tokens in CAPTION.unbind(1):
        of_word, state = model.step(tokens, state)
        logits.append(of_word)
    torch.testing.assert_close(torch.stack(logits, dim=1), model(REGIONS, CAPTION).logits)


def test_every_word_is_read_by_the_given_step():
    calls = []

    def noted(*given):
        calls.append(given[0].shape)
        return caption_step(*given)

    captioner(noted)(REGIONS, CAPTION)
    assert calls == [(3, 5)] * 3


# Captioners are trained once for each seed on what they are given, and scored by the captions that they write.


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
