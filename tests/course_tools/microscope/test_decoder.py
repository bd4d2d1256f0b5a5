"""The microscope's room of lecture 17 in a browser: the numbers of torch, a first view that convinces, its address."""

import json

import pytest
import torch
from torch import Tensor

from course_lib.attention import MultiHead, causal_attention, rotary_speeds, rotate
from course_lib.metrics import cache_bytes
from course_lib.models import Llama
from course_tools.lectures.lecture_17.microscope_room import BASE, D_K, MODELS, SIZES, echoes, shares_right, trained_decoder
from course_tools.microscope import page, room_weights
from course_tools.microscope.models import LETTERS
from tests.course_tools.microscope.conftest import PAGES, TOLERANCE

ROOM = "decoder"
STORED = json.loads(room_weights(ROOM).read_text(encoding="utf-8"))
TOKENS = LETTERS + "123456789"


class Turned(torch.nn.Module):
    """Attention of groups whose queries or keys are turned, head by head: an independent form of the page's switches."""

    def __init__(self, queries: bool, keys: bool, start: int) -> None:
        super().__init__()
        self.queries, self.keys, self.start = queries, keys, start

    def forward(self, q, k, v, mask=None):
        speeds = rotary_speeds(D_K, BASE)
        q = rotate(q, speeds, self.start) if self.queries else q
        k = rotate(k, speeds, self.start) if self.keys else k
        parts = [causal_attention(q[:, i], k[:, i * k.shape[1] // 4], v[:, i * k.shape[1] // 4], mask) for i in range(4)]
        return type(parts[0])(*(torch.stack(part, 1) for part in zip(*parts, strict=True)))


def model_of(name: str, turned: Turned | None = None) -> Llama:
    """The model of the page: trained, or with the mean of four heads of keys and values for one."""
    if name == "mean":
        model = Llama(len(TOKENS), SIZES, 1, base=BASE, d_k=D_K).eval()
        whole = trained_decoder("4").state_dict()
        mean = {
            key: part.unflatten(0, (4, D_K)).mean(0)
            for key, part in whole.items()
            if key.endswith(("W_k.weight", "W_v.weight"))
        }
        model.load_state_dict({**whole, **mean})
    else:
        model = trained_decoder(name)
    for part in model.modules():
        if isinstance(part, MultiHead) and turned:
            part.mechanism = turned
    return model


def logits_of_page(tab, name: str, tokens: Tensor, switches: str = "untouched()", start: int = 0) -> Tensor:
    """Logits (T, n_tokens) that the page computes for a text (T,), token by token from its cache."""
    code = f"""() => {{ const cache = emptyCache();
      return {tokens.tolist()}.map((token, t) => [...step({name!r}, cache, token, {start} + t, {switches}).logits]); }}"""
    return torch.tensor(tab.evaluate(code))


@pytest.mark.browser
@pytest.mark.parametrize("name", [*MODELS, "mean"])
@torch.no_grad()
def test_the_page_computes_from_its_cache_what_torch_computes_from_the_whole_text(tab, name):
    tokens = echoes(1, torch.Generator().manual_seed(7))[0]
    torch.testing.assert_close(logits_of_page(tab, name, tokens[0]), model_of(name)(tokens)[0], **TOLERANCE)


@pytest.mark.browser
@pytest.mark.parametrize(("queries", "keys"), [(True, False), (False, True), (False, False), (True, True)])
@pytest.mark.parametrize("name", ["4", "2"])
@torch.no_grad()
def test_the_page_computes_what_torch_computes_with_rotations_switched_off(tab, name, queries, keys):
    tokens = echoes(1, torch.Generator().manual_seed(8))[0]
    found = logits_of_page(tab, name, tokens[0], json.dumps({"queries": queries, "keys": keys}), start=31)
    torch.testing.assert_close(found, model_of(name, Turned(queries, keys, 31))(tokens)[0], **TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_the_stored_shares_are_those_of_the_stored_weights(name):
    assert shares_right(trained_decoder(name)) == pytest.approx((STORED[name]["letters"], STORED[name]["words"]), abs=0.002)


@pytest.mark.browser
def test_the_first_view_is_right_and_a_switch_destroys_it(tab):
    right = "microscope5 → scope 5 of 5 letters right"
    assert right in tab.inner_text("#answer")
    for part in ("queries", "keys"):
        tab.click(f"#{part}")
        assert right not in tab.inner_text("#answer")
        assert tab.locator("#answer b").inner_text() in tab.inner_text(f"#{part}-effect")
        tab.click("#reset")
    for model in ("mean", "never"):
        tab.click(f"#model-{model}")
        assert right not in tab.inner_text("#answer")
    for model in ("4", "1", "2"):
        tab.click(f"#model-{model}")
        assert right in tab.inner_text("#answer")


@pytest.mark.browser
def test_where_the_text_begins_matters_only_if_one_of_both_turns(tab):
    def scores() -> list:
        return tab.evaluate(
            "result('2').steps.map(({ layers }) => layers.map(({ heads }) => heads.map(({ scores }) => scores)))"
        )

    def all_of(values: list) -> Tensor:
        return torch.tensor([score for token in values for layer in token for head in layer for score in head])

    near = all_of(scores())
    tab.evaluate("set({ start: 1000 })")
    torch.testing.assert_close(all_of(scores()), near, atol=1e-6, rtol=1e-6)
    tab.click("#keys")
    far = all_of(scores())
    tab.evaluate("set({ start: 0 })")
    assert (all_of(scores()) - far).abs().max() > 1


@pytest.mark.browser
def test_the_cache_holds_the_bytes_that_it_says_and_grows_with_the_text(tab):
    for model, n_groups in (("4", 4), ("2", 2), ("1", 1)):
        tab.click(f"#model-{model}")
        for letter in (1, 5):
            tab.evaluate(f"set({{ at: {letter} }})")
            expected = cache_bytes(SIZES.n_layers, n_groups, D_K, T=10 + letter)
            assert f"{expected:,} bytes" in tab.inner_text("#cache-title")
            assert f"{expected:,} bytes" in tab.inner_text(f"#model-{model}-effect")
    assert "8 of keys and values at this ratio, as published: 4.3 GB" in tab.inner_text("#bytes")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("four", "and then a digit"),
        ("ab2", "2 letters"),
        ("abcdefghijklmno2", "15 letters"),
        ("abc4", "at most 3"),
        ("", "and then"),
    ],
)
def test_texts_that_the_models_cannot_read_get_a_reason(tab, text, message):
    before = tab.inner_text("#answer")
    tab.fill("#text", text)
    assert message in tab.inner_text("#problem")
    assert tab.inner_text("#answer") == before
    tab.fill("#text", "Banana3")
    assert "banana3 → ana 3 of 3" in tab.inner_text("#answer")


@pytest.mark.browser
def test_keys_alone_choose_a_letter_a_head_and_a_model(tab):
    tab.focus("#at")
    tab.keyboard.press("ArrowRight")
    assert "letter 2 is written: 12 tokens" in tab.inner_text("#cache-title")
    tab.focus("#head-0\\.2")
    tab.keyboard.press("Enter")
    assert "Head 1.3" in tab.inner_text("#clocks-title")
    assert tab.evaluate("document.activeElement.id") == "head-0.2"
    tab.focus("#model-2")
    tab.keyboard.press("ArrowDown")
    assert tab.is_checked("#model-1")


@pytest.mark.browser
def test_the_address_brings_back_what_is_seen(browser, tab):
    tab.fill("#text", "lookout3")
    tab.click("#model-1")
    tab.click("#queries")
    tab.click("#head-1\\.3")
    tab.evaluate("set({ at: 2, start: 70, key: 3 })")
    other = browser.new_page()
    other.goto(tab.url)
    for part in ("#answer", "#effect", "#reads", "#clocks", "#score", "#cache-title", "#start-name"):
        assert other.inner_text(part) == tab.inner_text(part)
    other.close()
    tab.goto(tab.url.partition("#")[0] + "#text=%3F&at=x&model=9&head=7.7&key=-1&start=2e9")
    assert "microscope5 → scope 5 of 5" in tab.inner_text("#answer")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), PAGES)
def test_it_fits_a_phone_and_axe_finds_no_barrier(tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.emulate_media(color_scheme=scheme)
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tab.fill("#text", "abcdefghijklmn9")
    tab.click("#model-4")
    tab.click("#keys")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []


def test_the_room_is_one_small_file_and_leads_back(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert 'href="microscope.html"' in text
    assert 'href="microscope_decoder.html"' in file.with_name("microscope.html").read_text(encoding="utf-8")
    assert '<a href="x.html" target="_top">← Lecture 17' in page("decoder", "x.html")
