"""A precondition sees the arguments of its function, by position or by name, before the function does."""

import inspect

import pytest

from course_lib.primitives.preconditions import requires


def _positive(x: float, scale: float = 1.0) -> None:
    if x * scale <= 0:
        raise ValueError(f"{x} times {scale} is not positive")


@requires(_positive)
def root(x: float, scale: float = 1.0) -> float:
    """Return the root of a positive number."""
    return (x * scale) ** 0.5


@pytest.mark.parametrize("call", [lambda: root(4.0, 0.25), lambda: root(4.0, scale=0.25), lambda: root(scale=0.25, x=4.0)])
def test_what_fits_is_computed(call):
    assert call() == 1.0


@pytest.mark.parametrize("call", [lambda: root(4.0, -1.0), lambda: root(x=-4.0), lambda: root(4.0, scale=0.0)])
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(ValueError, match="not positive"):
        call()


def test_the_function_keeps_its_name_signature_and_docstring():
    assert (root.__name__, root.__doc__) == ("root", "Return the root of a positive number.")
    assert list(inspect.signature(root).parameters) == ["x", "scale"]
