"""Every exercise: its reference on the inputs of its properties, and checks on a machine that has an accelerator."""

import pytest
import torch
from torch import Tensor

from course_tools.bank import exercise, exercises, verdict
from course_tools.checks.time_limit import guarded
from course_tools.notebook import at_scale
from course_tools.notebook import device as chosen


def tensors(x: object) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    return [each for part in x for each in tensors(part)] if isinstance(x, tuple | list) else []


@pytest.mark.parametrize("id", [item.id for item in exercises()])
def test_a_reference(id, same_there):
    """A function of numbers only, such as `causal_mask(T)`, creates its tensors on the CPU by default."""
    asked = exercise(id)
    for prop in asked.properties:
        with guarded():
            calls = asked.calls(prop, seed=0)
        for call in [call for call in calls if tensors(call)][:1]:
            same_there(asked.reference, *call)


@pytest.mark.parametrize("id", ["04.1", "15.1"])
def test_a_check_judges_as_on_the_cpu(id):
    asked = exercise(id)
    assert verdict(id, asked.reference).passed
    assert not verdict(id, asked.wrong[0]).passed


def test_a_notebook_takes_it_and_trains_at_the_scale_of_a_laptop(device):
    assert chosen() == device
    assert at_scale(cpu=3, gpu=7) == 3
    assert torch.ones(2, device=chosen()).sum().item() == 2
