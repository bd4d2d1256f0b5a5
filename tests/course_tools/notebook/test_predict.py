"""A prediction asks first and explains after the choice or the number; exported, it stands folded."""

import math
from collections import Counter
from importlib import import_module

import pytest
import torch

from course_lib.blocks import TokenMixing
from course_lib.primitives import ponder_cost
from course_tools.notebook import progress_record as progress
from course_tools.notebook.prediction_options import UnknownPrediction, as_number, prediction, predictions

module = import_module("course_tools.notebook.predict")


def test_every_prediction_has_options_and_one_that_is_right():
    assert len(predictions()) > 100
    for item in predictions().values():
        assert len(item.options) >= 2
        assert item.accepts(item.right_option.text.replace(",", "") if item.within else item.right)
        assert item.right in [option.letter for option in item.options]
        assert all(option.text and option.explanation for option in item.options)


def test_the_letter_does_not_give_the_right_option_away():
    """Most authors put the right option second; a student who notices stops reading."""
    letters = Counter(item.right for item in predictions().values() if not item.within)
    assert max(letters.values()) < 0.45 * letters.total(), letters


def test_an_unknown_prediction_is_a_clear_error():
    with pytest.raises(UnknownPrediction, match=r"there is no prediction '04\.p99'"):
        prediction("04.p99")


def test_the_explanation_marks_the_right_and_the_chosen_option():
    asked = prediction("04.p1")
    wrong = next(option.letter for option in asked.options if option.letter != asked.right)
    html = module.explained(asked, wrong)
    assert f"<b>{asked.right}</b> ✓ right:" in html
    assert f"<b>{wrong}</b> ✗, your prediction:" in html
    assert [html.index(option.explanation) for option in asked.options] == sorted(
        html.index(option.explanation) for option in asked.options
    )
    assert not any(f"<{tag}" in html for tag in ("dl", "dt", "dd"))  # JupyterLab floats these side by side


def test_outside_a_live_notebook_the_options_stand_folded():
    asked = prediction("04.p1")
    html, texts = (module.folded(asked, texts=texts)["text/html"] for texts in (False, True))
    assert html.count("<details>") == texts.count("<details>") == len(asked.options)
    assert all(option.text in texts and option.text not in html for option in asked.options)


class Watched:
    """What `predict` shows, and the buttons that it made, where a person seems to watch."""

    def __init__(self, monkeypatch, tmp_path):
        self.shown, self.published = [], []
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
        for place in (module, progress):
            monkeypatch.setattr(place, "watched", lambda: True)
            monkeypatch.setattr(place, "in_notebook", lambda: True)
        monkeypatch.setattr(module, "publish", self.published.append)
        monkeypatch.setattr("IPython.display.display", self._display)

    def _display(self, box, display_id):
        self.shown.append(box)
        return self

    def update(self, bundle, raw):
        self.published.append(bundle)

    def buttons(self):
        return self.shown[0].children


@pytest.fixture
def watched(monkeypatch, tmp_path):
    return Watched(monkeypatch, tmp_path)


def test_the_choice_is_kept_and_the_explanation_takes_the_place_of_the_buttons(watched):
    module.predict("04.p1")
    assert not any("text/html" in shown for shown in watched.published)
    watched.buttons()[1].click()
    assert "your prediction" in watched.published[-1]["text/html"]
    assert progress.progress_of(progress.read_events(progress.progress_file())).predictions == {"04.p1": "B"}


def test_run_again_it_shows_what_was_chosen_and_asks_no_more(watched):
    module.predict("04.p1")
    watched.buttons()[0].click()
    watched.shown.clear()
    module.predict("04.p1")
    assert watched.shown == []
    assert "<b>A</b>" in watched.published[-1]["text/html"]
    assert "you chose A" in watched.published[-1]["text/plain"]


@pytest.mark.parametrize("letter", ["B", " b "])
def test_a_letter_is_as_good_as_its_button(watched, letter):
    module.predict("04.p1", letter)
    assert watched.shown == []
    assert "you chose B" in watched.published[-1]["text/plain"]
    module.predict("04.p1", "A")
    assert "you chose B" in watched.published[-1]["text/plain"], "the first choice counts"
    assert progress.progress_of(progress.read_events(progress.progress_file())).predictions == {"04.p1": "B"}


@pytest.mark.parametrize("answer", ["Z", 2, "", None])
def test_what_is_no_option_is_answered_by_a_sentence_and_not_kept(watched, answer):
    module.predict("04.p1", answer)
    assert "one of A, B, C" in watched.published[-1]["text/plain"]
    assert not progress.progress_file().exists()


def test_each_button_says_what_it_does(watched):
    module.predict("04.p1")
    assert [button.description for button in watched.buttons()] == ["I predict A", "I predict B", "I predict C"]


# Numbers.


def _reach(layer, x):
    """On how many numbers of its input the first number of the output of a layer depends."""
    (gradient,) = torch.autograd.grad(layer(x.requires_grad_())[0, 0, 0], x)
    return gradient.count_nonzero()


NUMBERS = {
    "01.p3": torch.tensor(4.0).sigmoid().item() ** 60,
    "02.p1": math.exp(2) / (math.exp(2) + 1),
    "02.p3": 26 - 2 + 1,
    "03.p2": torch.tensor([-8.0, -16.0, -8.0]).softmax(0)[0].item(),
    "03.p6": 196 * (1 - 10 / 196) ** 2,
    "04.p2": torch.tensor([4.0, 8.0, -4.0]).softmax(0)[1].item(),
    "04.p8": 65 - 1,
    "05.p3": 6 - 3,
    "05.p7": 8 * 8,
    "05.p8": (32 / 2) ** 0.5,
    "05.p9": min(7, 2) / 7,
    "05.p10": max(0.6 / 4, 0.4 * 0.9),
    "06.p1": 8,
    "06.p2": 12,
    "06.p7": torch.func.grad(ponder_cost)(torch.tensor([0.3, 0.5, 0.4]))[0].item(),
    "07.p1": 1 / (8 - 4),
    "08.p2": (1 / 2) ** 2 + (1 / 2) ** 2,
    "08.p3": 100 * 0.8 * 0.15,
    "09.p6": 1 / 4,
    "09.p8": 4 + 1,
    "10.p2": (2 / 3) ** 2,
    "10.p3": (1 + 3 * 2) ** 2,
    "11.p2": (16 * 16) ** 2,
    "11.p6": 100 / 4,
    "12.p1": 1,  # all six boxes overlap the first one kept
    "12.p2": min(-2.6 + 0.3, -2.2 - 0.9),
    "12.p5": 0.5 / (0.5 + 0.5 * 0.5),
    "13.p2": float(_reach(TokenMixing(32, 64), torch.ones(1, 32, 48))),
    "13.p4": 1 - 0.5,  # either guess, where half of the patches differ
    "14.p1": (12 * 256**2 + 2 * 256 * 4_096) / (12 * 256**2 + 2 * 256 * 64),
    "14.p3": (2 * 64**2 + 2 * 64 * 64) / (2 * 64**2),
    "14.p5": 4 * 4 * (64 * 64 + 64),
    "15.p1": 3 * ((10**2 + 6**2 + 2**2 + 2**2) / 13**2 + 0.5**2 / 13) ** 0.5,
    "15.p6": 32 / 2,
    "16.p3": math.log(1 + 8),
    "17.p4": (2 + 2 * 8 / 32) / 4,
    "17.p7": 1 + 2 * (4 - 1),
    "18.p2": 0.9 ** (64 - 1),
    "18.p4": 1 - 1 * 2**2,
    "19.p3": 4 * 4_096**2 / (4_096 // 128 * 2 * 4_096 * 64),
    "19.p5": sum(0.6**n for n in range(4 + 1)),
}


def test_the_right_numbers_are_what_the_mechanism_gives():
    assert {item.id for item in predictions().values() if item.within} == NUMBERS.keys()
    for id, value in NUMBERS.items():
        assert as_number(prediction(id).right_option.text) == pytest.approx(value, rel=2e-3), id
        assert prediction(id).accepts(f"{value:g}")


@pytest.mark.parametrize(
    ("id", "said", "verdict"),
    [
        ("01.p3", 0.3, "✓ within a factor of 1.5"),
        ("01.p3", 0.982, "✗ too large by a factor of 2.91"),
        ("01.p3", torch.tensor(1e-9), "✗ too small by a factor of 3.37e+08"),
        ("01.p3", -0.3, "✗ too small"),
        ("02.p1", 0.9, "✗ too large by 0.019"),
        ("02.p3", 25, "✓ exactly"),
        ("02.p3", 24, "✗ too small by 1"),
    ],
)
def test_a_number_is_compared_with_the_right_one(watched, id, said, verdict):
    module.predict(id, said)
    right = prediction(id).right_option
    shown = watched.published[-1]
    assert shown["text/plain"] == f"Prediction {id}: you said {float(said):g}; it is {right.text}: {verdict}."
    assert right.explanation in shown["text/html"]


def test_a_known_wrong_number_is_explained(watched):
    module.predict("01.p3", 0.98)
    assert "the factor of <em>one</em> step" in watched.published[-1]["text/html"]
    module.predict("01.p3", 7)
    assert "the factor of <em>one</em> step" not in watched.published[-1]["text/html"]


def test_without_a_number_it_asks_and_then_shows_the_first_one_again(watched):
    module.predict("01.p3", ...)
    assert "in place of ..." in watched.published[-1]["text/plain"]
    assert "0.337" not in str(watched.published)
    for said in (0.5, 0.3, ...):
        module.predict("01.p3", said)
    assert "you said 0.5" in watched.published[-1]["text/plain"]
    known = progress.progress_of(progress.read_events(progress.progress_file()))
    assert known.predictions == {"01.p3": "0.5"}
    assert progress.predicted(known, "01") == (1, 1)  # 0.5 is within the factor


@pytest.mark.parametrize("said", [("about a third",), (None,), (True,), (math.nan,), (torch.ones(2),), (0, 3)])
def test_what_is_no_number_is_answered_by_a_sentence_and_not_remembered(watched, said):
    module.predict("01.p3", *said)
    assert "one number, with a decimal point, such as 0.5" in watched.published[-1]["text/plain"]
    assert not progress.progress_file().exists()


def test_outside_a_live_notebook_a_number_stands_folded(monkeypatch):
    published = []
    monkeypatch.setattr(module, "publish", published.append)
    module.predict("01.p3", ...)
    assert published == [module.folded(prediction("01.p3"))]
    assert published[0]["text/html"].startswith("<details><summary>The number, and why</summary><p><b>0.337</b>")
