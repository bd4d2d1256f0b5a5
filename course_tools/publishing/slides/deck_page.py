"""`course slides NN`: the slides of a lecture as one page of reveal.js, offline, and as PDF; the key S opens the notes."""

import re
import shutil
from html import escape
from pathlib import Path

import nbformat

from course_tools.publishing.browser import chromium, print_pdf
from course_tools.publishing.figure_files import with_files
from course_tools.publishing.project import Lecture, PublishingFailed
from course_tools.publishing.slides.slide_deck import Slide, slides
from course_tools.publishing.web_assets import MATHJAX, copy_mathjax, copy_reveal, require_site_extra
from course_tools.whole_file import write_whole

_STATIC = Path(__file__).with_name("static")


def write_slides(lecture: Lecture, out: Path) -> Path:
    """Write the slides of a lecture into a folder, with the files that they load in `_static`; return the page.

    Raises:
        PublishingFailed: the extra `[site]` is missing, or the lecture has not been built.
    """
    require_site_extra()
    if not lecture.solution.exists():
        raise PublishingFailed(f"{lecture.name(lecture.solution)} does not exist: run `course build {lecture.number}` first.")
    static = out / "_static"
    copy_mathjax(static / "mathjax")
    return write_deck(lecture, out / f"{lecture.stem}.html", static, "_static")


def write_deck(lecture: Lecture, page: Path, static: Path, address: str) -> Path:
    """Write one deck. `static` is the folder of the files it loads, with MathJax already in it; its address is `address`."""
    copy_reveal(static / "reveal")
    for name in ("slides.css", "slides.js"):
        shutil.copyfile(_STATIC / name, static / name)
    deck = _joined(slides(nbformat.read(lecture.solution, as_version=4)))
    sections = "\n".join(map(_section, deck))
    text = _PAGE.replace("{title}", escape(f"{lecture.number} · {lecture.title}")).replace("{static}", address)
    text = text.replace("{mathjax}", MATHJAX)
    text = text.replace("{sections}", with_files(sections, static / "figures", f"{address}/figures"))
    write_whole(page, text)
    return page


def write_pdf(page: Path) -> Path:
    """Print a deck as PDF next to its page, one slide per sheet, with Chromium or Chrome.

    Raises:
        PublishingFailed: neither is installed, or the browser wrote no file.
    """
    if chromium() is None:
        raise PublishingFailed(
            "a PDF needs Chromium or Chrome, and neither is installed; the slides have been written as HTML."
        )
    target = page.with_suffix(".pdf")
    if not print_pdf(page, target, query="print"):
        raise PublishingFailed(f"the browser wrote no PDF of {page}.")
    return target


def _joined(deck: list[Slide]) -> list[Slide]:
    """Move the notes of prose without a slide to the slide before it."""
    joined: list[Slide] = []
    for slide in deck:
        if slide.kind == "notes" and joined:
            last = joined[-1]
            joined[-1] = Slide(last.kind, last.title, last.body, last.notes + slide.notes)
        else:
            joined.append(slide)
    return joined


def _section(slide: Slide) -> str:
    level = "h1" if slide.kind == "title" else "h2"
    title = f"<{level}>{slide.title}</{level}>" if slide.title else ""
    body = re.sub(r' style="[^"]*"', "", slide.body)
    notes = f'<aside class="notes">{slide.notes}</aside>' if slide.notes else ""
    return f'<section class="{slide.kind}">{title}<div class="body">{body}</div>{notes}</section>'


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{static}/reveal/reset.css">
<link rel="stylesheet" href="{static}/reveal/reveal.css">
<link rel="stylesheet" href="{static}/slides.css">
<script>
window.MathJax = {
  tex: {
    packages: {"[-]": ["require", "autoload"]},
    inlineMath: [["$", "$"], ["\\\\(", "\\\\)"]], displayMath: [["$$", "$$"], ["\\\\[", "\\\\]"]]
  },
  options: {enableMenu: false}
};
</script>
<script src="{static}/mathjax/{mathjax}"></script>
</head>
<body>
<div class="reveal"><div class="slides">
{sections}
</div></div>
<script src="{static}/reveal/reveal.js"></script>
<script src="{static}/reveal/notes.js"></script>
<script src="{static}/slides.js"></script>
</body>
</html>
"""
