"""Build task 13.8: what is asked of a Mixer's networks shows which mistake is in them, before any training."""

from functools import cache, partial

import pytest
import torch
from torch import nn

from course_tools.bank.lecture_13 import train_mixer as judged
from course_tools.bank.lecture_13.train_mixer import SmallMixer, Transposed, network_of, over_channels, over_positions
from course_tools.checks.training_record import measure

EVIDENCE = (
    judged.networks_are_exchanged,
    judged.norm_is_in_the_network,
    judged.mixes_no_tokens,
    judged.mixes_no_channels,
    judged.mixes_as_a_mean,
    judged.mixes_as_attention,
    judged.mixes_neighbours,
    judged.tokens_unlike,
    judged.channels_unlike,
)
EXCHANGED = {"networks_are_exchanged", "mixes_no_tokens", "mixes_no_channels"}


@cache
def questions():
    return judged.exercise.questions(seed=0)


def shown(make):
    """The names of what the measurements of a model show that was not trained."""
    (data, queries, *_), truth = questions()
    torch.manual_seed(0)
    measured = measure(lambda *data: make(10).eval(), data, queries)
    return {evidence.__name__ for evidence in EVIDENCE if evidence(measured, truth)}


class MaximumOfPositions(nn.Module):
    def forward(self, x):
        return (x + x.amax(1, keepdim=True)).tanh()


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network_of(16 * 32, 8)

    def forward(self, x):
        return self.network(x.flatten(1)).view_as(x)


class Scaled(nn.Module):
    def __init__(self, network, shape):
        super().__init__()
        self.network, self.scale = network, nn.Parameter(torch.rand(shape))

    def forward(self, x):
        return self.scale * self.network(x)


def with_the_residual():
    network = network_of(16, 32)
    return Transposed(lambda x: x + network(x))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (SmallMixer, set()),
        (partial(SmallMixer, tokens=with_the_residual), set()),
        (partial(SmallMixer, tokens=partial(over_positions, d_tokens=3)), set()),
        (partial(SmallMixer, tokens=Flat), set()),
        (partial(SmallMixer, tokens=over_channels), {"mixes_no_tokens"}),
        (partial(SmallMixer, channels=over_positions), {"mixes_no_channels"}),
        (partial(SmallMixer, tokens=over_channels, channels=over_positions), EXCHANGED),
        (partial(SmallMixer, tokens=MaximumOfPositions), {"mixes_as_a_mean"}),
        (partial(SmallMixer, tokens=judged.AttentionForTokenMixing), {"mixes_as_attention"}),
        (partial(SmallMixer, tokens=judged.ConvolutionForTokenMixing), {"mixes_neighbours"}),
        (partial(SmallMixer, tokens=lambda: Scaled(over_positions(), 32)), {"tokens_unlike"}),
        (partial(SmallMixer, channels=lambda: Scaled(over_channels(), (16, 1))), {"channels_unlike"}),
        (partial(SmallMixer, channels=lambda: nn.Sequential(nn.LayerNorm(32), over_channels())), {"norm_is_in_the_network"}),
    ],
)
def test_a_network_shows_its_own_mistake(make, names):
    assert shown(make) == names
