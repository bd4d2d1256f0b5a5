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
from course_tools.microscope.models import PADDING, T_WORD, trained_models
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
    file.write_text(page(), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.noticed = []
    tab.on("pageerror", lambda error: tab.noticed.append(str(error)))
    tab.on("request", lambda request: tab.noticed.append(request.url) if request.url != file.as_uri() else None)
    tab.goto(file.as_uri())
    yield tab
    tab.close()


@pytest.fixture
def fresh(opened):
    """Return the page in its first view, just after it was opened."""
    opened.set_viewport_size({"width": 1280, "height": 900})
    opened.reload()
    return opened


class Switches:
    """The switches, by their names in the page and their effect in torch."""

    def __init__(self, name: str, view: str, js: str, **how: object) -> None:
        self.name, self.view, self.js, self.how = name, view, js, how


CASES = [
    Switches(f"{view}, {name}", view, js, **how)
    for view in VIEWS
    for name, js, how in (
        ("as trained", "{}", {}),
        ("no scale", "{scale: false}", {"scale": False}),
        ("no mask", "{mask: false}", {"mask": False}),
        ("no positions", "{positions: false}", {"positions": False}),
        ("temperature 2.5", "{temperature: 2.5}", {"temperature": 2.5}),
        ("no head 1.2", '{off: new Set(["0.1"])}', {"off": {(0, 1)}}),
    )
]


def inputs(view: str) -> Tensor:
    """A word of seven letters, a text of twenty, or an image."""
    generator = torch.Generator().manual_seed(3)
    if view == "digit":
        return torch.randint(17, (64,), generator=generator) / 16
    tokens = torch.randint(26, (7 if view == "reverse" else 20,), generator=generator)
    return torch.cat([torch.full((T_WORD - 7,), PADDING), tokens]) if view == "reverse" else tokens


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


def with_torch(view: str, x: Tensor, how: dict) -> tuple[Tensor, list[Tensor]]:
    """Logits (T, n) and the weights (h, T, T) of each layer, from the model of course_lib."""
    model = trained_models()[view]
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
    run = f"RUN[{case.view!r}](models[{case.view!r}], {json.dumps(x.tolist())}, {{...asTrained(), ...{case.js}}})"
    numbers = "{logits: run.logits.map(r => [...r]), layers: run.layers.map(l => l.map(h => h.weights.map(r => [...r])))}"
    got = opened.evaluate(f"() => {{ const run = {run}; return {numbers}; }}")
    logits, weights = with_torch(case.view, x, case.how)
    torch.testing.assert_close(torch.tensor(got["logits"]), logits, atol=TOLERANCE, rtol=TOLERANCE)
    assert len(got["layers"]) == len(weights)
    for theirs, ours in zip(got["layers"], weights, strict=True):
        torch.testing.assert_close(torch.tensor(theirs), ours, atol=TOLERANCE, rtol=TOLERANCE)


def test_every_switch_changes_the_weights_or_the_logits_of_torch():
    for view in VIEWS:
        logits = with_torch(view, inputs(view), {})[0]
        for case in (case for case in CASES if case.view == view and case.how):
            changed = (with_torch(view, inputs(view), case.how)[0] - logits).abs().max().item()
            assert (changed > 10 * TOLERANCE) == (case.name != "digit, no mask"), case.name


def test_nothing_is_requested_and_nothing_goes_wrong(opened):
    for view in VIEWS:
        opened.click(f"#tab-{view}")
        assert opened.inner_text("#effect").startswith("As trained: ")
    assert opened.noticed == []


def test_a_typed_word_is_reversed_and_its_sentences_follow_from_the_run(fresh):
    fresh.fill("#text", "microscope")
    assert fresh.inner_text("#answer b") == "epocsorcim"
    assert "10 of 10 letters right" in fresh.inner_text("#answer")
    before = fresh.inner_text("#effect")
    fresh.uncheck("#switch-positions")
    measured = fresh.evaluate("answerOf(compute({...asTrained(), positions: false}))")
    assert measured in fresh.inner_text("#effect") != before
    assert "no positions" in fresh.inner_text("#effect")
    right = int(measured.split()[0])
    assert right < 10
    fresh.click("#reset")
    assert fresh.inner_text("#effect") == before


def test_a_repeated_word_is_continued_by_what_followed_it(fresh):
    fresh.click("#tab-continue")
    fresh.fill("#text", "zebrakiwizeb")
    assert fresh.inner_text("#answer b") == "r"
    fresh.get_by_role("button", name="Write the next letter").click()
    assert fresh.input_value("#text") == "zebrakiwizebr"


def test_keys_alone_choose_a_model_a_query_a_head_and_a_switch(fresh):
    fresh.focus("#tab-reverse")
    fresh.keyboard.press("ArrowRight")
    assert fresh.get_attribute("#tab-continue", "aria-selected") == "true"
    fresh.focus("#query")
    before = fresh.inner_text("#reads")
    fresh.keyboard.press("ArrowLeft")
    assert fresh.inner_text("#reads") != before
    fresh.focus("#show-0\\.1")
    fresh.keyboard.press("Enter")
    assert fresh.get_attribute("#show-0\\.1", "aria-pressed") == "true"
    fresh.focus("#switch-mask")
    fresh.keyboard.press("Space")
    assert "no mask" in fresh.inner_text("#effect")


def test_a_digit_can_be_drawn_with_a_pointer(fresh):
    fresh.click("#tab-digit")
    fresh.get_by_role("button", name="erases").click()
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
    assert len(text.encode()) < 90_000
    assert not re.search(r"""(?:src|href)=["']""", text)
    assert 'data-view="digit"' in page("digit")
    with pytest.raises(ValueError, match="no view 'word'; it has: reverse, continue, digit"):
        page("word")
