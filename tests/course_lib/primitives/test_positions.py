"""Positions: sinusoids in which a shift is a rotation, and learned vectors that are trained where they are used."""

import math

import pytest
import torch

from course_lib.primitives import LearnedPositions, sinusoidal_points, sinusoidal_positions, sinusoids

T, d_model = 101, 22


def test_sinusoids_by_hand():
    """At d_model = 4 the second pair turns 100 times more slowly."""
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.01, 0.99995],
        [0.909297, -0.416147, 0.019999, 0.9998],
    ]
    torch.testing.assert_close(sinusoidal_positions(3, 4), torch.tensor(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("d_model", [1, 6, 7])
def test_positions_from_anywhere_are_those_from_the_start(d_model):
    torch.testing.assert_close(sinusoids(5, 8, d_model), sinusoidal_positions(13, d_model)[5:], atol=1e-6, rtol=0)
    assert sinusoids(5, 0, d_model).shape == (0, d_model)


@pytest.mark.parametrize("d_model", [1, 2, 11, 22])
def test_each_entry_is_that_of_the_paper(d_model):
    encoding = sinusoidal_positions(T, d_model)
    assert encoding.shape == (T, d_model)
    for t in range(T):
        for feature in range(d_model):
            angle = t / 10_000 ** ((feature - feature % 2) / d_model)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert encoding[t, feature].item() == pytest.approx(expected, abs=2e-5)


def test_a_shift_is_the_same_rotation_at_every_position():
    """PE[t + k] is linear in PE[t], with a matrix that depends only on k: the paper's reason for sinusoids."""
    encoding = sinusoidal_positions(T, d_model).double()
    for k in (1, 7, 31):
        here, there = encoding[:-k], encoding[k:]
        shift = torch.linalg.lstsq(here, there, driver="gelsd").solution
        torch.testing.assert_close(here @ shift, there, atol=1e-4, rtol=0)


def test_the_product_of_two_positions_depends_on_their_distance_alone():
    encoding = sinusoidal_positions(T, d_model)
    products = encoding @ encoding.mT
    for k in (0, 1, 7, 31):
        diagonal = products.diagonal(k)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-3, rtol=0)
    torch.testing.assert_close(products.diagonal(), torch.full((T,), d_model / 2), atol=1e-4, rtol=0)


def test_no_two_positions_are_alike():
    encoding = sinusoidal_positions(1009, d_model)
    distances = torch.cdist(encoding, encoding) + 100 * torch.eye(1009)
    assert distances.min() > 0.1


def test_a_longer_encoding_begins_with_the_shorter():
    assert (sinusoidal_positions(T, d_model)[:7] == sinusoidal_positions(7, d_model)).all()


def test_no_position_has_no_encoding():
    assert sinusoidal_positions(0, d_model).shape == (0, d_model)
    assert LearnedPositions(T, d_model)(0).shape == (0, d_model)


def test_learned_positions_are_the_first_vectors():
    positions = LearnedPositions(T, d_model)
    assert (positions(7) == positions.vectors[:7]).all()
    assert (positions(T) == positions.vectors).all()


def test_only_the_positions_in_use_are_trained():
    positions = LearnedPositions(T, d_model)
    positions(7).sum().backward()
    assert (positions.vectors.grad[:7] == 1).all()
    assert not positions.vectors.grad[7:].any()


def test_learned_positions_start_small():
    torch.manual_seed(0)
    vectors = LearnedPositions(1009, 101).vectors
    assert vectors.std().item() == pytest.approx(0.02, rel=0.02)
    assert vectors.mean().item() == pytest.approx(0, abs=3e-4)


def test_positions_live_where_they_are_asked_to():
    assert sinusoidal_positions(3, 4, device="meta").device.type == "meta"


def test_points_by_hand():
    """Four features: the sine and the cosine of y, then of x, one period over the whole image."""
    points = torch.tensor([[0.0, 0.0], [0.25, 0.5]])
    torch.testing.assert_close(
        sinusoidal_points(points, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0]]), atol=1e-6, rtol=0
    )


def test_points_along_one_axis_are_positions():
    """An independent form: t / 2π is the place at which the formula of sequences has its angle t."""
    d = 12
    t = torch.arange(T) / (2 * math.pi)
    expected = sinusoidal_positions(T, d // 2)
    encoded = sinusoidal_points(torch.stack([t, torch.zeros(T)], dim=-1), d)
    torch.testing.assert_close(encoded[:, d // 2 :], expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(encoded[:, : d // 2], expected[:1].expand(T, -1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_points_are_encoded_in_numbers_of_their_own_kind(dtype):
    points = torch.rand(7, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    encoded = sinusoidal_points(points, 12)
    assert encoded.dtype == dtype
    expected = sinusoidal_points(points.double(), 12)
    torch.testing.assert_close(encoded.double(), expected, atol=max(torch.finfo(dtype).eps, 1e-6), rtol=0)


def test_points_have_features_for_both_axes():
    with pytest.raises(ValueError, match="4 does not divide d_model = 6"):
        sinusoidal_points(torch.zeros(1, 2), 6)
