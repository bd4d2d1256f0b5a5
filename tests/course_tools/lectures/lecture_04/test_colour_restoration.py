"""A faded photograph: what its pixels know, what their neighbours know, and the measure of a restoration."""

import pytest
import torch

from course_tools.lectures.lecture_04 import colour_restoration
from course_tools.lectures.lecture_04.colour_restoration import (
    compare_restorations,
    faded_photograph,
    matrices_of_scores,
    show_weights_of_a_pixel,
)


@pytest.fixture(scope="module")
def faded():
    return faded_photograph((7, 11), (0, 1), share=0.2)


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(colour_restoration, "show", lambda figure, alt: figures.append((figure, alt)))
    return figures


def test_only_the_sampled_pixels_show_their_colour(faded):
    known = faded.samples[0]
    features = faded.features(known)
    assert features.shape == (1, 10, 7, 11)
    assert (features[:, 7:] == (faded.photo - faded.grey) * known).all()
    assert features[:, 6:7].equal(known)
    assert features[0, 3:5, -1, -1].tolist() == [1.0, 1.5]
    torch.testing.assert_close(features[0, 5], features[0, 3] ** 2 + features[0, 4] ** 2)
    torch.testing.assert_close(features[0, 2], features[0, 1] ** 2)


def test_a_tenth_of_the_squared_error_is_ten_decibels(faded):
    colours = faded.photo - faded.grey
    assert faded.decibels(colours + 0.1) == pytest.approx(20.0, abs=1e-3)
    assert faded.decibels(colours + 0.1 / 10**0.5) == pytest.approx(30.0, abs=1e-3)


def test_a_neighbour_gives_its_colour_and_no_neighbour_gives_none(faded):
    known = torch.zeros_like(faded.grey)
    known[0, 0, 3, 5] = 1
    colours, right = faded.from_neighbours(known), faded.photo - faded.grey
    torch.testing.assert_close(colours[0, :, 2, 4], right[0, :, 3, 5], atol=1e-4, rtol=1e-4)
    assert not colours[0, :, 0].any()


def test_a_score_is_the_negative_weighted_squared_distance_of_brightness_and_position(faded):
    features = faded.features(faded.samples[0])[0].flatten(1).T.double()
    W_q, W_k, W_v = (W.double() for W in matrices_of_scores(30.0, 2.0))
    scores = (features @ W_q.mT) @ (features @ W_k.mT).mT / 2
    g, r, known = features[:, 1], features[:, 3:5], features[:, 6]
    wanted = -30.0 * (g[:, None] - g).square() - 2.0 * (r[:, None] - r).square().sum(-1) + 1e4 * known
    between = scores - wanted
    torch.testing.assert_close(between, between[:, :1].expand_as(between), atol=1e-3, rtol=0)
    assert (features @ W_v.mT).equal(features[:, 7:])


def test_equal_scores_give_every_pixel_the_same_weight(faded, shown):
    show_weights_of_a_pixel(faded, faded.samples[0], (torch.zeros(4, 10), torch.zeros(4, 10), torch.zeros(3, 10)))
    ((figure, alt),) = shown
    assert figure.axes[3].get_title() == "weights of one pixel"
    assert f"{100 * 5 / 77:.0f} % of its weight" in alt


def test_each_restoration_is_measured_on_each_sample(faded):
    given = []

    def layer(features, *matrices):
        given.append((tuple(features.shape), matrices))
        return faded.photo - faded.grey + 0.1

    found = compare_restorations(faded, layer, {"ours": (1, 2, 3)})
    assert given == [((1, 10, 7, 11), (1, 2, 3))] * 2
    assert found["ours"] == pytest.approx([20.0, 20.0], abs=1e-3)
    assert found["no colour"] == [faded.decibels(0 * faded.photo)] * 2
    assert found["3×3 window"] == [faded.decibels(faded.from_neighbours(known)) for known in faded.samples]
