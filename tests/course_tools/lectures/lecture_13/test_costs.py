"""Work and parameters of token mixing, attention and variants of the Mixer follow their formulas."""

import pytest
import torch

from course_lib.blocks import MixerSizes, Sizes
from course_lib.metrics import mixer_parameters
from course_tools.lectures.lecture_13.costs import cost, growth_of_work, with_a_network_for_each_channel, with_wide_networks
from course_tools.notebook.digit_vit import small_vit

# Exponents and counts of parameters that can be worked out by hand.


def test_attention_grows_quadratically_and_token_mixing_as_its_width_does():
    growth = growth_of_work([5, 10, 20], d=3)
    assert growth == {"attention": pytest.approx(2), "token mixing": pytest.approx(1), "token mixing, 4N": pytest.approx(2)}


def test_each_channel_but_one_adds_a_network():
    sizes, N = MixerSizes(3, d_tokens=5, d_channels=7, n_layers=2), 4
    shared = mixer_parameters(*sizes, N, 3 * 25, 0)
    one_network = N * 5 + 5 + 5 * N + N
    assert with_a_network_for_each_channel(mixer_parameters, sizes, P=5, side=10) == shared + 2 * 2 * one_network


def test_wide_networks_are_four_times_as_wide_as_their_inputs():
    sizes = MixerSizes(3, d_tokens=5, d_channels=7, n_layers=2)
    wide = mixer_parameters(3, 16, 12, 2, 4, 3 * 25, 0)
    assert with_wide_networks(mixer_parameters, sizes, P=5, side=10) == wide


# The costs of a model include its attention, and the figures give each accuracy at its cost.


def test_the_cost_of_a_vit_includes_its_attention():
    image, sizes = torch.rand(1, 1, 28, 28), Sizes(8, 2, 16, 1)
    counted = cost(small_vit(sizes=sizes), image)
    linear = 16 * 49 * 8 + 17 * (4 * 8 * 8 + 2 * 8 * 16) + 8 * 10
    assert counted.multiply_adds == linear + 2 * 17 * 17 * 8
    assert counted.parameters == sum(parameter.numel() for parameter in small_vit(sizes=sizes).parameters())
