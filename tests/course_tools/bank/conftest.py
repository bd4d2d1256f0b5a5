"""What the tests of the exercises share: answers run as a student runs them, without the types being checked."""

from collections.abc import Iterator

import jaxtyping
import pytest

from course_tools.bank import exercises


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    """Switch the check of types off: it makes each wrong answer slow to refuse, and a test shows that it changes no verdict."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `asked` once for each exercise."""
    if "asked" in metafunc.fixturenames:
        metafunc.parametrize("asked", exercises(), ids=[f"{e.id}-{e.reference.__name__}" for e in exercises()])
