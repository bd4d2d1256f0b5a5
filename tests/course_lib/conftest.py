"""Behaviour at run time, where the shapes in the signatures are not checked."""

import jaxtyping
import pytest


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off shape checks, so that the library's own errors are raised for a wrong shape."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
