"""The largest weight is near 1 for large logits, and uniform for a constant feature map."""

import pytest
import torch

from course_tools.lectures.lecture_14.figures import show_sharpness


def test_softmax_becomes_sharp_and_a_constant_feature_map_stays_uniform(capsys):
    largest = show_sharpness(torch.ones_like, "constant", scales=(0.001, 300))
    assert largest["softmax"] == pytest.approx([1 / 64, 1], rel=2e-2)
    assert largest["constant"] == pytest.approx([1 / 64, 1 / 64])
    assert "constant from 0.016 to 0.016" in capsys.readouterr().out
