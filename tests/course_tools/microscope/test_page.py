"""The attention microscope in a real browser: the same numbers as torch, no request, usable by keyboard, legible on a phone."""

import json
import re
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from course_lib.analysis import record
from course_lib.attention import Attended, MultiHead, attend, causal_attention, scaled_dot_product_attention
from course_tools.microscope import page
from course_tools.microscope.models import MAKE, PADDING, PARTS, T_WORD, trained_model
from course_tools.publishing.browser import ARGUMENTS, chromium

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::ResourceWarning")]
VIEWS = ("reverse", "continue", "digit")
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def browser():
    """Return a running Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e .[site]")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium or Chrome is installed")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield running
        running.close()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Return the page, opened from a file, with the errors and the requests that it made."""
    file = tmp_path_factory.mktemp("microscope") / "microscope.html"
    file.write_text(page(file="microscope.html"), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.noticed = []
    tab.on("pageerror", lambda error: tab.noticed.append(str(error)))
    tab.on("request", lambda request: tab.noticed.append(request.url) if request.url != file.as_uri() else None)
    tab.address = file.as_uri()
    tab.goto(tab.address)
    yield tab
    tab.close()


@pytest.fixture
def fresh(opened):
    """Return the page in its first view, just after it was opened."""
    opened.set_viewport_size({"width": 1280, "height": 900})
    opened.goto("about:blank")
    opened.goto(opened.address)
    return opened


class Switches:
    """The switches, by their names in the page and their effect in torch; `missing` is what the model was trained without."""

    def __init__(self, name: str, view: str, js: str, missing: str | None = None, **how: object) -> None:
        self.name, self.view, self.js, self.missing, self.how = name, view, js, missing, how


CASES = [
    Switches(f"{view}, {name}", view, js, **how)
    for view in VIEWS
    for name, js, how in (
        ("as trained", "{}", {}),
        ("no scale", "{scale: false}", {"scale": False}),
        ("no mask", "{mask: false}", {"mask": False}),
        ("no positions", "{positions: false}", {"positions": False}),
        ("temperature 2.5", "{temperature: 2.5}", {"temperature": 2.5}),
        ("no head 1.1", '{off: new Set(["0.0"])}', {"off": {(0, 0)}}),
        *((f"trained without {part}", f"{{{part}: false}}", {"missing": part, part: False}) for part in PARTS[view]),
    )
]


def inputs(view: str) -> Tensor:
    """A word of four letters, a text of twenty, or an image."""
    generator = torch.Generator().manual_seed(3)
    if view == "digit":
        return torch.randint(17, (64,), generator=generator) / 16
    tokens = torch.randint(26, (4 if view == "reverse" else 20,), generator=generator)
    return torch.cat([tokens, torch.full((T_WORD - 4,), PADDING)]) if view == "reverse" else tokens


def switched(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool, layer: int, how: dict) -> Attended:
    """Attention with parts switched off, an independent form of the equation."""
    scores = q @ k.mT / (q.shape[-1] ** 0.5 if how.get("scale", True) else 1.0) / how.get("temperature", 1.0)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    context, weights = attend(scores, v, mask if how.get("mask", True) else None)
    for of_layer, head in how.get("off", ()):
        if of_layer == layer:
            context[:, head] = 0
    return Attended(context, weights)


def with_torch(view: str, x: Tensor, how: dict, missing: str | None = None) -> tuple[Tensor, list[Tensor]]:
    """Logits (T, n) and the weights (h, T, T) of each layer, from the model of course_lib."""
    model = MAKE[view]()
    model.load_state_dict(trained_model(view, missing).state_dict())
    model.eval()
    for layer, part in enumerate(part for part in model.modules() if isinstance(part, MultiHead)):
        expected = causal_attention if view == "continue" else scaled_dot_product_attention
        assert part.mechanism is expected
        if how:
            part.mechanism = partial(switched, causal=view == "continue", layer=layer, how=how)
    if not how.get("positions", True):
        table = model.encoder.positions if view == "digit" else model.positions.vectors
        nn.init.zeros_(table)
    with record(model) as seen, torch.no_grad():
        if view == "reverse":
            logits = model(x[None], (x != PADDING)[None, None])
        else:
            logits = model(x.reshape(1, 1, 8, 8) if view == "digit" else x[None])
    return logits.reshape(-1, logits.shape[-1]), [attended[0].weights[0] for attended in seen.values()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_page_computes_what_torch_computes(opened, case):
    x = inputs(case.view)
    model = f"{{...models.{case.view}, ...models.{case.view}.without.{case.missing}}}"
    run = f"RUN[{case.view!r}]({model}, {json.dumps(x.tolist())}, {{...asTrained(), ...{case.js}}})"
    numbers = "{logits: run.logits.map(r => [...r]), layers: run.layers.map(l => l.map(h => h.weights.map(r => [...r])))}"
    got = opened.evaluate(f"() => {{ const run = {run}; return {numbers}; }}")
    logits, weights = with_torch(case.view, x, case.how, case.missing)
    torch.testing.assert_close(torch.tensor(got["logits"]), logits, atol=TOLERANCE, rtol=TOLERANCE)
    assert len(got["layers"]) == len(weights)
    for theirs, ours in zip(got["layers"], weights, strict=True):
        torch.testing.assert_close(torch.tensor(theirs), ours, atol=TOLERANCE, rtol=TOLERANCE)


def test_every_switch_changes_the_weights_or_the_logits_of_torch():
    for view in VIEWS:
        logits = with_torch(view, inputs(view), {})[0]
        for case in (case for case in CASES if case.view == view and case.how and not case.missing):
            changed = (with_torch(view, inputs(view), case.how)[0] - logits).abs().max().item()
            assert (changed > 10 * TOLERANCE) == (case.name != "digit, no mask"), case.name


def test_nothing_is_requested_and_nothing_goes_wrong(opened):
    for view in VIEWS:
        opened.click(f"#tab-{view}")
        assert opened.inner_text("#effect").startswith("As trained: ")
    assert opened.noticed == []


def test_the_first_view_shows_that_each_part_matters(fresh):
    """The first ten seconds: right as trained, wrong without scale, mask or positions."""
    for view in VIEWS:
        fresh.click(f"#tab-{view}")
        assert fresh.locator("#answer .good").count()
        assert "nothing changes" not in fresh.inner_text("#switches")


def test_a_typed_word_is_reversed_and_its_sentences_follow_from_the_run(fresh):
    fresh.fill("#text", "Switch")
    assert fresh.inner_text("#answer b") == "hctiws"
    assert "6 of 6 letters right" in fresh.inner_text("#answer")
    assert "nothing changes, because there is no empty place" in fresh.inner_text("#item-mask")
    before = fresh.inner_text("#effect")
    fresh.uncheck("#switch-positions")
    measured = fresh.evaluate("answerOf(compute({...asTrained(), positions: false}))")
    assert measured in fresh.inner_text("#effect") != before
    assert "no positions" in fresh.inner_text("#effect")
    assert int(measured.split()[0]) < 6
    fresh.click("#reset")
    assert fresh.inner_text("#effect") == before


def test_a_model_trained_without_a_part_answers_beside_the_one_that_lost_it(fresh):
    fresh.click("#never-positions")
    assert fresh.inner_text("#effect").split(". ")[1].startswith("Trained without positions: ")
    assert not fresh.is_checked("#switch-positions")
    assert "without positions" in fresh.get_attribute("#curve svg", "aria-label")
    fresh.click("#never-mask")
    assert fresh.is_checked("#switch-positions")
    fresh.click("#reset")
    assert fresh.is_hidden("#curve")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attention", "9 letters are too many: the model has 6 positions."),
        ("naïve", "The model knows the letters a to z only, not “ï”."),
        ("", "Type at least one letter."),
    ],
)
def test_a_text_that_the_model_cannot_read_gets_a_reason(fresh, text, message):
    before = fresh.inner_text("#answer")
    fresh.fill("#text", text)
    assert fresh.inner_text("#problem").startswith(message)
    assert fresh.get_attribute("#text", "aria-invalid") == "true"
    assert fresh.inner_text("#answer") == before
    fresh.fill("#text", "key")
    assert fresh.inner_text("#answer b") == "yek"
    assert not fresh.inner_text("#problem")


def test_the_tour_goes_through_eight_parts_by_keyboard(fresh):
    fresh.focus("#start-tour")
    fresh.keyboard.press("Enter")
    seen = []
    for step in range(1, 9):
        assert fresh.inner_text("#tour-title") == f"Step {step} of 8"
        seen.append(fresh.inner_text("#tour-text"))
        assert fresh.locator(".toured").is_visible()
        assert fresh.evaluate("document.activeElement.id") == "tour-next"
        fresh.keyboard.press("Enter")
    assert len(set(seen)) == 8
    assert fresh.is_hidden("#tour")
    assert fresh.evaluate("document.activeElement.id") == "start-tour"


BOXES = """
(ids) => Object.fromEntries(ids.map((id) => { const box = document.getElementById(id).getBoundingClientRect();
  return [id, [box.left, box.top, box.right, box.bottom]]; }))
"""


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_the_card_of_the_tour_covers_neither_the_switch_nor_the_lines_that_it_speaks_of(fresh, width):
    fresh.set_viewport_size({"width": width, "height": 844})
    fresh.goto(fresh.url.partition("#")[0] + "#tour&step=5")
    fresh.reload()
    card, drawing, part, answer = fresh.evaluate(BOXES, ["tour", "drawing", "item-mask", "answer"]).values()
    for left, top, _, bottom in (drawing, part):
        assert top >= answer[3] - 1
        assert bottom <= card[1] or left >= card[2]
    assert "4 of 5 lines lead to the empty place" in fresh.inner_text("#tour-text")


@pytest.mark.parametrize(
    "steps",
    [
        ["fill #text key", "click #never-mask", "click #show-1\\.1"],
        ["click #tab-continue", "fill #text zebrazeb", "uncheck #head-0\\.0"],
        ["click #tab-digit", "click text='Invert the query pixel'", "uncheck #switch-scale"],
        ["click #start-tour", "click #tour-next"],
    ],
    ids=lambda steps: steps[0],
)
def test_the_address_brings_back_what_is_seen(browser, fresh, steps):
    for step in steps:
        action, target, *value = step.split(" ", 2) if step.startswith("fill") else step.split(" ", 1)
        getattr(fresh, action)(target, *value)
    seen = ("#answer", "#effect", "#reads", "#table", "#tour")
    before = [fresh.inner_text(part) for part in seen]
    other = browser.new_page(viewport={"width": 1280, "height": 900})
    other.goto(fresh.url)
    assert [other.inner_text(part) for part in seen] == before
    other.close()


@pytest.mark.parametrize(
    "hash", ["#no", "#digit&pixels=xyz&show=9.9.9", "#reverse&text=wonderful&show=a&temperature=0", "#tour&step=x"]
)
def test_a_broken_address_still_opens_the_page(fresh, hash):
    fresh.goto(fresh.url.partition("#")[0] + hash)
    fresh.reload()
    assert fresh.inner_text("#effect").startswith("As trained: ")
    fresh.goto(fresh.url.partition("#")[0] + "#reverse")


def test_a_repeated_word_is_continued_by_what_followed_it(fresh):
    fresh.click("#tab-continue")
    fresh.fill("#text", "zebrakiwizeb")
    assert fresh.inner_text("#answer b") == "r"
    fresh.get_by_role("button", name="Write the next letter").click()
    assert fresh.input_value("#text") == "zebrakiwizebr"


def test_an_induction_head_is_named_where_both_of_its_heads_do_their_part(fresh):
    fresh.click("#tab-continue")
    assert "an induction head" in fresh.inner_text("#heads-note")
    assert "the letter before" in fresh.inner_text("#heads")
    fresh.uncheck("#switch-positions")
    assert "an induction head" not in fresh.inner_text("#heads-note")


def test_keys_alone_choose_a_model_a_query_a_head_and_a_switch(fresh):
    fresh.focus("#tab-reverse")
    fresh.keyboard.press("ArrowRight")
    assert fresh.get_attribute("#tab-continue", "aria-selected") == "true"
    fresh.focus("#query")
    before = fresh.inner_text("#reads")
    fresh.keyboard.press("ArrowLeft")
    assert fresh.inner_text("#reads") != before
    fresh.focus("#show-0\\.0")
    fresh.keyboard.press("Enter")
    assert fresh.get_attribute("#show-0\\.0", "aria-pressed") == "true"
    fresh.focus("#switch-mask")
    fresh.keyboard.press("Space")
    assert "no mask" in fresh.inner_text("#effect")


def test_a_digit_can_be_drawn_with_a_pointer(fresh):
    fresh.click("#tab-digit")
    fresh.get_by_role("button", name="erase").click()
    fresh.locator("#drawing svg").scroll_into_view_if_needed()
    box = fresh.locator("#drawing svg").bounding_box()
    ink = "VIEWS.digit.pixels.reduce((a, b) => a + b)"
    before = fresh.evaluate(ink)
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    fresh.mouse.down()
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=9)
    fresh.mouse.up()
    assert fresh.evaluate(ink) < before - 1


@pytest.mark.parametrize("view", VIEWS)
def test_it_fits_a_phone(fresh, view):
    fresh.set_viewport_size({"width": 390, "height": 844})
    fresh.click(f"#tab-{view}")
    assert fresh.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_barrier(fresh, view, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    fresh.emulate_media(color_scheme=scheme)
    fresh.click(f"#tab-{view}")
    found = axe.Axe().run(fresh).response["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []


def test_the_page_is_one_small_file():
    text = page()
    assert len(text.encode()) < 240_000
    assert '<a href="x.html" target="_top">' in page(lecture="x.html")
    assert not re.search(r"""(?:src|href)=["'](?!#)""", text)
    assert 'data-view="digit"' in page("digit")
    with pytest.raises(ValueError, match="no view 'word'; it has: reverse, continue, digit, queries, decoder, memory"):
        page("word")
