"""Draw the figures of README and site: a check that names a mistake, and the microscope, in which a switch destroys the answer.

    python -m course_tools.publishing.readme_picture [DIR]

The verdicts are those of the bank, the answers those of the page. Needs the extra `[site]` and Chromium. Of both it writes
`.webp`, which plays four times, `_narrow.webp`, the same for phones, both also as `_dark`, and `.png`, the first frame, for
readers who prefer no motion.
"""

import inspect
import io
import sys
from itertools import product
from pathlib import Path

from course_tools import microscope
from course_tools.bank import exercise, verdict
from course_tools.checks.verdict_display import VerdictDisplay
from course_tools.publishing.browser import chromium
from course_tools.publishing.project import PublishingFailed, project_root

EXERCISE, WRONG = "04.1", "forgets_the_scale"
WIDTH, HEIGHT = 860, 310
NARROW = 430
"""The width of a figure for phones, on which its text has the size of the page's."""
_WRONG_LINE = "return attend(q @ k.mT, v, mask)"
_RIGHT_LINE = "return attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)"
_CALL = f'scaled_dot_product_attention = check("{EXERCISE}", scaled_dot_product_attention)'

_SWITCHED = ((None, 2_500), ("mask", 3_000), (None, 1_500), ("positions", 3_000))
"""What is switched off in each frame of the microscope, and milliseconds."""
_LENS = """
header, footer, .heads, .steps, #reads, .slider, #switches small, #switches input, #effect, #reset, #input {
  display: none !important; }
#drawing { margin-top: 0; }
#switches label { display: block; }
#switches li:has(input:not(:checked)) { text-decoration: line-through 2px; }
body { background: BACKGROUND; } main { padding: 8px; }
#answer { position: static; border: 0; margin: 0 0 8px; font-size: min(24px, 4.7vw); }
#answer b { font-size: min(30px, 5.6vw); }
#switches label { font-size: 17px; } .parts { grid-template-rows: auto; } .panel { grid-row: auto; }
"""
_BACKGROUND = {"": "#ffffff", "_dark": "#0d1117"}
"""The pages of a code host, by theme."""
_DARK = "body { background: #0d1117; } .cell, .verdict { filter: invert(.93) hue-rotate(180deg); }"
_PHONE = """
body { width: 430px; height: 420px; padding: 14px; font-size: 19px; } .cell b { display: none; } .cell { margin-bottom: 10px; }
.cell, .verdict { margin-left: 0; } pre { font-size: 15.5px; white-space: pre-wrap; overflow-wrap: anywhere; }
"""
_PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 22px 26px; width: {width}px; height: {height}px; box-sizing: border-box; background: #fff;
  color: #1c2230;  font: 17px/1.5 system-ui, "DejaVu Sans", sans-serif; }}
.cell {{ display: flex; gap: 12px; margin-bottom: 14px; }}
.cell b {{ flex: none; width: 34px; color: #5a6478; font: 15px/1.6 "DejaVu Sans Mono", monospace; }}
pre {{ flex: 1; margin: 0; padding: 10px 14px; background: #f4f6f9; border: 1px solid #d4d9e2; border-radius: 4px;
  font: 15px/1.6 "DejaVu Sans Mono", monospace; white-space: pre; }}
mark {{ background: #fff3b0; }}
.verdict {{ margin-left: 46px; }}
</style>
<div class="cell"><b>[1]</b><pre>{code}</pre></div>
<div class="cell"><b>[2]</b><pre>{call}</pre></div>
<div class="verdict">{verdict}</div>"""


def frames() -> list[tuple[str, int]]:
    """Write the frames as HTML, each with its duration in milliseconds."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    def code(text: str) -> str:
        return highlight(text, PythonLexer(), HtmlFormatter(nowrap=True, noclasses=True, style="xcode")).rstrip()

    def frame(line: str, shown: str, marked: bool = False) -> str:
        head = "def scaled_dot_product_attention(q, k, v, mask=None):\n    "
        body = f"<mark>{code(line)}</mark>" if marked else code(line)
        return _PAGE.format(
            width=WIDTH, height=HEIGHT, code=code(head.rstrip()) + "\n    " + body, call=code(_CALL), verdict=shown
        )

    asked = exercise(EXERCISE)
    wrong = next(answer for answer in asked.wrong if answer.__name__ == WRONG)
    if _WRONG_LINE not in inspect.getsource(wrong):
        raise PublishingFailed(f"{WRONG} of exercise {EXERCISE} has changed and no longer matches the figure.")
    named, right = (_verdict(answer) for answer in (wrong, asked.reference))
    return [
        (frame(_WRONG_LINE, named), 5_000),
        (frame(_RIGHT_LINE, "", marked=True), 1_800),
        (frame(_RIGHT_LINE, right), 3_500),
    ]


def alternative_text() -> str:
    """Return the figure's alternative text."""
    asked = exercise(EXERCISE)
    found = verdict(EXERCISE, next(answer for answer in asked.wrong if answer.__name__ == WRONG))
    return (
        f"An answer to exercise {EXERCISE} lacks the division by √d_k. The check says: {found.points} of {found.max_points} "
        f"points. {found.misconception.partition(':')[0]}. With the line corrected, it says: Right."
    )


def draw(folder: Path) -> list[Path]:
    """Draw the frames and the microscope in Chromium and write the files.

    Raises:
        PublishingFailed: Chromium is not installed.
    """
    from PIL import Image, ImageOps
    from playwright.sync_api import sync_playwright

    browser = chromium()
    if browser is None:
        raise PublishingFailed("drawing the figure needs Chromium, which is not installed.")
    made: dict[str, list[bytes]] = {}
    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for theme, (width, narrow) in product(_BACKGROUND, ((WIDTH, ""), (NARROW, "_narrow"))):
            scheme = "dark" if theme else "light"
            page = started.new_page(viewport={"width": width, "height": HEIGHT}, device_scale_factor=2, color_scheme=scheme)
            style = (_PHONE if narrow else "") + (_DARK if theme else "")
            made[f"check{theme}{narrow}"] = [_check(page, html.replace("</style>", f"{style}</style>")) for html, _ in frames()]
            page.set_content(microscope.page())
            page.add_style_tag(content=_LENS.replace("BACKGROUND", _BACKGROUND[theme]))
            made[f"microscope{theme}{narrow}"] = [_magnified(page, part) for part, _ in _SWITCHED]
        started.close()
    folder.mkdir(parents=True, exist_ok=True)
    durations = {"check": [time for _, time in frames()], "microscope": [time for _, time in _SWITCHED]}
    written = []
    for name, drawn in made.items():
        images = [Image.open(io.BytesIO(each)).convert("RGB") for each in drawn]
        largest = images[0].width, max(image.height for image in images)
        what, *forms = name.split("_")
        color = _BACKGROUND["_dark" if "dark" in forms else ""]
        first, *rest = [ImageOps.pad(image, largest, color=color, centering=(0, 0)) for image in images]
        times = durations[what]
        first.save(folder / f"{name}.webp", save_all=True, append_images=rest, duration=times, loop=4, lossless=True, method=6)
        written.append(folder / f"{name}.webp")
        if not forms:
            first.quantize(64).save(folder / f"{name}.png", optimize=True)
            written.append(folder / f"{name}.png")
    return written


def _check(page, html: str) -> bytes:
    page.set_content(html)
    return page.screenshot(full_page=True)


def _magnified(page, part: str | None) -> bytes:
    """Draw the microscope with a part switched off, or None."""
    page.evaluate("document.getElementById('reset').click()")
    page.evaluate("document.querySelectorAll('.toured').forEach(node => node.classList.remove('toured'))")
    if part:
        page.evaluate("part => document.getElementById(`switch-${part}`).click()", part)
        page.evaluate("part => document.getElementById(`item-${part}`).classList.add('toured')", part)
    page.wait_for_timeout(300)  # the drawing follows the width of its room
    shortened = "all => all.forEach(side => (side.textContent = side.textContent.replace(' (tap one)', '')))"
    page.eval_on_selector_all(".side", shortened)
    page.eval_on_selector(".legend", "legend => (legend.textContent = 'One head of a small transformer')")
    return page.locator("#view").screenshot()


def _verdict(answer: object) -> str:
    """Return the verdict as a student sees it, without the list of properties."""
    asked = exercise(EXERCISE)
    shown = VerdictDisplay(asked.id, asked.title, verdict(EXERCISE, answer))._repr_html_()
    return shown.partition("<table")[0]


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else project_root() / "docs" / "pictures"):
        print(f"wrote {path.name}, {path.stat().st_size / 1000:.0f} kB")
