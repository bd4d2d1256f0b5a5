"""Recorded frames of an interactive figure: which are recorded, and how sliders show them without Python."""

import io
import json
import re
from base64 import b64decode

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from course_tools.notebook import show
from course_tools.notebook.explore import _all_positions
from course_tools.notebook.frames import FRAME_DPI, MOST_BYTES, chosen_stops, recorded_frames
from tests.course_tools.browser import Visit, chromium


def draw(level: float = 2, dark: bool = False) -> None:
    figure = Figure(figsize=(2, 1), facecolor=(level / 10, 0.0, 1.0 if dark else 0.0))
    show(figure, alt=f"`level` {level}, {'dark' if dark else 'light'}")


POSITIONS, START = {"level": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "dark": [False, True]}, {"level": 2, "dark": False}


@pytest.fixture(scope="module")
def html():
    return recorded_frames(draw, POSITIONS, START)


def stored(html):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)[1])


@pytest.mark.parametrize(
    ("controls", "start", "expected"),
    [
        ({"n": (1, 4)}, {"n": 3}, {"n": [1, 2, 3, 4]}),
        ({"n": (0, 1000)}, {"n": 900}, {"n": [0, 129, 257, 386, 514, 643, 771, 900, 1000]}),
        ({"x": (0.0, 1.0, 0.1), "y": (0.0, 1.0, 0.1)}, {"x": 0.3, "y": 1.0}, {"x": [0.0, 0.3, 1.0], "y": [0.0, 0.5, 1.0]}),
        ({"on": True, "form": ["a", "b", "c"]}, {"on": True, "form": "b"}, {"on": [False, True], "form": ["a", "b", "c"]}),
        ({"a": (0, 9), "b": (0, 9), "c": (0, 9)}, {"a": 0, "b": 0, "c": 4}, {"a": [0, 4, 9], "b": [0, 4, 9]}),
    ],
)
def test_the_stops_go_from_end_to_end_and_contain_the_start(controls, start, expected):
    assert chosen_stops(_all_positions(controls, start), start, 9) == expected


def test_every_frame_is_what_the_drawing_shows_there(html):
    found = stored(html)
    assert [control["name"] for control in found["controls"]] == ["level", "dark"]
    assert [control["start"] for control in found["controls"]] == [2, 0]
    assert found["controls"][1]["stops"] == ["off", "on"]
    assert found["captions"][5] == "<code>level</code> 2, dark"
    assert (found["width"], found["height"]) == (2 * FRAME_DPI, FRAME_DPI)
    sheet = Image.open(io.BytesIO(b64decode(found["image"].partition(",")[2]))).convert("RGB")
    assert sheet.height == len(found["captions"]) * found["height"]
    for n, (red, blue) in {0: (0, 0), 5: (51, 255), 21: (255, 255)}.items():
        seen = sheet.getpixel((50, n * FRAME_DPI + 50))
        assert all(abs(a - b) <= 2 for a, b in zip(seen, (red, 0, blue), strict=True))


def test_fewer_frames_are_recorded_if_their_image_would_be_large():
    def noisy(n: int) -> None:
        figure = Figure(figsize=(2, 1))
        figure.figimage(torch.rand(100, 200, generator=torch.Generator().manual_seed(n)).round().numpy())
        show(figure, alt=f"noise {n}")

    found = stored(recorded_frames(noisy, {"n": list(range(100))}, {"n": 0}))
    assert 9 <= len(found["captions"]) < 30
    assert len(found["image"]) < 1.4 * MOST_BYTES


def test_drawing_leaves_the_random_numbers_of_the_lecture_alone():
    def seeded(n: int) -> None:
        torch.manual_seed(n)
        draw(n)

    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    recorded_frames(seeded, {"n": [1, 2]}, {"n": 1})
    assert torch.equal(torch.rand(3), expected)


def test_what_is_not_one_figure_is_not_recorded():
    assert recorded_frames(print, {"end": ["", " "]}, {"end": ""}) == ""


@pytest.mark.parametrize("sheet_in_a_file", [False, True])
def test_sliders_show_another_frame_and_its_words_without_python(html, tmp_path, sheet_in_a_file):
    if sheet_in_a_file:
        data = stored(html)["image"]
        (tmp_path / "sheet.webp").write_bytes(b64decode(data.partition(",")[2]))
        html = html.replace(data, "sheet.webp")
    page = tmp_path / "page.html"
    page.write_text(f'<div class="cell_output">{html}<figure><img alt="still"></figure><figcaption>still</figcaption></div>')
    with chromium() as browser, Visit(browser, page, 390, ready="") as visit:
        view = visit.page.locator(".course-frames [role=img]")
        assert view.count() == 0
        visit.page.get_by_role("slider", name="level").press("ArrowRight")
        assert view.get_attribute("aria-label") == "level 3, light"
        visit.page.get_by_role("slider", name="dark").press("End")
        assert view.get_attribute("aria-label") == "level 3, dark"
        assert visit.page.locator("[aria-live]").inner_text() == "level 3, dark"
        assert not visit.page.get_by_alt_text("still").is_visible()
        seen = Image.open(io.BytesIO(view.screenshot())).convert("RGB").getpixel((100, 50))
        assert all(abs(a - b) <= 2 for a, b in zip(seen, (77, 0, 255), strict=True))
        assert (visit.left, visit.errors) == ([], [])
