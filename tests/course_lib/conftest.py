"""What a caller meets at run time, where the shapes in the signatures are not checked."""

import jaxtyping
import pytest


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the check of shapes off, so that the library's own refusal is what answers a wrong shape."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
