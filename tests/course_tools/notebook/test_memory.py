"""Peak memory: what a call holds at its highest, to the byte, and the same each time."""

import pytest
import torch

from course_tools.notebook import peak_memory
from course_tools.notebook.memory import allocate_workspaces

MiB = 2**20
x = torch.randn(512, 512)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: None, 0),
        (lambda: x.mT, 0),
        (lambda: x + 1.0, MiB),
        (lambda: (x + x) @ x, 2 * MiB),
        (lambda: ((x @ x) @ x) @ x, 2 * MiB),
        (lambda: [x @ x for _ in range(5)], 5 * MiB),
        (lambda: [(x @ x).sum() for _ in range(5)], MiB + 5 * 4 - 4),
    ],
    ids=["nothing", "a view", "one", "one and its product", "what is let go does not count", "kept", "not kept"],
)
def test_the_most_bytes_held_at_one_time(call, expected):
    assert peak_memory(call) == pytest.approx(expected, abs=256)
    assert peak_memory(call) == peak_memory(call)


def test_a_backward_pass_counts():
    y = torch.randn(512, 512, requires_grad=True)
    forward = peak_memory(lambda: y.exp().exp().sum())
    assert peak_memory(lambda: y.exp().exp().sum().backward()) >= forward + MiB


def test_it_writes_nothing(capfd):
    peak_memory(lambda: x @ x)
    assert capfd.readouterr() == ("", "")


def test_an_error_comes_through():
    with pytest.raises(RuntimeError, match="shapes"):
        peak_memory(lambda: x @ x[:3])


@pytest.mark.parametrize("disabled", [torch.no_grad, torch.inference_mode])
def test_workspaces_are_allocated_where_gradients_are_disabled(disabled):
    with disabled():
        allocate_workspaces("cpu")


@pytest.mark.gpu
def test_memory_on_a_gpu_counts_where_gradients_are_disabled():
    there = x.cuda()
    with torch.no_grad():
        assert peak_memory(lambda: there + 1.0) == pytest.approx(MiB, abs=4096)


@pytest.mark.gpu
def test_memory_on_a_gpu_counts():
    there = x.cuda()
    there @ there
    assert peak_memory(lambda: there + 1.0) == pytest.approx(MiB, abs=4096)
