"""Slides of a lecture: what becomes a slide, and that in a browser everything fits into 1280 × 720 and is legible."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_tools.notebook import prediction_options
from course_tools.publishing import PublishingFailed
from course_tools.publishing.project import lectures, project_root
from course_tools.publishing.slides.deck_page import write_pdf, write_slides
from course_tools.publishing.slides.slide_deck import MOST_LINES, slides
from course_tools.publishing.web_assets import require_site_extra
from tests.course_tools.browser import CHROMIUM, Visit, chromium

FIGURE = new_output(
    "display_data",
    {"image/png": "aGVsbG8=", "text/plain": "a rising curve"},
    metadata={"image/png": {"alt": "a rising curve", "width": 300}},
)
CLAIM = {"id": "04.a", "text": "Accuracy 0.97.", "values": {"share": 0.97}, "holds": ["share >= 0.9"], "held": True}


def claimed(**changes):
    return new_output("display_data", {"text/plain": "✓"}, metadata={"course_claim": CLAIM | changes})


def asked(monkeypatch):
    option = prediction_options.Option
    three = (option("A", "None", "No."), option("B", "A few", "Yes, these."), option("C", "Most", "No."))
    made = prediction_options.Prediction("04.p1", three, "B")
    monkeypatch.setattr(prediction_options, "predictions", lambda: {"04.p1": made})
    question = "**Predict.** How many?\n\n- **A.** None\n- **B.** A few\n- **C.** Most"
    tagged = {"metadata": {"tags": ["predict"]}}
    return [new_markdown_cell(question, **tagged), new_code_cell('predict("04.p1")', **tagged)]


def kinds(cells):
    return [slide.kind for slide in slides(new_notebook(cells=cells))]


def test_a_heading_shows_its_first_sentence_and_equation_with_what_leads_to_it_and_the_rest_goes_to_the_notes():
    text = (
        "## 2 Keys\n\nA score compares $q$ with a key. It is scaled.\n\nBy the dot product:\n\n$$s = q k^\\top$$\n\nMore prose."
    )
    (slide,) = slides(new_notebook(cells=[new_markdown_cell(text)]))
    assert (slide.kind, slide.title) == ("section", "2 Keys")
    assert "A score compares \\(q\\) with a key." in slide.body
    assert "\\[s = q k^\\top\\]" in slide.body
    assert slide.body.index("a key.") < slide.body.index("By the dot product:") < slide.body.index("\\[s")
    assert "It is scaled" not in slide.body
    assert "More prose" in slide.notes


def test_a_table_or_list_above_an_equation_is_shown_first_and_the_equation_on_a_slide_of_its_own():
    text = "## 3 Queries\n\nWhere do they come from?\n\n- its query: $xW_Q$;\n- its key: $xW_K$.\n\nTogether:\n\n$$QK^\\top$$"
    first, second = slides(new_notebook(cells=[new_markdown_cell(text)]))
    assert first.title == second.title == "3 Queries"
    assert first.body.count("<li>") == 2
    assert "Where do they come from?" in first.body
    assert "QK" not in first.body
    assert second.body.index("Together:") < second.body.index("QK")


def test_of_a_long_list_each_item_shows_its_first_sentence_without_addresses():
    item = "- **Faster.** Zhu et al. (2021, https://arxiv.org/abs/2010.04159) look at a few places. " + 20 * "There is more. "
    (slide,) = slides(new_notebook(cells=[new_markdown_cell("## 9 What came of it\n\n" + "\n".join([item] * 3))]))
    assert slide.body.count("Zhu et al. (2021) look at a few places.</li>") == 3


def test_the_next_slide_takes_a_heading_without_words(monkeypatch):
    vote, *_ = slides(new_notebook(cells=[new_markdown_cell("## 5 Which one?"), *asked(monkeypatch)]))
    assert (vote.kind, vote.title) == ("vote", "5 Which one?")


def test_of_a_link_to_a_file_of_the_course_the_words_stay_and_an_address_stays_a_link():
    text = "## 2 Keys\n\nOne. Numbers are in [docs/a.md](../docs/a.md), the paper is [here](https://arxiv.org/abs/1)."
    (slide,) = slides(new_notebook(cells=[new_markdown_cell(text)]))
    assert "Numbers are in docs/a.md, the paper is" in slide.notes
    assert re.findall('href="([^"]+)"', slide.notes) == ["https://arxiv.org/abs/1"]


def test_a_prediction_is_a_slide_to_vote_on_followed_by_the_right_option_beside_the_figure(monkeypatch):
    cells = [
        *asked(monkeypatch),
        new_code_cell("draw()", outputs=[claimed(), FIGURE]),
    ]
    vote, answer = slides(new_notebook(cells=cells))
    assert [vote.kind, answer.kind] == ["vote", "answer"]
    assert answer.body.index("a rising curve") < answer.body.index('class="claim"')
    assert vote.body.count("<li>") == 3
    assert "A few" not in vote.body.partition('<ul class="options">')[0]
    assert ">B</b> A few" in answer.body
    assert "a rising curve" in answer.body
    assert "Yes, these." in answer.notes
    assert "Yes" not in vote.body + vote.notes


def test_without_a_figure_the_claim_stands_beside_the_answer(monkeypatch):
    cells = [*asked(monkeypatch), new_code_cell("claim()", outputs=[claimed()]), new_markdown_cell("## 3 Next\n\nA new thing.")]
    vote, answer, section = slides(new_notebook(cells=cells))
    assert "0.97" in answer.body
    assert "0.97" not in vote.body + section.body


def test_an_answer_takes_no_figure_from_below_other_prose_or_of_an_explorer_but_its_explanation(monkeypatch):
    drawn = new_code_cell("draw()", outputs=[FIGURE])
    explored = new_code_cell("explore()", outputs=[FIGURE], metadata={"tags": ["interactive"]})
    for cells in ([new_markdown_cell("Something else."), drawn], [explored]):
        _, answer, *_, figure = slides(new_notebook(cells=[*asked(monkeypatch), *cells]))
        assert (answer.kind, figure.kind) == ("answer", "figure")
        assert "Yes, these." in answer.body
        assert "<figure>" not in answer.body


def test_beside_an_answer_stands_the_claim_that_repeats_its_number(monkeypatch):
    cells = asked(monkeypatch)
    right = prediction_options.Prediction("04.p1", (prediction_options.Option("A", "64: one each", "Yes."),), "A")
    monkeypatch.setattr(prediction_options, "predictions", lambda: {"04.p1": right})
    other, same = claimed(text="Work grows with 2.00."), claimed(id="04.b", text="It takes 64 layers.")
    _, answer, figure = slides(new_notebook(cells=[*cells, new_code_cell("draw()", outputs=[FIGURE, other, same])]))
    assert "It takes 64 layers" in answer.body
    assert "Work grows" in figure.body


def test_an_explorer_does_not_repeat_the_figure_above_it():
    explored = new_code_cell("explore()", outputs=[FIGURE], metadata={"tags": ["interactive"]})
    assert kinds([new_code_cell("draw()", outputs=[FIGURE]), new_markdown_cell("**Explore.**"), explored]) == [
        "figure",
        "notes",
    ]


def test_a_figure_below_the_next_heading_does_not_belong_to_the_answer(monkeypatch):
    figure = new_code_cell("draw()", outputs=[FIGURE])
    assert kinds([*asked(monkeypatch), new_markdown_cell("## 3 Next\n\nA new thing."), figure]) == [
        "vote",
        "answer",
        "section",
        "figure",
    ]


def test_a_diagram_is_a_slide_with_its_name_as_title():
    diagram = '<img alt="Causal mask: Rows are queries." width="480" src="data:image/svg+xml;base64,aGVsbG8=">'
    section, drawn = slides(new_notebook(cells=[new_markdown_cell(f"## 4 Masks\n\nA mask hides keys.\n\n{diagram}\n\nMore.")]))
    assert [section.kind, drawn.kind, drawn.title] == ["section", "diagram", "Causal mask"]
    assert diagram in drawn.body
    assert "<img" not in section.body + section.notes


def test_where_decks_treat_it_is_no_slide():
    assert kinds([new_markdown_cell("## Papers and decks\n\n| Deck | Here |", metadata={"tags": ["companion"]})]) == []


def test_a_frame_is_no_slide():
    frame = new_output("display_data", {"text/html": '<iframe title="microscope" srcdoc=""><figure></figure></iframe>'})
    assert kinds([new_code_cell("microscope()", outputs=[frame])]) == []


def test_two_claims_share_a_slide_each_with_its_value_and_threshold():
    cell = new_code_cell("", outputs=[claimed(), claimed(id="04.b", held=False), claimed(id="04.c")])
    first, second = slides(new_notebook(cells=[cell]))
    assert (first.title, second.title) == ("Claim 04.a, 04.b", "Claim 04.c")
    assert "0.97" in first.body
    assert "✓ at least 0.9" in first.body
    assert "✗" in first.body


def test_a_claim_stands_below_the_figure_before_it():
    cells = [new_code_cell("draw()", outputs=[FIGURE]), new_markdown_cell("So."), new_code_cell("", outputs=[claimed()])]
    figure, notes = slides(new_notebook(cells=cells))
    assert (figure.kind, notes.kind) == ("figure", "notes")
    assert figure.body.index("a rising curve") < figure.body.index("0.97")


def test_the_facts_of_an_exercise_are_whole_though_its_head_has_two_lines():
    code = '# Exercise 04.6 · Pixels · ●●○ · about 10 minutes · 9\n# extra points\ndef f(x):\n    """Attend."""\n    return x'
    (slide,) = slides(new_notebook(cells=[new_code_cell(code, metadata={"exercise": "04.6"})]))
    assert "about 10 minutes · 9 extra points</p>" in slide.body


def test_a_long_signature_gets_a_line_for_each_argument():
    code = "# Exercise 04.5 · Heads · ●●●\n"
    code += "def multi(x: Float[Tensor, '*batch T d'], W_q: Weight, mask: Mask | None = None) -> Attended:\n"
    cell = new_code_cell(f'{code}    """Mix heads."""\n    return x\n', metadata={"exercise": "04.5"})
    (slide,) = slides(new_notebook(cells=[cell]))
    assert slide.title == "Exercise 04.5 · Heads"
    assert "    W_q: Weight,\n" in slide.body
    assert "return x" not in slide.body + slide.notes


@pytest.mark.parametrize("lecture", lectures(project_root()), ids=lambda lecture: lecture.number)
def test_no_slide_of_a_lecture_has_more_than_twelve_lines_of_code(lecture):
    deck = slides(nbformat.read(lecture.solution, as_version=4))
    longest = max(
        len(code.splitlines()) for slide in deck for code in re.findall(r"<pre><code>(.*?)</code>", slide.body, re.DOTALL)
    )
    assert 1 < longest <= MOST_LINES
    questions = sum('class="options"' in slide.body for slide in deck)
    assert questions == sum(slide.kind == "vote" for slide in deck)
    assert questions > 3


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    try:
        require_site_extra()
    except PublishingFailed as error:
        pytest.skip(str(error))
    (lecture,) = lectures(project_root(), ["04"])
    return write_slides(lecture, tmp_path_factory.mktemp("slides"))


OUTSIDE = """
[...document.querySelectorAll('.slides > section')].map((section, i) => {
  document.querySelectorAll('.slides > section').forEach(other => other.style.setProperty('display', 'none', 'important'));
  section.style.setProperty('display', 'flex', 'important');
  section.removeAttribute('hidden');
  const frame = section.getBoundingClientRect(), reach = frame.width / 1280;
  const parts = [...section.querySelectorAll('h1, h2, p, li, pre, td, th, img, figcaption, mjx-math, .measured')];
  const beyond = parts.filter(part => !part.closest('aside')).filter(part => {
    const box = part.getBoundingClientRect();
    const right = frame.right - 8 * reach, bottom = frame.bottom - 8 * reach;
    return box.width > 0 && (box.right > right || box.bottom > bottom || box.left < frame.left);
  });
  return [i, section.dataset.fit, beyond.slice(0, 2).map(part => part.tagName + ': ' + part.textContent.slice(0, 60))];
}).filter(([i, fit, beyond]) => beyond.length || fit < 0.5)
"""


LEGENDS = """
[...document.querySelectorAll('.slides > section:is(.figure, .answer):has(figure)')].map(section => {
  document.querySelectorAll('.slides > section').forEach(other => other.style.setProperty('display', 'none', 'important'));
  section.style.setProperty('display', 'flex', 'important');
  section.removeAttribute('hidden');
  const image = section.querySelector('img'), box = image.getBoundingClientRect(), slide = section.getBoundingClientRect();
  const inch = Math.min(box.width / image.naturalWidth, box.height / image.naturalHeight) * 200;
  return 8 / 72 * inch / slide.height;
})
"""
"""The height of 8 points in each figure, drawn at 200 dpi, as a share of the slide's."""

COVERED = """
[...document.querySelectorAll('.slides > section:has(img):has(.claim)')].map((section, i) => {
  document.querySelectorAll('.slides > section').forEach(other => other.style.setProperty('display', 'none', 'important'));
  section.style.setProperty('display', 'flex', 'important');
  section.removeAttribute('hidden');
  const bottom = section.querySelector('img').getBoundingClientRect().bottom;
  return [section.querySelector('.claim').textContent, bottom <= section.querySelector('.claim').getBoundingClientRect().top];
}).filter(([claim, apart]) => !apart)
"""


@pytest.mark.browser
def test_nothing_leaves_a_slide_or_is_too_small_and_every_formula_is_typeset(deck):
    with chromium() as browser, Visit(browser, deck, 1280, 720) as visit:
        assert visit.left == []
        assert visit.errors == []
        assert visit.page.evaluate("document.querySelectorAll('.slides > section').length") > 40
        assert visit.page.evaluate("document.querySelectorAll('section.diagram img').length") == 3
        assert visit.page.evaluate("document.querySelectorAll('mjx-container').length") > 10
        assert visit.page.evaluate("document.querySelectorAll('[data-mjx-error], mjx-merror').length") == 0
        shown = visit.page.evaluate("[...document.querySelectorAll('.slides .body')].map(body => body.textContent).join(' ')")
        assert not re.search(r"\\\(|\\\[|\$\\?[a-z]", shown)
        assert visit.page.evaluate("[...document.images].filter(image => !image.naturalWidth || !image.alt).length") == 0
        assert visit.page.evaluate(OUTSIDE) == []
        assert visit.page.evaluate(COVERED) == []
        legends = visit.page.evaluate(LEGENDS)
        assert len(legends) > 15
        assert min(legends) > 1 / 60


BROKEN = """
[...document.querySelectorAll('.body pre')].filter(code => code.getClientRects().length &&
  code.clientHeight > (code.textContent.trim().split('\\n').length + 2) * parseFloat(getComputedStyle(code).lineHeight))
  .map(code => code.textContent)
"""
"""Code with more lines on the screen than it has."""

SMALL = """
[...document.querySelectorAll('.body :is(p, li, td, pre, figcaption)')].filter(part => part.textContent.trim() &&
  !part.closest('aside') && parseFloat(getComputedStyle(part).fontSize) < 16).map(part => part.textContent.slice(0, 60))
"""


@pytest.mark.browser
def test_on_a_phone_the_slide_of_the_address_is_shown_in_letters_to_read(deck):
    with chromium() as browser, Visit(browser, deck.as_uri() + "#/16", 390) as visit:
        shown = visit.page.locator(".slides > section").nth(16)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert abs(shown.bounding_box()["y"]) < 2
        assert shown.get_attribute("data-page").startswith("17 / ")
        assert visit.page.evaluate(SMALL) == []
        answers = visit.page.locator("section.answer")
        assert answers.count() > 5
        assert not answers.first.locator(".letter").is_visible()
        answers.first.get_by_text("Show the answer").click()
        assert answers.first.locator(".letter").is_visible()
        assert visit.page.evaluate(BROKEN) == []
        visit.page.evaluate("document.querySelectorAll('.slides > section')[22].scrollIntoView()")
        visit.page.wait_for_function("location.hash === '#/22'")


NAMES = """
[...document.querySelectorAll('section.diagram img')].map(image => {
  const slide = image.closest('section');
  slide.style.setProperty('display', 'flex', 'important');
  slide.removeAttribute('hidden');
  return 15 * Math.min(image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight) / slide.clientHeight;
})
"""
"""The height of the names, 15 units, as a share of the slide's."""


@pytest.mark.browser
def test_the_names_in_a_diagram_are_as_high_as_a_37th_of_the_slide(deck):
    with chromium() as browser, Visit(browser, deck, 1280, 720) as visit:
        drawn = visit.page.evaluate(NAMES)
        assert len(drawn) == 3
        assert min(drawn) > 1 / 37


@pytest.mark.browser
def test_the_pdf_has_a_sheet_for_each_slide(deck):
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    n_slides = deck.read_text(encoding="utf-8").count("<section ")
    content = write_pdf(deck).read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", content)) == n_slides


def test_a_pdf_without_a_browser_is_refused_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(PublishingFailed, match="needs Chromium or Chrome"):
        write_pdf(tmp_path / "04.html")


def test_an_exercise_shows_a_whole_sentence_even_if_it_has_two_lines():
    code = (
        'def mix(x):\n    """Mix all heads\n    of one layer. Then stop.\n\n    Args:\n        x: heads.\n    """\n    return x'
    )
    (slide,) = slides(
        new_notebook(cells=[new_code_cell(f"# Exercise 04.5 · Mix · 9 points\n{code}", metadata={"exercise": "04.5"})])
    )
    assert "<p>Mix all heads of one layer.</p>" in slide.body
