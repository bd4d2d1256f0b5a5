"""One notebook, two scales: the device decides."""

import pytest
import torch

from course_tools.notebook import at_scale, device


@pytest.mark.parametrize("found", ["cuda", "mps", "xpu", None])
def test_the_accelerator_that_torch_finds_is_taken_and_else_the_cpu(found, monkeypatch):
    asked = []

    def current_accelerator(check_available=False):
        asked.append(check_available)
        return None if found is None else torch.device(found)

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
    assert device() == torch.device(found or "cpu")
    assert at_scale(cpu=3, gpu=7) == (7 if found == "cuda" else 3)
    assert all(asked)
