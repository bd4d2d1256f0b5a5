"""The figure of the README shows the current verdicts of the checks."""

import pytest

from course_tools.publishing.project import project_root
from course_tools.publishing.readme_picture import draw, frames
from tests.course_tools.browser import CHROMIUM

PICTURES = project_root() / "docs" / "pictures"


def test_the_frames_show_the_named_misconception_and_then_right():
    shown = [html for html, _ in frames()]
    assert "not divided by √d_k" in shown[0]  # what stands there before it moves
    assert "Right." in shown[2]
    assert "Right." not in shown[0] + shown[1]
    assert sum(milliseconds for _, milliseconds in frames()) < 15_000


def test_the_picture_is_small_and_has_a_still():
    assert (PICTURES / "check.webp").stat().st_size < 1e6
    assert (PICTURES / "check.png").exists()
    assert (PICTURES / "microscope.png").stat().st_size < 2e5
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with image.open(PICTURES / "check.webp") as moving:
        assert moving.n_frames == len(frames())


@pytest.mark.browser
def test_one_command_draws_it(tmp_path):
    pytest.importorskip("playwright", reason='needs the extra [site]: pip install -e ".[site]"')
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    moving, *stills = draw(tmp_path)
    assert moving.stat().st_size > 10_000
    assert all(still.stat().st_size > 5_000 for still in stills)
