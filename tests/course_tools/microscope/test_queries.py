"""The microscope's room of lecture 12 in a browser: the numbers of torch, a first view that convinces, its address."""

import json

import pytest
import torch
from torch import Tensor

from course_lib.losses import match, match_greedily, matching_cost
from course_tools.lectures.lecture_12.microscope_room import MODELS, draw_rectangles, judge, silence, trained_predictor
from course_tools.microscope import page, room_weights
from tests.course_tools.microscope.conftest import PAGES, TOLERANCE

ROOM = "queries"
STORED = json.loads(room_weights(ROOM).read_text(encoding="utf-8"))


def as_objects(classes: Tensor, boxes: Tensor) -> list[dict]:
    """The objects of a scene as the page holds them: kind, left, top, width and height in pixels."""
    found = [(kind, *(16 * box).tolist()) for kind, box in zip(classes.tolist(), boxes, strict=True) if kind >= 0]
    return [
        {"kind": kind, "x": round(x - w / 2), "y": round(y - h / 2), "w": round(w), "h": round(h)} for kind, x, y, w, h in found
    ]


@pytest.mark.browser
@pytest.mark.parametrize(("name", "talk"), [("talk", True), ("talk", False), ("alone", True)])
@torch.no_grad()
def test_the_page_predicts_and_matches_as_torch(tab, name, talk):
    scenes = draw_rectangles(5, torch.Generator().manual_seed(7))
    model = trained_predictor(name)
    logits, boxes = (model if talk else silence(model))(scenes.images)[-1]
    costs = matching_cost(logits, boxes, scenes.classes, scenes.boxes)
    for i, classes in enumerate(scenes.classes):
        objects = as_objects(classes, scenes.boxes[i])
        found = tab.evaluate(
            f"""() => {{ const objects = {json.dumps(objects)}, found = predict({name!r}, paint(objects), {str(talk).lower()});
            const costs = costsOf(found, objects);
            const best = matchBest(costs).queries, greedy = matchGreedily(costs).queries;
            return {{ ...found, pixels: paint(objects), costs, best, greedy }}; }}"""
        )
        assert torch.equal(torch.tensor(found["pixels"]), scenes.images[i].long())
        torch.testing.assert_close(torch.tensor(found["logits"]), logits[i], **TOLERANCE)
        torch.testing.assert_close(torch.tensor(found["boxes"]), boxes[i], **TOLERANCE)
        real = classes >= 0
        torch.testing.assert_close(torch.tensor(found["costs"]), costs[i][:, real], **TOLERANCE)
        for way, matching in (("best", match), ("greedy", match_greedily)):
            assert found[way] == matching(costs[i : i + 1], classes[None])[0][real].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_stored_of_a_model_is_what_its_weights_do(name):
    model = trained_predictor(name)
    for how, judged in (("whole", judge(model)), ("silent", judge(silence(model)))):
        stored = STORED[name][how]
        assert judged._asdict() == pytest.approx({part: stored[part] for part in judged._fields}, abs=0.002)


def test_two_rectangles_of_one_kind_never_touch_and_boxes_are_those_of_the_pixels():
    images, classes, boxes = draw_rectangles(300, torch.Generator().manual_seed(3))
    for kind in (0, 1):
        painted = images[:, kind].sum((1, 2))
        areas = (boxes[..., 2] * boxes[..., 3] * 256 * (classes == kind)).sum(1)
        torch.testing.assert_close(painted, areas, atol=1e-3, rtol=0)
    assert ((classes >= 0).sum(1) >= 1).all()


@pytest.mark.browser
def test_the_first_view_is_right_and_a_switch_destroys_it(tab):
    right = "3 rectangles: 3 found once, 0 twice, 0 missed; 0 boxes elsewhere"
    assert right in tab.inner_text("#answer")
    for part in ("talk", "alone"):
        tab.click(f"#{part}")
        assert right not in tab.inner_text("#answer")
        tab.click("#reset")
    assert right in tab.inner_text("#answer")


@pytest.mark.browser
def test_a_rectangle_is_moved_by_pointer_and_by_keys(tab):
    before = tab.evaluate("state.objects[0].x")
    box = tab.locator("#scene .object").first.bounding_box()
    pixel = tab.locator("#scene svg").bounding_box()["width"] / 24
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] / 2 + 4 * pixel, box["y"] + box["height"] / 2, steps=4)
    tab.mouse.up()
    assert tab.evaluate("state.objects[0].x") == before + 4
    tab.focus("[data-label=left]")
    for _ in range(30):
        tab.keyboard.press("Enter")
    assert tab.evaluate("[state.objects[0].x, document.activeElement.dataset.label]") == [0, "left"]
    tab.click("[data-label=remove]")
    assert "2 rectangles" in tab.inner_text("#answer")
    tab.click("[data-label=add]")
    assert tab.locator("#costs thead th").count() == 5


@pytest.mark.browser
def test_greedy_matching_costs_as_much_or_more_and_shows_so(tab):
    tab.evaluate("set({ talk: false })")
    best, greedy = (tab.evaluate(f"{way}(costsOf(seen(), state.objects)).total") for way in ("matchBest", "matchGreedily"))
    assert best <= greedy + 1e-9
    tab.click("#greedy")
    assert f"greedily {greedy:.2f}".replace("-", "−") in tab.inner_text("#total")


@pytest.mark.browser
def test_the_address_brings_back_what_is_seen(browser, tab):
    tab.click("[data-label=right]")
    tab.click("[data-label=wider]")
    tab.click("#talk")
    tab.click("#greedy")
    other = browser.new_page()
    other.goto(tab.url)
    for part in ("#answer", "#effect", "#costs", "#total", "#own"):
        assert other.inner_text(part) == tab.inner_text(part)
    other.close()
    tab.goto(tab.url.partition("#")[0] + "#objects=7.1.x_0.99.1.3.3&talk=2")
    assert "3 rectangles: 3 found once" in tab.inner_text("#answer")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), PAGES)
def test_it_fits_a_phone_and_axe_finds_no_barrier(tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.emulate_media(color_scheme=scheme)
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    tab.click("#talk")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(tab).response["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found] == []


def test_the_room_is_one_small_file_and_leads_back(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert 'href="microscope.html"' in text
    assert 'href="microscope_queries.html"' in file.with_name("microscope.html").read_text(encoding="utf-8")
    assert '<a href="x.html" target="_top">← Lecture 12' in page("queries", "x.html")
