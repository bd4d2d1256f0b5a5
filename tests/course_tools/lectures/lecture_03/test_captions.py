"""Regions, captions of two and of four digits, rival vectors and weights over an image are as described."""

import pytest
import torch

from course_tools.lectures.lecture_03.captions import (
    CaptionTask,
    add_weight_scale,
    caption_task,
    largest_by_sixth,
    overlaid,
    page_task,
    position_weighted_means,
    quarters,
    standardised,
    two_and_two,
    without_positions,
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


def test_a_page_holds_one_to_three_digits_on_each_of_two_lines_and_reads_line_by_line(task):
    page = page_task(task, n_images=60)
    assert page.regions.shape == (60, 36, 66)
    assert page.classifier is task.classifier
    assert {len(text.split()) for text in page.examples.train.captions} == {4}
    rows, columns = page.examples.train.corners.unbind(-1)
    line = rows >= 21
    assert set(line.sum(1).tolist()) == {1, 2, 3}
    assert (line[:, 1:] >= line[:, :-1]).all()
    assert ((columns[:, 1:] - columns[:, :-1] >= 14) | (line[:, 1:] != line[:, :-1])).all()
    assert columns.min() >= 0
    assert columns.max() <= 28
    assert (rows % 21 <= 7).all()
    assert page.exact_match(page.examples.test.captions) == 1.0


def test_pages_of_two_and_two_are_judged_alone(task):
    page = page_task(task, n_images=60)
    part = page.examples.test
    even = [(rows < 21).sum() == 2 for rows in part.corners[..., 0]]
    only = [text if chosen else "" for text, chosen in zip(part.captions, even, strict=True)]
    others = ["" if chosen else text for text, chosen in zip(part.captions, even, strict=True)]
    assert two_and_two(page, only) == 1.0
    assert two_and_two(page, others) == 0.0


def test_standardised_vectors_have_mean_0_and_deviation_1_and_a_constant_stays_0():
    torch.manual_seed(0)
    vectors = torch.cat([3 * torch.randn(50, 5) + 2, torch.full((50, 1), 4.0)], dim=1)
    scaled, new = standardised(vectors, vectors[:2])
    torch.testing.assert_close(scaled.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(0), torch.tensor([1.0] * 5 + [0.0]))
    assert torch.equal(new, scaled[:2])


def test_a_region_with_weight_0_shows_the_picture_and_the_largest_is_yellow_behind_the_ink():
    image, weights = torch.rand(1, 42, 42, generator=torch.Generator().manual_seed(0)), torch.zeros(6, 6)
    weights[2, 4] = 0.5
    drawn = overlaid(image, weights, most=0.5)
    assert drawn.shape == (42, 42, 3)
    torch.testing.assert_close(drawn[:14], image[0, :14, :, None].expand(-1, -1, 3))
    covered = drawn[14:21, 28:35]
    ink = image[0, 14:21, 28:35, None]
    torch.testing.assert_close(covered, ink + (1 - ink) * 0.65 * torch.tensor([1.0, 0.8, 0.0]))


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


def test_position_weighted_means_are_those_of_the_positive_features_and_their_products_with_row_and_column():
    regions = torch.randn(2, 36, 66, generator=torch.Generator().manual_seed(0))
    features, row, column = regions[..., :64].clamp(min=0), regions[..., 64:65], regions[..., 65:]
    means = [part.mean(1) for part in (features, features * row, features * column)]
    assert torch.allclose(position_weighted_means(regions), torch.cat(means, dim=-1), atol=1e-6)
    assert torch.allclose(position_weighted_means(regions.flip(1)), position_weighted_means(regions), atol=1e-6)


def test_the_largest_of_a_quarter_or_a_sixth_is_that_of_its_regions():
    regions = torch.zeros(1, 36, 66)
    regions[0, [0, 14, 5, 35], [3, 3, 3, 7]] = torch.tensor([1.0, 2.0, 4.0, 5.0])  # top left twice, top right, bottom right
    assert quarters(regions)[0, :, 3].tolist() == [2.0, 4.0, 0.0, 0.0]
    assert quarters(regions)[0, :, 7].tolist() == [0.0, 0.0, 0.0, 5.0]
    sixths = largest_by_sixth(regions).unflatten(1, (64, 2, 3))[0]
    assert sixths[3].tolist() == [[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]]
    assert sixths[7].tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 5.0]]


def test_without_positions_row_and_column_are_0():
    regions = torch.randn(2, 36, 66, generator=torch.Generator().manual_seed(0))
    changed = without_positions(regions)
    assert changed[..., :64].equal(regions[..., :64])
    assert not changed[..., 64:].any()
