"""The forward half of ELMo is independent of later words, and the other half is not."""

import torch

from course_lib.models import ELMo, scalar_mix
from course_tools.lectures.lecture_08.experiments import changes_with_the_future


def test_half_of_the_features_change():
    torch.manual_seed(0)
    assert changes_with_the_future(ELMo(13, 7, 2), scalar_mix, seed=0) == (0.0, 7)


def test_a_mixture_that_drops_everything_does_not_change():
    nothing = lambda layers, w, gamma: 0 * layers.sum(-2)  # noqa: E731
    assert changes_with_the_future(ELMo(13, 7, 2), nothing, seed=0).n_features == 0
