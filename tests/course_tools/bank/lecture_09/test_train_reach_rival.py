"""The control of lecture 09: attention is told from convolution and pooling by what it does to large inputs."""

import pytest
import torch
from torch import nn

from course_tools.bank.lecture_09.train_reach_rival import (
    N_PATHS,
    N_POINTS,
    SCALES,
    attention_still_there,
    attention_without_a_softmax,
    examples,
    exercise,
    multiplies_features,
    weights_by_softmax,
)
from course_tools.checks.training_record import Measured

D = 16


def positions(x):
    return x.flatten(2).mT


def softmax_attention(x, W):
    q, k, v = positions(x), positions(x) @ W, positions(x)
    return ((q @ k.mT).softmax(-1) @ v).mean(1)


def dot_products(x, W):
    tokens = positions(x)
    return (tokens @ (W @ (tokens.mT @ tokens)) / tokens.shape[1]).mean(1)


def attention_pooling(x, W):
    return ((positions(x) @ W[:, :1]).softmax(1) * positions(x)).sum(1)


ATTENTION = [softmax_attention, dot_products, attention_pooling]
OTHERS = [
    lambda x, W: x.amax((2, 3)),
    lambda x, W: x.mean((2, 3)),
    lambda x, W: x.flatten(2).logsumexp(2),
    lambda x, W: (x.var((2, 3)) + 1e-5).sqrt(),
    lambda x, W: nn.functional.gelu(x).mean((2, 3)),
]


def measured_of(read_out):
    """What the two last queries measure of random features and a read-out of their map."""
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(1, D, 3, 2, 1), nn.ReLU(), nn.Conv2d(D, D, 3, 1, 1), nn.ReLU())
    W = torch.randn(D, D)
    pictures = examples(0)[1][0]
    along = torch.linspace(0, 1, N_POINTS)[:, None, None, None]
    paths = torch.cat([torch.lerp(pictures[i], pictures[-1 - i], along) for i in range(N_PATHS)])
    with torch.no_grad():
        outputs = [read_out(30 * features(scale * paths), W) for scale in SCALES]
    empty = Measured(*[None] * len(Measured._fields))
    return empty._replace(outputs=[None] * 6 + outputs)


@pytest.mark.parametrize("read_out", ATTENTION)
def test_attention_jumps_or_grows_for_large_inputs(read_out):
    measured = measured_of(read_out)
    assert weights_by_softmax(measured, {}) is (read_out is not dot_products)
    assert weights_by_softmax(measured, {}) or multiplies_features(measured, {})


@pytest.mark.parametrize("read_out", OTHERS)
def test_convolution_pooling_and_activations_change_in_proportion(read_out):
    measured = measured_of(read_out)
    assert not weights_by_softmax(measured, {})
    assert not multiplies_features(measured, {})


def test_rounding_is_no_jump_and_an_overflow_is_growth():
    measured = measured_of(OTHERS[0])
    noise = 1 + 1e-6 * torch.randn(N_PATHS * N_POINTS, 1)
    assert not weights_by_softmax(measured._replace(outputs=[None] * 6 + [noise, noise]), {})
    assert multiplies_features(measured._replace(outputs=[None] * 6 + [noise, noise * torch.inf]), {})


def test_jumps_are_named_before_growth():
    assert exercise.wrong.index(attention_still_there) < exercise.wrong.index(attention_without_a_softmax)


def test_half_of_the_pictures_show_one_class_and_a_zero_is_no_giveaway():
    (pictures, labels), (unseen, _) = examples(0)
    assert pictures.shape[1:] == unseen.shape[1:] == (1, 22, 22)
    assert abs(labels[:, 0].float().mean().item() - 0.5) < 0.01
    assert 0.4 < labels[:, 1].float().mean().item() < 0.6
