"""The device of the tests of this folder, and shared fixtures: moving data there and comparing with the CPU."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from tests.moved import moved
from tests.pretend_gpu import device as pretend
from tests.pretend_gpu.ran import watching


def tensors(x: object) -> list[Tensor]:
    """Return all tensors in a result."""
    if isinstance(x, Tensor):
        return [x]
    return [each for part in x for each in tensors(part)] if isinstance(x, tuple | list) else []


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The pretend accelerator."""
    return pretend.register()


@pytest.fixture(autouse=True)
def _every_test_has_it(device: torch.device) -> None:
    """Make `torch.accelerator` find it."""
    assert torch.accelerator.current_accelerator(check_available=True) == device


@pytest.fixture
def same_there(device: torch.device) -> Callable[..., None]:
    """Return `same_there(form, *inputs)`: results and gradients are on the device and equal those of the CPU."""

    def compare(form: Callable[..., object], *inputs: object) -> None:
        results = []
        for where in (torch.device("cpu"), device):
            given = moved(inputs, where)
            there = moved(form, where)
            torch.manual_seed(0)  # of both devices: what is drawn at random must be the same
            with watching() if where == device else nullcontext():
                result = there(*given)
            found = tensors(result)
            if not found:
                results.append(result)
                continue
            assert all(each.device.type == where.type for each in found), [each.device for each in found]
            leaves = [x for x in tensors(given) if x.requires_grad]
            smooth = [each.square().sum() for each in found if each.requires_grad and each.numel()]
            gradients = torch.autograd.grad(sum(smooth), leaves, allow_unused=True) if smooth and leaves else ()
            results.append([x.detach().cpu() for x in (*found, *(g for g in gradients if g is not None))])
        here, there = results
        if not isinstance(here, list):
            assert here == there
            return
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            torch.testing.assert_close(other, one, atol=1e-4, rtol=1e-4, equal_nan=True)

    return compare
