"""Progress survives what a student's machine does to it, and sums up to what was really done."""

import json
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from course_tools.bank import exercises
from course_tools.notebook import progress_record as progress
from course_tools.notebook.prediction_options import predictions


def check(id, points, passed, misconception=None, time="2026-01-01T00:00:00+00:00"):
    return {"time": time, "kind": "check", "id": id, "points": points, "passed": passed, "misconception": misconception}


def prediction(id, choice, time="2026-01-01T00:00:00+00:00"):
    return {"time": time, "kind": "prediction", "id": id, "choice": choice}


WRONG_THEN_RIGHT = [
    check("04.1", 7, False, "no scale", "2026-01-01T00:00:01+00:00"),
    check("04.1", 3, False, "no mask", "2026-01-01T00:00:02+00:00"),
    check("04.1", 12, True, None, "2026-01-01T00:00:03+00:00"),
    check("04.1", 2, False, "later", "2026-01-01T00:00:04+00:00"),
]


def test_attempts_count_until_it_is_solved_and_the_best_points_stay():
    item = progress.progress_of(WRONG_THEN_RIGHT).exercises["04.1"]
    assert (item.attempts, item.points, item.solved) == (3, 12, True)


def test_a_misconception_is_overcome_when_its_exercise_is_solved():
    found = progress.progress_of([*WRONG_THEN_RIGHT, check("04.2", 1, False, "triu for tril")])
    assert ("04.1", "no scale") in found.overcome
    assert "04.2" not in dict(found.overcome)


def test_a_suspected_misconception_counts_if_the_next_answer_is_right():
    wrong = [{**check("04.1", 7, False), "suspected": text} for text in ("no scale", "no mask")]
    found = progress.progress_of([*wrong, check("04.1", 14, True)])
    assert found.overcome == [("04.1", "no mask")]
    assert progress.progress_of(wrong).exercises["04.1"].misconceptions == []


def test_the_first_prediction_counts():
    found = progress.progress_of([prediction("04.p1", "A"), prediction("04.p1", "C")])
    assert found.predictions == {"04.p1": "A"}


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"id": 3}', '{"time": "x"}', "\x00", '{"id": "04.1", "time": "t", "kind": "?"}']
)
def test_a_broken_line_costs_only_itself(tmp_path, broken):
    file = tmp_path / "progress.jsonl"
    file.write_text("\n".join([json.dumps(WRONG_THEN_RIGHT[0]), broken, json.dumps(WRONG_THEN_RIGHT[2])]))
    assert progress.progress_of(progress.read_events(file)).exercises["04.1"].solved


def test_a_missing_file_is_no_progress(tmp_path):
    assert progress.read_events(tmp_path / "none.jsonl") == []


def test_merging_is_the_union_in_order_of_time_and_twice_changes_nothing():
    first, second = WRONG_THEN_RIGHT[::2], WRONG_THEN_RIGHT[1:]
    joined = progress.merge(first, second)
    assert joined == WRONG_THEN_RIGHT
    assert progress.merge(joined, joined) == joined


def test_the_summary_counts_exercises_points_and_right_predictions():
    right = predictions()["04.p1"].right
    wrong = next(option.letter for option in predictions()["04.p3"].options if option.letter != predictions()["04.p3"].right)
    events = [*WRONG_THEN_RIGHT, prediction("04.p1", right), prediction("04.p3", wrong), prediction("05.p1", "A")]
    n = sum(item.lecture == "04" for item in exercises())
    text = progress.summary(progress.progress_of(events), "04")
    assert f"1 of {n} exercises solved, 12 of" in text
    assert "1 of 2 predictions right" in text
    assert "Misconceptions overcome: 2" in text


class Squares(HTMLParser):
    def __init__(self):
        super().__init__()
        self.kinds, self.elsewhere = [], []

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        if tag == "rect":
            self.kinds.append(facts["class"])
        self.elsewhere += [facts[name] for name in ("src", "href") if name in facts] + [tag] * (tag == "script")


def test_the_page_has_a_square_for_each_exercise_and_nothing_from_elsewhere():
    seen = Squares()
    seen.feed(progress.page(progress.progress_of([*WRONG_THEN_RIGHT, check("04.2", 1, False, "<script>")])))
    assert len(seen.kinds) == len(exercises())
    assert (seen.kinds.count("solved"), seen.kinds.count("tried")) == (1, 1)
    assert seen.elsewhere == []


def test_a_file_inside_the_course_lies_in_work(tmp_path, monkeypatch):
    (tmp_path / "course_tools").mkdir()
    (tmp_path / "course.py").touch()
    (tmp_path / "work").mkdir()
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path / "work")
    assert progress.progress_file() == tmp_path / "work" / "progress.jsonl"


KERNEL = """
import ipykernel
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().kernel = object()
from course_tools.notebook.progress_record import remember
remember("check", "04.1", points=1, passed=False)
print("the cell goes on")
"""


def remembering(path):
    environment = {"COURSE_PROGRESS": str(path), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True, check=True)


def test_in_a_kernel_that_a_person_watches_an_event_is_kept(tmp_path):
    for _ in range(2):
        remembering(tmp_path / "new" / "progress.jsonl")
    assert [event["id"] for event in progress.read_events(tmp_path / "new" / "progress.jsonl")] == ["04.1", "04.1"]


def test_a_file_that_cannot_be_written_costs_a_sentence_and_not_the_cell(tmp_path):
    (tmp_path / "file").touch()
    done = remembering(tmp_path / "file" / "progress.jsonl")
    assert done.stdout == "the cell goes on\n"
    assert "could not be saved" in done.stderr


def test_under_ci_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    monkeypatch.setenv("CI", "1")
    progress.remember("check", "04.1", points=1, passed=False)
    assert list(tmp_path.iterdir()) == []


def test_under_ci_the_last_cell_shows_what_a_lecture_asks_and_not_that_nothing_is_solved(monkeypatch, capsys):
    monkeypatch.setenv("CI", "1")
    progress.my_progress("04")
    asked = [item for item in exercises() if item.lecture == "04"]
    text = capsys.readouterr().out
    assert text.startswith(
        f"Lecture 04: {len(asked)} exercises, {sum(item.points for item in asked if not item.extra)} points. "
    )
    assert "0 of" not in text


def test_a_line_that_no_check_wrote_is_passed_over(tmp_path):
    """Lecturers read the files of a whole class."""
    file = tmp_path / "progress.jsonl"
    file.write_text("\n".join(["[" * 100_000, "9" * 6000, json.dumps(WRONG_THEN_RIGHT[0])]) + "\n")
    assert progress.read_events(file) == [WRONG_THEN_RIGHT[0]]


def test_progress_goes_to_another_machine_and_back(tmp_path, monkeypatch, capsys):
    here, exported = tmp_path / "here.jsonl", tmp_path / "exported.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(here))
    here.write_text(json.dumps(WRONG_THEN_RIGHT[0]) + "\n")
    progress.show_progress(export=exported)
    there = tmp_path / "there" / "progress.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(there))
    there.parent.mkdir()
    there.write_text(json.dumps(WRONG_THEN_RIGHT[2]) + "\n")
    progress.show_progress(other=exported)
    assert progress.read_events(there) == [WRONG_THEN_RIGHT[0], WRONG_THEN_RIGHT[2]]
    assert "Lecture 04: 1 of" in capsys.readouterr().out
    assert there.with_suffix(".html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_where_nothing_is_done_one_sentence_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    progress.show_progress()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Nothing is recorded yet. ")
    assert second.startswith("The page: ")


def test_importing_a_file_that_is_not_there_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "here.jsonl"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        progress.show_progress(other=tmp_path / "none.jsonl")
