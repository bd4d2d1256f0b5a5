"""What the tests of the checks share: answers run as a student runs them, without the types being checked."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    """Switch the check of types off: it makes each wrong answer slow to refuse, and a test shows that it changes no verdict."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
