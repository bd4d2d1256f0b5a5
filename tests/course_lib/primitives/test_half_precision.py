"""A function runs in float32 or wider, or only if autocast is on; a device without autocast is supported."""

import pytest
import torch

from course_lib.primitives.precision import float32_under_autocast, in_float32_at_least

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


@pytest.mark.parametrize("made", [in_float32_at_least, float32_under_autocast])
def test_a_device_that_knows_no_autocast_has_none(made):
    matmul = made(torch.matmul)
    assert matmul(torch.empty(n, d, device="meta"), torch.empty(d, n, device="meta")).shape == (n, n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_function_in_float32_at_least(dtype, mixed):
    """By position or by name, under autocast or not; whole numbers stay whole."""
    product = in_float32_at_least(lambda x, y, i: (x @ y)[i])
    x = torch.full((2, 300), 30.0, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        found = product(x, y=x.mT, i=torch.tensor([1]))
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    assert found.tolist() == [[270_000.0, 270_000.0]]
