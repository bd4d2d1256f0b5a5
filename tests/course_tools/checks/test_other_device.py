"""A right answer that makes tensors on the CPU, whatever the device of its inputs, is told the line; it costs no points."""

import pytest
import torch
from torch.nn import functional as F

from course_tools.bank import exercises, verdict
from course_tools.checks.other_device import line_for_one_device


def _as_made(x):
    return x + torch.zeros(5)


def _in_steps(x):
    kept = torch.arange(5).double()[None] > 2
    return x.masked_fill(kept, 0)


def _returned(x):
    return x * 2, torch.ones(len(x))


def _written(x):
    all_of_it = torch.zeros(3, 5)
    all_of_it[0] = x[0]
    return all_of_it


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (_as_made, "return x + torch.zeros(5)"),
        (_in_steps, "kept = torch.arange(5).double()[None] > 2"),
        (_returned, "return x * 2, torch.ones(len(x))"),
        (_written, "all_of_it = torch.zeros(3, 5)"),
    ],
)
def test_the_line_that_makes_a_tensor_for_the_cpu_is_named(answer, line):
    assert line_for_one_device(answer, [(torch.ones(3, 5),)]) == line


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: x + torch.zeros(5, device=x.device),
        lambda x: x + torch.zeros(5).to(x.device),
        lambda x: x + torch.eye(5).to(x)[0],
        lambda x: x + torch.zeros(5).type_as(x),
        lambda x: x + x.new_zeros(5) + torch.zeros_like(x),
        lambda x: x * torch.tensor(0.5),
        lambda x: x[torch.arange(2)],
        lambda x: x.index_put((torch.tensor([0]),), x.new_zeros(())),
        lambda x: F.pad(x, (1, 1)) + F.one_hot((x > 0).long(), 7).sum(-2),
        lambda x: torch.tensor(x.sum().item()),
    ],
)
def test_what_runs_on_any_device_is_not_accused(answer):
    assert line_for_one_device(answer, [(torch.ones(3, 5),)]) == ""


def test_a_call_that_raises_or_has_no_tensor_shows_nothing():
    assert line_for_one_device(lambda n: torch.zeros(n), [(3,)]) == ""
    assert line_for_one_device(lambda x: x @ torch.zeros(2), [(torch.ones(3, 5),)]) == ""


def test_no_reference_is_accused():
    accused = [
        asked.id
        for asked in exercises()
        if asked.training is None
        and line_for_one_device(asked.reference, [call for prop in asked.properties for call in asked.calls(prop, 0)[:2]])
    ]
    assert accused == []


def test_a_right_answer_keeps_its_points_and_is_told():
    def rollout(weights):
        result = torch.eye(weights.shape[-1]).expand(*weights.shape[1:-3], -1, -1)
        for layer in weights:
            result = (layer.mean(-3) + torch.eye(weights.shape[-1], device=weights.device)) / 2 @ result
        return result

    found = verdict("11.3", rollout)
    assert found.points == found.max_points, found.message
    line = "result = torch.eye(weights.shape[-1]).expand(*weights.shape[1:-3], -1, -1)"
    assert f"With inputs on a GPU it would fail: `{line}` makes a tensor on the CPU." in found.message


def test_an_answer_for_any_device_is_told_nothing():
    assert verdict("14.1", lambda x: x.relu() + x.clamp(max=0).exp()).message.endswith("Right.")
