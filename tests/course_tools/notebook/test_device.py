"""One notebook, two scales: the device decides."""

import pytest
import torch

from course_tools.notebook import at_scale, device


@pytest.mark.parametrize(("cuda", "mps", "expected"), [(1, 1, "cuda"), (1, 0, "cuda"), (0, 1, "mps"), (0, 0, "cpu")])
def test_cuda_comes_before_mps_and_the_cpu_last(cuda, mps, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cuda))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: bool(mps))
    assert device() == torch.device(expected)
    assert at_scale(cpu=3, gpu=7) == (7 if expected == "cuda" else 3)
