"""A room of the microscope in a browser: the room that a test module names as its `ROOM`."""

import pytest

from course_tools.microscope import write
from tests.course_tools.browser import Visit, chromium

DESK, PHONE = 1280, 390
PAGES = [
    *((PHONE, "light"), (DESK, "dark")),
    *(pytest.param(width, scheme, marks=pytest.mark.full) for width, scheme in ((PHONE, "dark"), (DESK, "light"))),
]
"""The widths of a page and its colours."""
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def file(request, tmp_path_factory):
    """The room, beside the first page."""
    folder = tmp_path_factory.mktemp("microscope")
    return write(folder / "microscope.html").with_name(f"microscope_{request.module.ROOM}.html")


@pytest.fixture
def tab(browser, file):
    with Visit(browser, file, DESK, ready="") as visit:
        yield visit.page
        assert (visit.left, visit.errors) == ([], [])
