"""A form runs in float32 at least where autocast is on, and as it is elsewhere."""

import pytest
import torch

from course_lib.primitives.autocast import float32_under_autocast

n, d = 3, 5


@float32_under_autocast
def product(x, y, times=1):
    return times * (x @ y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_a_product_is_that_of_float32(normal, dtype):
    x, y = normal(n, d).detach().to(dtype), normal(d, n).detach().float()
    with torch.autocast("cpu", dtype):
        found = product(x, y, times=2)
        assert (x @ y).dtype == dtype
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, 2 * (x.float() @ y))


def test_under_autocast_float64_and_what_is_no_float_stay(normal):
    x, y, numbers = normal(n, d), normal(d, n), torch.arange(n)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(x, y).dtype == torch.float64
        assert float32_under_autocast(lambda *given: given)(numbers, None, "word") == (numbers, None, "word")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_elsewhere_nothing_changes(normal, dtype):
    x, y = normal(n, d).detach().to(dtype), normal(d, n).detach().to(dtype)
    found = product(x, y)
    assert found.dtype == dtype
    assert torch.equal(found, x @ y)
    assert float32_under_autocast(lambda *given: given)(None, 7) == (None, 7)


def test_a_device_that_knows_no_autocast_has_none():
    assert product(torch.empty(n, d, device="meta"), torch.empty(d, n, device="meta")).shape == (n, n)
