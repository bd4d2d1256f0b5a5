"""The site for readers: from the file system, in a browser without network, at the sizes of a phone and a desktop."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import nbformat
import pytest

from course_tools.publishing import PublishingFailed
from course_tools.publishing.book import book_page, write_book
from course_tools.publishing.browser import print_pdf
from course_tools.publishing.outputs import claims, tags
from course_tools.publishing.project import lectures, project_root
from course_tools.publishing.site.web_pages import api_address, api_pages, relinked
from course_tools.publishing.site.website import build_site
from course_tools.publishing.web_assets import axe, require_site_extra
from tests.course_tools.browser import Visit, chromium

PAGES = (
    "index.html",
    "lectures/04_self_attention.html",
    "docs/evidence.html",
    "api/metrics.html",
)
CHECKED = "solutions/04_self_attention.ipynb"
PHONE, TABLET, DESK = 390, 820, 1280
REPOSITORY = "https://github.com/owner/course.git"
NOT_OURS = [[".headerlink"], [".copybtn"], [".highlight"], ["mjx-container"]]
"""Parts of the article that the theme, Pygments and MathJax draw."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of one lecture and one package. The whole one: `course site`."""
    try:
        require_site_extra()
    except PublishingFailed as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("site") / "out"
    assert build_site(project_root(), folder, ["04"], ["blocks", "metrics"], REPOSITORY) == []
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


class Addresses(HTMLParser):
    """Collects the links and files of a page, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.to: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.to.append(value)
            if name in ("id", "name") and value:
                self.names.add(value)


def test_every_link_and_anchor_resolves(site):
    pages = {path: Addresses(path) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for address in page.to:
            target, anchor = urldefrag(address)
            if re.match(r"(https?|mailto|data|javascript):", address):
                continue
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            known = None if file.name.startswith("microscope") else pages.get(file)  # there, a view and no anchor
            if not file.is_file() or (anchor and known and unquote(anchor) not in known.names):
                broken.append(f"{path.relative_to(site)}: {address}")
    assert len(pages) > 15
    assert broken == []


def test_the_site_holds_no_address_that_a_page_would_load_from_elsewhere(site):
    loaded = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//', re.IGNORECASE)
    assert [str(path) for path in site.rglob("*.html") if loaded.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_that_readers_never_load_is_in_it(site):
    assert [*site.rglob("*.map"), *site.rglob("_sources"), *site.rglob("*.ipynb_checkpoints")] == []
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 20e6


def test_a_lecture_opens_on_binder_and_every_page_leads_to_the_repository(site):
    lecture, landing = (Addresses(site / name).to for name in ("lectures/04_self_attention.html", "index.html"))
    binder = "https://mybinder.org/v2/gh/owner/course/HEAD?urlpath=lab/tree/lectures/04_self_attention.ipynb"
    assert binder in lecture
    assert binder not in landing
    assert "https://github.com/owner/course" in landing


def test_the_reference_keeps_the_lines_of_formulas_and_the_italics_of_titles(site):
    text = (site / "api/metrics.html").read_text(encoding="utf-8")
    assert re.search(r"<pre>[^\n]*recall_k = hits[^\n]*\nAP = mean over r", text)
    assert "<em>The Pascal Visual Object Classes Challenge</em>" in text
    assert "*The Pascal" not in text


def test_the_reference_shows_constructors_and_no_text_that_python_writes(site):
    blocks, metrics = ((site / f"api/{name}.html").read_text(encoding="utf-8") for name in ("blocks", "metrics"))
    of_block = blocks[blocks.index('id="course_lib.blocks.block.Block"') :]
    assert "<strong>d_model</strong>" in of_block[: of_block.index('id="course_lib.blocks.block.DecoderBlock"')]
    assert "LinearProbe" in metrics
    assert not any(each in text for text in (blocks, metrics) for each in ("Create new instance", "Initialize internal Module"))


def test_the_reference_leaves_out_modules_that_export_nothing():
    assert "course_lib.primitives.precision" not in api_pages(project_root(), ["primitives"])["api/primitives.md"]


def test_the_page_of_a_lecture_shows_tasks_and_folds_hints_and_answers(site):
    page = (site / "lectures/04_self_attention.html").read_text(encoding="utf-8")
    visible = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert len(re.findall(r"Exercise 04\.\d", visible)) == len(re.findall(r"Answer to 04\.[1-68]", page)) // 2 == 7
    assert visible.count("NotImplementedError") == 8  # with the build task
    assert page.index("Hint 1") < page.index("Answer to 04.1")
    assert "math.sqrt(d_k)" not in re.sub(r"<[^>]+>", "", visible)
    assert visible.count('class="claim"') == len(claims(nbformat.read(project_root() / CHECKED, as_version=4)))
    assert not (site / "solutions").exists()
    assert all((site / "notebooks" / folder / "04_self_attention.ipynb").is_file() for folder in ("lectures", "solutions"))


def test_a_lecture_opens_with_its_subject_then_its_doors_then_what_it_needs(site):
    page = (site / "lectures/04_self_attention.html").read_text(encoding="utf-8")
    parts = ["every token of a text looks up", "Set up and solve it", "Try it live", "Needs:", "Time:", "Machine:"]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert '<a class="sd-btn sd-btn-outline-primary" href="../microscope.html">Try it live</a>' in page


@pytest.mark.parametrize("page", PAGES)
def test_the_head_of_a_page_describes_it_once_and_every_icon_is_drawn(site, page):
    text = (site / page).read_text(encoding="utf-8")
    assert text.count('name="viewport"') == text.count('rel="icon"') == 1
    said, shared = re.findall(r'(?:name|property)="(?:og:)?description" content="([^"]{40,})"', text)
    assert said == shared
    assert '<meta property="og:image" content="https://github.com/owner/course/raw/HEAD/docs/pictures/check.png"' in text
    drawn = set(re.findall(r"\.(fa-[a-z-]+)", (site / "_static/icons.css").read_text(encoding="utf-8")))
    icons = set(re.findall(r"\bfa-[a-z-]+", " ".join(re.findall(r'<(?:i|span) class="([^"]*)"', text))))
    assert icons - drawn <= {"fa-lg", "fa-fw"}


def test_the_landing_page_says_what_a_lecture_is_about_how_long_it_takes_and_what_it_builds_on(site):
    landing = (site / "index.html").read_text(encoding="utf-8")
    card = re.search(r'<ul class="map">(.*?)</ul>', landing, re.DOTALL)[1]
    assert card.count("<li>") == 1  # the site has one lecture
    assert 'href="lectures/04_self_attention.html"' in card
    assert "every token of a text looks up what it needs" in card
    assert re.search(r"<small>\d\d min, \d\d further · after 01, 02</small>", card)
    figure = site / re.search(r'<img src="([^"]+)"', card)[1]
    solved = nbformat.read(project_root() / CHECKED, as_version=4)
    cover = next(cell for cell in solved.cells if "cover" in tags(cell))
    drawn = [output.data["image/png"] for output in cover.outputs if "image/png" in output.get("data", {})]
    assert figure.read_bytes() == base64.b64decode(drawn[0])


def test_every_image_has_a_text(site):
    images = re.findall(r"<img\b[^>]*>", (site / "lectures/04_self_attention.html").read_text(encoding="utf-8"))
    assert len(images) > 5
    assert [image for image in images if not re.search(r'alt="[^"]{10,}"', image)] == []


@pytest.fixture(scope="module", params=PAGES)
def visit(site, browser, request):
    with Visit(browser, site / request.param, PHONE) as opened:
        yield opened


@pytest.mark.browser
def test_a_page_fits_its_screen_and_requests_nothing_from_elsewhere(visit):
    for width in (DESK, TABLET, PHONE):
        visit.page.set_viewport_size({"width": width, "height": 844})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.left == []
    assert visit.errors == []


@pytest.mark.browser
def test_a_page_weighs_less_than_2700_kilobytes_without_its_figures(visit):
    files = {Path(unquote(urlsplit(url).path)) for url in visit.requests if url.startswith("file:")}
    files = {path for path in files if path.name != "microscope.html"}  # a frame that loads when it comes near
    assert sum(path.stat().st_size for path in files if path.suffix in {".html", ".css", ".js", ".woff2"}) < 2.7e6


@pytest.mark.browser
@pytest.mark.parametrize("visit", ["lectures/04_self_attention.html"], indirect=True)
def test_a_lecture_shows_the_microscope_of_the_site(visit):
    visit.page.locator("iframe").scroll_into_view_if_needed()
    inside = visit.page.frame_locator("iframe")
    assert inside.locator("#answer .good").inner_text() == "5 of 5 letters right"
    assert inside.locator(".back a").get_attribute("href") == "lectures/04_self_attention.html"
    for theme in ("dark", "light"):
        visit.page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        inside.locator(f'html[data-theme="{theme}"]').wait_for(state="attached")


@pytest.mark.browser
def test_every_formula_is_typeset_and_a_wide_one_can_be_scrolled_by_keyboard(visit):
    formulas, typeset, wrong = visit.page.evaluate(
        "[document.querySelectorAll('.math').length, document.querySelectorAll('mjx-container').length,"
        " document.querySelectorAll('[data-mjx-error], mjx-merror').length]"
    )
    assert typeset >= formulas
    assert wrong == 0
    left_over = visit.page.evaluate(
        "[...document.querySelectorAll('.bd-article .text_html:not(:has(.course-frames)), .bd-article .math')]"
        ".filter(node => /\\$[^$\\n]+\\$|\\\\[a-z]+\\{/.test(node.textContent)).map(node => node.textContent.slice(0, 80))"
    )
    assert left_over == []
    wide = visit.page.evaluate(
        "[...document.querySelectorAll('div.math')].filter(node => node.scrollWidth > node.clientWidth + 1)"
        ".map(node => [node.tabIndex, node.className.includes('wide')])"
    )
    assert all(entry == [0, True] for entry in wide)
    cut = visit.page.evaluate(
        "[...document.querySelectorAll('div.math mjx-container')].filter(node => node.scrollWidth > node.clientWidth + 1"
        " || node.getBoundingClientRect().left < node.parentElement.getBoundingClientRect().left - 1).length"
    )
    assert cut == 0


RAW_SYMBOLS = """
(() => { const walker = document.createTreeWalker(document.querySelector(".bd-article"), NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) if (/\\b[dTW]_[a-zA-Z]\\b/.test(walker.currentNode.data)
    && !walker.currentNode.parentElement.closest("code, pre, script, mjx-container")) found.push(walker.currentNode.data);
  return found; })()
"""


@pytest.mark.browser
@pytest.mark.parametrize("visit", ["lectures/04_self_attention.html"], indirect=True)
def test_subscripts_are_set_in_headings_tables_and_prose(visit):
    assert visit.page.locator("h2", has_text="4 Why divide by").locator("sub").inner_text() == "k"
    assert visit.page.locator(".bd-article td sub").count() > 2
    assert visit.page.evaluate(RAW_SYMBOLS) == []


@pytest.mark.browser
@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", DESK),
        ("dark", PHONE),
        pytest.param("light", PHONE, marks=pytest.mark.full),
        pytest.param("dark", TABLET, marks=pytest.mark.full),
    ],
)
def test_axe_finds_nothing_wrong_in_what_is_ours(visit, theme, width):
    visit.page.set_viewport_size({"width": width, "height": 844})
    visit.page.add_style_tag(content="* { transition: none !important; }")  # a button fades from one theme to the other
    visit.page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    if not visit.page.evaluate("typeof axe === 'object'"):
        visit.page.add_script_tag(content=axe())
    settings = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}"
    context = "{include: [['article.bd-article']], exclude: excluded}"
    result = visit.page.evaluate(f"excluded => axe.run({context}, {settings})", NOT_OURS)
    wrong = {each["id"]: [node["html"][:150] for node in each["nodes"]][:3] for each in result["violations"]}
    assert wrong == {}
    assert len(result["passes"]) > 2


@pytest.mark.browser
def test_a_prediction_is_remembered_and_explains_every_option(site, browser):
    with Visit(browser, site / "lectures/04_self_attention.html", DESK) as visit:
        options = visit.page.locator("details.option")
        assert options.count() > 30
        options.nth(1).locator("summary").click()
        for _ in range(2):
            marks = options.evaluate_all(
                "nodes => nodes.slice(0, 4).map(node => [node.open, node.firstElementChild.dataset.mark])"
            )
            assert [opened for opened, _ in marks] == [True, True, True, False]
            assert sorted(mark[0] for _, mark in marks[:3]) == ["✓", "✗", "✗"]
            assert [mark.endswith("your choice") for _, mark in marks[:3]] == [False, True, False]
            visit.page.reload()


@pytest.mark.browser
def test_an_interactive_figure_moves_under_its_sliders(site, browser):
    with Visit(browser, site / "lectures/04_self_attention.html", PHONE) as visit:
        slider = visit.page.get_by_role("slider", name="x", exact=True)
        moved = visit.page.locator(".course-frames [role=img]").first
        said = []
        for key in ("Home", "End"):
            slider.press(key)
            said.append(moved.get_attribute("aria-label"))
        assert said[0].startswith("The query (-3,")
        assert said[1].startswith("The query (3,")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert visit.errors == []


@pytest.mark.browser
def test_a_word_of_the_glossary_is_explained_by_keyboard_where_a_section_first_uses_it(site, browser):
    with Visit(browser, site / "lectures/04_self_attention.html", DESK) as visit:
        words = visit.page.locator("#masks a.term").all_inner_texts()
        assert len({word.lower() for word in words}) == len(words) > 2
        word = visit.page.locator("#self-attention a.term", has_text="softmax").first
        tip = visit.page.get_by_role("tooltip")
        assert not tip.is_visible()
        word.focus()
        assert "divided by their sum" in tip.inner_text()
        assert word.get_attribute("aria-describedby") == tip.get_attribute("id")
        visit.page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert visit.page.locator("a a.term, h1 a.term, h2 a.term, pre a.term").count() == 0


@pytest.mark.browser
def test_on_paper_everything_is_unfolded_and_code_wraps(site, browser):
    with Visit(browser, site / "lectures/04_self_attention.html", DESK) as visit:
        folded = visit.page.locator("article details:not([open])")
        before = folded.count()
        visit.page.emulate_media(media="print")
        visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert folded.count() == 0
        cut = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"
        assert visit.page.eval_on_selector_all("article pre", cut) == []
        visit.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert folded.count() == before > 20


@pytest.mark.browser
@pytest.mark.parametrize(("width", "folds"), [(PHONE, 1), (DESK, 0)])
def test_long_code_is_folded_on_a_phone_and_no_code_leaves_its_box(site, browser, width, folds):
    with Visit(browser, site / "lectures/04_self_attention.html", width) as visit:
        folded = visit.page.locator("summary", has_text=re.compile(r"^Code, \d\d lines$"))
        assert folded.count() == folds
        if folds:
            folded.click()
        outside = "nodes => nodes.filter(node => node.getBoundingClientRect().right > innerWidth).length"
        assert visit.page.eval_on_selector_all(".bd-article pre", outside) == 0


@pytest.mark.browser
def test_the_book_has_every_answer_unfolded_and_no_code_cut_off(site, browser, tmp_path):
    page = site / "lectures" / "book.html"
    page.write_text(book_page(site, lectures(project_root(), ["04"])), encoding="utf-8")
    with Visit(browser, page, 700) as visit:
        visit.page.emulate_media(media="print")
        assert visit.page.locator("h1:visible").all_inner_texts()[1].startswith("04 · Self-attention")
        assert visit.page.locator("details[open]").count() > 20
        assert visit.page.locator("details:not([open])").count() == 0
        cut = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"
        assert visit.page.eval_on_selector_all("pre", cut) == []
        links = visit.page.eval_on_selector_all("a[href]", "nodes => nodes.map(node => node.getAttribute('href'))")
        assert [to for to in links if not to.startswith(("http", "#"))] == []
        assert visit.page.locator("[id='04-2-one-look-up-by-hand']").count() == 1
    assert print_pdf(page, tmp_path / "book.pdf")
    assert (tmp_path / "book.pdf").read_bytes().count(b"/Type /Page\n") > 20
    page.unlink()


def test_a_book_without_a_browser_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CHROMIUM", "no-such-browser")
    with pytest.raises(PublishingFailed, match="the book needs Chromium or Chrome"):
        write_book(project_root(), tmp_path / "course.pdf")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("page", "items", "word", "kept"),
    [
        ("claims", "tbody tr", "softmax", "softmax"),
        ("glossary", "section > section", "BLEU", "BLEU"),
        ("evidence", "ol > li", "bert", "BERT"),
    ],
)
def test_evidence_and_glossary_show_only_what_has_the_words(site, browser, page, items, word, kept):
    with Visit(browser, site / f"docs/{page}.html", PHONE) as visit:
        shown = visit.page.locator(f"article :is({items}):visible")
        before = shown.count()
        visit.page.get_by_label("Show only what has these words").fill(word)
        assert 0 < shown.count() < before / 2
        assert kept in shown.first.inner_text()
        assert f" of {before}" in visit.page.locator(".filter-count").inner_text()
        visit.page.get_by_label("Show only what has these words").fill("")
        assert shown.count() == before
        assert visit.errors == []


SEARCHED = {
    "padding mask": "Exercise 04.3",
    "why sqrt dk": "4 Why divide by",
    "multi head attention": "6 Several heads",
    "look-ahead mask": "5 Masks",
}
"""What a student types, and the heading that the first result leads to: of an exercise of that name, or from the glossary."""


@pytest.mark.browser
@pytest.mark.parametrize("query", SEARCHED)
def test_the_search_leads_to_the_section_first(site, browser, query):
    with Visit(browser, (site / "search.html").as_uri() + f"?q={query}", DESK, ready="") as visit:
        visit.page.wait_for_selector("#search-results li a", state="attached", timeout=300_000)
        found = visit.page.eval_on_selector_all("#search-results li a", "nodes => nodes.map(node => node.getAttribute('href'))")
        page, _, place = found[0].partition("#")
        text = re.sub(r"<[^>]+>", "", (site / page).read_text(encoding="utf-8").partition(f'id="{place}"')[2][:3000])
        assert SEARCHED[query] in text[:300]
        best = visit.page.eval_on_selector_all(".best-sections a", "nodes => nodes.map(node => node.getAttribute('href'))")
        assert 1 <= len(best) <= 3
        assert all(f'id="{place}"' in (site / page).read_text(encoding="utf-8") for page, place in (a.split("#") for a in best))
        assert sum(address.startswith("lectures/") and "#" not in address for address in found) <= 1
        assert visit.left == []
        assert visit.errors == []


@pytest.mark.parametrize("address", ["host/name/course", "http://host/name/course", "https://host", "https://host/a b/c"])
def test_what_is_no_address_of_a_repository_is_refused(address, tmp_path):
    pytest.importorskip("myst_nb", reason="needs the extra [site]")
    with pytest.raises(PublishingFailed, match="must look like https://"):
        build_site(project_root(), tmp_path / "out", ["04"], repository=address)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_not_replaced(tmp_path):
    pytest.importorskip("myst_nb", reason="needs the extra [site]")
    (tmp_path / "thesis.txt").write_text("three years", encoding="utf-8")
    with pytest.raises(PublishingFailed, match="is not an earlier site"):
        build_site(project_root(), tmp_path, ["04"])
    assert (tmp_path / "thesis.txt").exists()


def test_an_anchor_of_a_notebook_becomes_that_of_its_page():
    pages = {"docs/companion.md", "lectures/04_a.ipynb"}
    for folder in ("lectures", "solutions"):
        written = f"[4.p](../{folder}/04_a.ipynb#3-Why-divide-by-%E2%88%9Ad_k,-and-when%3F)"
        assert relinked(written, "docs/companion.md", pages) == "[4.p](../lectures/04_a.ipynb#3-why-divide-by-d_k-and-when)"


def test_links_to_sources_lead_to_the_reference():
    pages = {"api/attention.md", "docs/papers.md", "lectures/04_self_attention.ipynb"}
    text = (
        "[core](../course_lib/attention/core.py), [04](../lectures/04_self_attention.ipynb#x), [tests](../tests/test_docs.py)"
    )
    mended = "[core](../api/attention.md#core), [04](../lectures/04_self_attention.ipynb#x), tests"
    assert relinked(text, "docs/papers.md", pages) == mended
    assert relinked("[papers.md](papers.md)", "docs/data.md", pages) == "[](papers.md)"  # shown as the title of the page
    assert relinked("[a](https://a.org) [b](#b)", "docs/papers.md", pages) == "[a](https://a.org) [b](#b)"
    assert api_address("course_lib/training.py") == "api/training.md"
    assert api_address("tests/test_docs.py") is None


def test_without_the_extra_a_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("course_tools.publishing.web_assets.find_spec", lambda name: None)
    with pytest.raises(PublishingFailed, match=r"myst_nb.*pip install -e \"\.\[site\]\"") as raised:
        require_site_extra()
    assert "\n" not in str(raised.value)
