"""Shared fixtures for tests of mechanisms: seeded draws, and the comparison of two forms in values and gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


@pytest.fixture
def normal() -> Callable[..., Tensor]:
    """Return `normal(*shape, scale=1.0)`: float64 draws from N(0, scale²), the same in every run, that require a gradient."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return drawn.requires_grad_()

    return draw


@pytest.fixture
def agree(normal: Callable[..., Tensor]) -> Callable[..., None]:
    """Return `agree(f, g, *inputs)`: both return the same tensors and the same gradients of every float input, to 1e-10."""

    def results(f: Callable[..., object], inputs: tuple[object, ...]) -> list[Tensor]:
        out = f(*inputs)
        return [t for t in (out if isinstance(out, tuple) else (out,)) if t is not None]

    def assert_agree(f: Callable[..., object], g: Callable[..., object], *inputs: object) -> None:
        ours, theirs = results(f, inputs), results(g, inputs)
        assert len(ours) == len(theirs) > 0
        pulls = [normal(*t.shape).detach() for t in theirs]
        wanted = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
        gradients = [torch.autograd.grad(out, wanted, pulls, allow_unused=True) for out in (ours, theirs)]
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)
        for a, b in zip(*gradients, strict=True):
            assert a is not None, "an input has no gradient"
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)

    return assert_agree
