"""The microscope's room of lecture 18 in a browser: the numbers of torch, a first view that convinces, its address."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from course_tools.lectures.lecture_18.microscope_room import RULES, shares_right, trained_memory
from course_tools.lectures.lecture_18.rewritten_keys import hot_keys
from course_tools.microscope import page, room_weights
from tests.course_tools.microscope.conftest import DESK, PAGES, PHONE, TOLERANCE

ROOM = "memory"
STORED = json.loads(room_weights(ROOM).read_text(encoding="utf-8"))


def logits_by_steps(name: str, keys: Tensor, values: list, asked: Tensor, correct: bool = True, keep: float = 1.0) -> Tensor:
    """Write one after the other, None as the zero vector, with parts switched off: an independent form of the rules."""
    model = trained_memory(name)
    S = torch.zeros(16, 16)
    for key, value in zip(model.key(keys), values, strict=True):
        of_value = torch.zeros_like(key) if value is None else model.value.weight[value]
        k, gate = F.normalize(model.W_k(key), dim=-1), model.gates(key + of_value).sigmoid()
        if value is None and name == "delta":
            gate = torch.ones(1)
        S = S * {"sum": 1.0, "gate": gate, "delta": keep}[name]
        error = model.W_v(of_value) - (S.mT @ k if name == "delta" and correct else 0)
        S = S + torch.outer(k, error if name == "gate" else gate * error)
    return model.read_out(F.normalize(model.W_q(model.key(asked)), dim=-1) @ S)


def logits_of_page(tab, name: str, keys: Tensor, values: list, asked: Tensor, switches: str = "untouched()") -> Tensor:
    """Probabilities that the page computes for the keys asked for, as logarithms (n, 16)."""
    writes = [{"key": key, "value": value} for key, value in zip(keys.tolist(), values, strict=True)]
    code = f"""() => {{ const {{ S }} = run({name!r}, {json.dumps(writes)}, {switches});
      return {asked.tolist()}.map((key) => read({name!r}, S, key).p); }}"""
    return torch.tensor(tab.evaluate(code)).log()


@pytest.mark.browser
@pytest.mark.parametrize("name", RULES)
@torch.no_grad()
def test_the_page_answers_as_the_model_of_the_lecture(tab, name):
    new = hot_keys(1, torch.Generator().manual_seed(7), 26)
    expected = trained_memory(name)(*new[:3])[0].log_softmax(-1)
    found = logits_of_page(tab, name, new.keys[0], new.values[0].tolist(), new.asked[0])
    torch.testing.assert_close(found, expected, **TOLERANCE)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "switches", "how"),
    [
        ("delta", "{ correct: false, fade: false }", {"correct": False}),
        ("delta", "{ correct: true, fade: true }", {"keep": 0.8}),
        ("delta", "untouched()", {}),
        ("gate", "untouched()", {}),
    ],
)
@torch.no_grad()
def test_the_page_computes_what_torch_computes_with_parts_switched_off_and_keys_erased(tab, name, switches, how):
    new = hot_keys(1, torch.Generator().manual_seed(7), 26)
    keys, values, asked = new.keys[0, :23], new.values[0, :23].tolist(), new.asked[0]
    values[11] = values[-1] = None
    expected = logits_by_steps(name, keys, values, asked, **how).log_softmax(-1)
    torch.testing.assert_close(logits_of_page(tab, name, keys, values, asked, switches), expected, **TOLERANCE)


@pytest.mark.parametrize("name", RULES)
def test_the_stored_shares_are_those_of_the_stored_weights(name):
    assert shares_right(trained_memory(name)) == pytest.approx((STORED[name]["hot"], STORED[name]["once"]), abs=0.002)


@pytest.mark.browser
def test_the_first_view_is_right_and_a_switch_destroys_it(tab):
    assert "delta rule 7 of 7" in tab.inner_text("#answer")
    for part in ("correct", "fade"):
        tab.click(f"#{part}")
        assert "delta rule 7 of 7" not in tab.inner_text("#answer")
        assert f"{tab.locator('#answer b').first.inner_text()}." in tab.inner_text(f"#{part}-effect")
        tab.click("#reset")
    assert "delta rule 7 of 7" in tab.inner_text("#answer")


@pytest.mark.browser
def test_a_key_is_written_rewritten_and_erased(tab):
    tab.fill("#text", "q=3 r=7")
    for click, newest in (("#rewrite", "12 ✓"), ("#erase", "nothing ✓")):
        tab.click(click)
        of_q, of_r = (tab.locator("#table tbody tr").nth(row).locator("td").nth(1).inner_text() for row in range(2))
        assert (of_q.strip()[:3], of_r.strip().startswith(newest)) == ("3 ✓", True)
    assert tab.input_value("#text") == "q=3 r=7 r=12 r="
    tab.focus("#at")
    tab.keyboard.press("ArrowLeft")
    assert "write 3: r ← 12" in tab.inner_text("#steps-title")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("text", "message"), [("a=16", "not “a=16”"), ("a3", "not “a3”"), ("", "at least once"), ("a=1 " * 65, "65 writes")]
)
def test_writes_that_the_models_cannot_read_get_a_reason(tab, text, message):
    before = tab.inner_text("#table")
    tab.fill("#text", text)
    assert message in tab.inner_text("#problem")
    assert tab.inner_text("#table") == before


@pytest.mark.browser
def test_the_address_brings_back_what_is_seen(browser, tab):
    tab.fill("#text", "a=1 b=2 a=3")
    tab.focus("#at")
    tab.keyboard.press("ArrowLeft")
    tab.click("#correct")
    other = browser.new_page()
    other.goto(tab.url)
    for part in ("#answer", "#effect", "#table", "#write", "#at-name"):
        assert other.inner_text(part) == tab.inner_text(part)
    other.close()
    tab.goto(tab.url.partition("#")[0] + "#text=%3F&at=x&fade=2")
    assert "delta rule 7 of 7" in tab.inner_text("#answer")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), PAGES)
def test_it_fits_a_phone_and_axe_finds_no_barrier(tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.emulate_media(color_scheme=scheme)
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tab.click("#correct")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_write_is_seen_and_nothing_moves_when_the_correction_is_off(tab, width):
    tab.set_viewport_size({"width": width, "height": 844})
    hidden = "document.getElementById('text').scrollHeight - document.getElementById('text').clientHeight"
    places = """['#reset', '#table tbody', '#write td', '#write tr:nth-child(3) .vector'].map((each) => {
      const node = document.querySelector(each), box = node.getBoundingClientRect();
      return [box.left, box.top, node.style.background]; })"""
    tab.reload()
    assert tab.evaluate(hidden) <= 0
    before = tab.evaluate(places)
    assert "rgba" in before[-1][-1]
    tab.click("#correct")
    assert tab.evaluate(places) == before
    assert tab.locator("#answer .keys .bad").count() == 5 + 2 + 6


def test_the_room_is_one_small_file_and_leads_back(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert 'href="microscope.html"' in text
    assert 'href="microscope_memory.html"' in file.with_name("microscope.html").read_text(encoding="utf-8")
    assert '<a href="x.html" target="_top">← Lecture 18' in page("memory", "x.html")
