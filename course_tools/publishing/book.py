"""All lectures as one PDF: the pages of the site one after the other, everything unfolded, printed by Chromium."""

import re
import tempfile
from collections.abc import Sequence
from datetime import date
from html import escape
from pathlib import Path

from course_tools.publishing.browser import chromium, print_pdf
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.publishing.site.website import build_site

_HEAD = re.compile(r"<head>.*?</head>", re.DOTALL)
_ARTICLE = re.compile(r'<article class="bd-article">.*?</article>', re.DOTALL)
_ONLY_ON_A_SCREEN = re.compile(
    r'<script data-cfasync="false">.*?</script>|<script[^>]*(?:predictions|glossary)\.js[^>]*></script>|<iframe.*?</iframe>',
    re.DOTALL,
)
_STYLE = """<style>
@page { size: A4; }
.bd-article h1 { display: block !important; }
.bd-article :is(.cell_input, .cell_output, .highlight) { break-inside: avoid; }
html { font-size: 12.5px; }
.bd-article { break-before: page; }
.bd-article pre { font-size: 8pt; }
.bd-article :is(h1, h2, h3, h4, summary) { break-after: avoid; }
.bd-article img { max-height: 220mm; }
</style>"""
_TIME_LIMIT = 900


def write_book(root: Path, pdf: Path, numbers: Sequence[str] = ()) -> Path:
    """Print solved lectures as one PDF, from stored outputs.

    Args:
        root: the folder of the course.
        pdf: the file to write.
        numbers: the lectures, such as "04"; none = all.

    Raises:
        PublishingFailed: there is no browser, or the extra `[site]` is missing, or the browser wrote no file.
    """
    if chromium() is None:
        raise PublishingFailed("the book needs Chromium or Chrome, and neither is installed (COURSE_CHROMIUM names one).")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        build_site(root, site, numbers, ["metrics"])
        page = site / "lectures" / "book.html"
        page.write_text(book_page(site, lectures(root, numbers)), encoding="utf-8")
        pdf.parent.mkdir(parents=True, exist_ok=True)
        if not print_pdf(page, pdf, seconds=_TIME_LIMIT):
            raise PublishingFailed(f"the browser wrote no {pdf}.")
    return pdf


def book_page(site: Path, chosen: Sequence[Lecture]) -> str:
    """Return the lectures of a site as one page: answers unfolded, links between lectures kept, others taken out."""
    pages = [(each, (site / "lectures" / f"{each.stem}.html").read_text(encoding="utf-8")) for each in chosen]
    listed = "".join(f'<li><a href="#{each.number}">{each.number} · {escape(each.title)}</a></li>' for each, _ in pages)
    front = f"<h1>Attention, from the ground up</h1><p>{date.today():%B %Y}</p><ul>{listed}</ul>"
    body = f'<article class="bd-article">{front}</article>'
    for each, text in pages:
        body += f'<div id="{each.number}">{_for_paper(_ARTICLE.search(text)[0], each.number)}</div>'
    head = _ONLY_ON_A_SCREEN.sub("", _HEAD.search(pages[0][1])[0]).replace("</head>", f"{_STYLE}</head>")
    body = f'<main class="bd-main"><div class="bd-content"><div class="bd-article-container">{body}</div></div></main>'
    return f'<!doctype html><html lang="en" data-content_root="../" data-theme="light">{head}<body>{body}</body></html>'


def _for_paper(article: str, number: str) -> str:
    article = _ONLY_ON_A_SCREEN.sub("", article).replace('loading="lazy"', "")
    article = re.sub(r"<details(?! open)", "<details open", article)
    article = re.sub(r'\bid="', f'id="{number}-', article)
    article = re.sub(r'\bhref="#', f'href="#{number}-', article)
    article = re.sub(r'\bhref="(\d\d)_\w+\.html[^"]*"', r'href="#\1"', article)
    return re.sub(r'\bhref="(?!#|https?:)[^"]*"', "", article)
