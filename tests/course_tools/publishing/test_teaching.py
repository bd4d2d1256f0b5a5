"""The page for teachers: plans that add up, and sheets that agree with the lectures and the bank."""

import json
import re
from pathlib import Path

import pytest

from course_tools.bank import exercise, exercises
from course_tools.publishing.project import lectures
from course_tools.publishing.teaching import FRAME, IN_CLASS, PER_PREDICTION, SESSION, Asked, session, teaching

ROOT = Path(__file__).parents[3]


_LECTURE = """\
# %% [markdown]
# # 05 · Small
# **Time:** {minutes}.

# %% [markdown] tags=["predict"]
# ## Heading
# Before. **Predict.** It is made
# twice as wide. What follows?
#
# <details><summary>A. a</summary>Yes.</details><details><summary>B. b</summary>No.</details>

# %% [markdown]
# **Errata of the decks:**
#
# - *EE* writes
#   one thing.
# - *RK*: another.
#
# **Remark.**
#
# - no
"""


@pytest.fixture(scope="module")
def page():
    """Return the page made from the sources."""
    return teaching(ROOT)


def sheet(page: str, number: str) -> str:
    return re.search(rf"^### {number} · .*?(?=^### |\Z)", page, flags=re.MULTILINE | re.DOTALL)[0]


def test_every_lecture_has_a_sheet_with_its_predictions_and_exercises(page):
    predictions = json.loads((ROOT / "course_tools/notebook/predictions.json").read_text(encoding="utf-8"))
    for lecture in lectures(ROOT):
        text = sheet(page, lecture.number)
        asked = re.findall(r"^- `(\d\d\.p\d+)` \S", text, flags=re.MULTILINE)
        assert len(asked) == len(set(asked)) > 1
        assert {id for id in predictions if id.startswith(lecture.number)} <= set(asked)
        for item in (item for item in exercises() if item.lecture == lecture.number):
            assert f"| {item.id} {item.title} |".replace("|", "") in text.replace("|", "")


def test_no_section_of_a_deck_is_named_twice_in_a_sheet(page):
    for lecture in lectures(ROOT):
        for deck in re.findall(r"(?<=Sections of the decks: ).*(?=\.$)", sheet(page, lecture.number), flags=re.MULTILINE):
            for names in deck.split("; "):
                each = names.partition(": ")[2].split(", ")
                assert len(each) == len(set(each))


def test_an_exercise_stands_with_its_minutes_points_and_two_wrong_answers(page):
    one = exercise("04.1")
    row = next(line for line in page.splitlines() if line.startswith("| 04.1 "))
    assert f"| {dict(session(lectures(ROOT, ['04'])[0]).exercises)['04.1']} | {one.points} |" in row
    for answer in one.wrong[:2]:
        assert " ".join(answer.__doc__.split()) in row.replace("\\|", "|")


def test_the_plan_of_a_deck_fills_a_session_and_no_more(page):
    plans = re.findall(r"^### [A-Z]{2} · .*?\n\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    assert len(plans) == 5
    for plan in plans:
        minutes = [int(row.split("|")[3]) for row in plan.splitlines()[2:]]
        assert SESSION - 25 <= sum(minutes) <= SESSION - 15


def test_what_is_said_about_the_decks_is_what_the_lecture_says(page):
    assert "It gives 12 blocks" in sheet(page, "05")
    assert "What to say about the decks" not in sheet(page, "06")


def test_the_sentence_of_a_prediction_and_the_errata_are_taken_from_their_cells(course, author):
    author("05_small", _LECTURE)
    (lecture,) = lectures(course, ["05"])
    one = session(lecture)
    asked = Asked("05.p1", "It is made twice as wide. What follows?", "A. a", "Heading")
    assert (one.time.core, one.predictions) == (0, (asked,))
    assert one.errata == ("*EE* writes one thing.", "*RK*: another.")


def test_two_hours_hold_all_predictions_and_the_exercises_named(page):
    for lecture in lectures(ROOT):
        one = session(lecture)
        pattern = r"^\*\*Two hours:\*\* (\d+) predictions; (.*) in class; (.*) at home\.$"
        plan = re.search(pattern, sheet(page, lecture.number), re.MULTILINE)
        together, homework = (re.findall(r"\d\d\.\d+", text) for text in plan.groups()[1:])
        minutes = dict(one.exercises)
        assert sorted(together + homework) == sorted(minutes)
        assert FRAME + PER_PREDICTION * int(plan[1]) + IN_CLASS * sum(minutes[id] for id in together) <= SESSION
        assert not any(exercise(id).training for id in together)


def test_a_plan_of_a_deck_asks_what_the_sections_on_the_deck_ask(page):
    plan = re.search(r"^### EE · .*?(?=^##)", page, flags=re.MULTILINE | re.DOTALL)[0]
    row = next(line for line in plan.splitlines() if "05_transformer" in line)
    (lecture,) = lectures(ROOT, ["05"])
    sections = {asked.id: asked.section for asked in session(lecture).predictions}
    assert {sections[id] for id in re.findall(r"`(05\.p\d)`", row)} == {"2 Positions"}
