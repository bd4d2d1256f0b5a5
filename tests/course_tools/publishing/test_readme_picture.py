"""The figure of the README shows the current verdicts of the checks."""

from itertools import product

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


@pytest.mark.parametrize("name", ["check", "microscope"])
def test_each_picture_is_small_and_has_a_still_and_forms_for_phones_and_dark_themes(name):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    assert (PICTURES / f"{name}.png").stat().st_size < 1e5
    for theme, (form, width) in product(("", "_dark"), (("", 1500), ("_narrow", 800))):
        file = f"{name}{theme}{form}.webp"
        assert (PICTURES / file).stat().st_size < 2e5
        with image.open(PICTURES / file) as moving:
            assert moving.n_frames > 2
            assert moving.width > width


@pytest.mark.full
@pytest.mark.browser
def test_one_command_draws_it(tmp_path):
    pytest.importorskip("playwright", reason='needs the extra [site]: pip install -e ".[site]"')
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    drawn = draw(tmp_path)
    assert {path.name for path in drawn} == {path.name for path in PICTURES.iterdir()}
    assert all(path.stat().st_size > 5_000 for path in drawn)
