"""A prediction asks first and explains after the choice; exported, it stands folded."""

from collections import Counter
from importlib import import_module

import pytest

from course_tools.notebook import progress_record as progress
from course_tools.notebook.prediction_options import UnknownPrediction, prediction, predictions

module = import_module("course_tools.notebook.predict")


def test_every_prediction_has_options_and_one_that_is_right():
    assert len(predictions()) > 100
    for item in predictions().values():
        assert len(item.options) >= 2
        assert item.right in [option.letter for option in item.options]
        assert all(option.text and option.explanation for option in item.options)


def test_the_letter_does_not_give_the_right_option_away():
    """Most authors put the right option second; a student who notices stops reading."""
    letters = Counter(item.right for item in predictions().values())
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


def test_each_button_says_what_it_does(watched):
    module.predict("04.p1")
    assert [button.description for button in watched.buttons()] == ["I predict A", "I predict B", "I predict C"]
