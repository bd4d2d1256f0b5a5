"""Build task 13.8: what is asked of a Mixer's networks shows which mistake is in them, before any training."""

from functools import cache, partial

import pytest
import torch
from torch import nn

from course_lib.primitives import patchify
from course_tools.bank.drawn_puzzles import N, P
from course_tools.bank.lecture_13 import train_mixer as judged
from course_tools.bank.lecture_13.train_mixer import D_MODEL, SmallMixer, Transposed, network_of, over_channels, over_positions
from course_tools.checks.training_record import measure

EVIDENCE = (
    judged.networks_are_exchanged,
    judged.norm_is_in_the_network,
    judged.mixes_no_tokens,
    judged.mixes_no_channels,
    judged.mixes_as_a_mean,
    judged.mixes_as_attention,
    judged.mixes_neighbours,
    judged.mixes_runs,
    judged.tokens_unlike,
    judged.channels_unlike,
    judged.tokens_add_up,
    judged.channels_add_up,
)
EXCHANGED = {"networks_are_exchanged", "mixes_no_tokens", "mixes_no_channels"}


@cache
def questions():
    return judged.exercise.questions(seed=0)


def asked(make):
    """What is measured of a model that was not trained."""
    (data, queries, *_), _ = questions()
    torch.manual_seed(0)
    return measure(lambda *data: make().eval(), data, queries)


def shown(make):
    """The names of what the measurements of a model show that was not trained."""
    measured, (_, truth) = asked(make), questions()
    return {evidence.__name__ for evidence in EVIDENCE if evidence(measured, truth)}


class MaximumOfPositions(nn.Module):
    def forward(self, x):
        return (x + x.amax(1, keepdim=True)).tanh()


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network_of(N * D_MODEL, 8)

    def forward(self, x):
        return self.network(x.flatten(1)).view_as(x)


class Scaled(nn.Module):
    def __init__(self, network, shape):
        super().__init__()
        self.network, self.scale = network, nn.Parameter(torch.rand(shape))

    def forward(self, x):
        return self.scale * self.network(x)


def with_the_residual():
    network = network_of(N, 8)
    return Transposed(lambda x: x + network(x))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (SmallMixer, set()),
        (partial(SmallMixer, tokens=with_the_residual), set()),
        (partial(SmallMixer, tokens=partial(over_positions, d_tokens=3)), set()),
        (partial(SmallMixer, tokens=Flat), set()),
        (partial(SmallMixer, tokens=over_channels), {"mixes_no_tokens"}),
        (partial(SmallMixer, tokens=lambda: judged.Reshaped(network_of(N, 8))), {"mixes_runs"}),
        (partial(SmallMixer, channels=over_positions), {"mixes_no_channels"}),
        (partial(SmallMixer, tokens=over_channels, channels=over_positions), EXCHANGED),
        (partial(SmallMixer, tokens=MaximumOfPositions), {"mixes_as_a_mean"}),
        (partial(SmallMixer, tokens=judged.AttentionForTokenMixing), {"mixes_as_attention"}),
        (partial(SmallMixer, tokens=judged.ConvolutionForTokenMixing), {"mixes_neighbours"}),
        (partial(SmallMixer, tokens=lambda: Transposed(nn.Linear(N, N))), {"tokens_add_up"}),
        (
            partial(SmallMixer, channels=lambda: nn.Sequential(nn.Linear(D_MODEL, 8), nn.Linear(8, D_MODEL))),
            {"channels_add_up"},
        ),
        (partial(SmallMixer, tokens=lambda: Scaled(over_positions(), D_MODEL)), {"tokens_unlike"}),
        (partial(SmallMixer, channels=lambda: Scaled(over_channels(), (N, 1))), {"channels_unlike"}),
        (
            partial(SmallMixer, channels=lambda: nn.Sequential(nn.LayerNorm(D_MODEL), over_channels())),
            {"norm_is_in_the_network"},
        ),
    ],
)
def test_a_network_shows_its_own_mistake(make, names):
    assert shown(make) == names


class Pairs(nn.Module):
    """The mark of a place depends on its patch and, half as much, on that of another place."""

    def __init__(self, others):
        super().__init__()
        self.others = others

    def forward(self, x, tokens=None):
        if tokens is not None:
            return x
        size = patchify(x, P).abs().sum(-1)
        return size + size[:, self.others] / 2


def test_counterparts_are_found_where_they_change_a_mark_most():
    _, truth = questions()
    found = truth["counterparts"]
    assert judged._finds(asked(lambda: Pairs(found)), truth) is None
    some_wrong = torch.cat([found[:13].roll(1), found[13:]])
    assert "Of 32 marks, 19 change most" in judged._finds(asked(lambda: Pairs(some_wrong)), truth)
