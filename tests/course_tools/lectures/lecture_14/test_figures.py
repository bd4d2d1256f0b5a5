"""Softmax becomes sharp and a constant feature map does not; each model is timed at its lengths."""

import pytest
import torch

from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_tools.lectures.lecture_14.figures import show_generation_speed, show_sharpness

# The largest weight is near 1 for large logits, and uniform for a constant feature map.


def test_softmax_becomes_sharp_and_a_constant_feature_map_stays_uniform():
    largest = show_sharpness(torch.ones_like, "constant", scales=(0.001, 300))
    assert largest["softmax"] == pytest.approx([1 / 64, 1], rel=2e-2)
    assert largest["constant"] == pytest.approx([1 / 64, 1 / 64])


# A slow model is measured after short prompts only.


def test_each_model_is_measured_at_its_lengths():
    torch.manual_seed(0)
    model = LinearTransformer(11, Sizes(12, 3, 24, 1)).eval()
    models = {"fast": model, "slow": model}
    speeds = show_generation_speed(models, [2, 5, 7], "tiny", n_sequences=2, slow=["slow"], longest_of_slow=5)
    assert {name: len(each) for name, each in speeds.items()} == {"fast": 3, "slow": 2}
    assert min(map(min, speeds.values())) > 0
