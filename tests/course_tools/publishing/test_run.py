"""`course run` on made solutions: table, JSON, failed claims, a dying kernel."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from course_tools.publishing import PublishingFailed, UnknownLecture
from course_tools.publishing.build import text
from course_tools.publishing.claims_table import json_value, number_in_words
from course_tools.publishing.run import run

CLAIM = """
from IPython.display import display
def claim(id, value, held=True):
    made = {"id": id, "text": f"It works: {value}.", "values": {"x": value}, "holds": ["x >= 1"], "held": held}
    display({"text/plain": id}, metadata={"course_claim": made}, raw=True)
    assert held, id
"""


@pytest.fixture
def solution(course, author):
    """Return `solution(number, *cells)`: a lecture of the course whose solution has these cells."""
    (course / "authoring" / "04_tiny.py").unlink()
    (course / "solutions").mkdir()

    def make(number: str, *sources: str):
        author(f"{number}_made", f"# %% [markdown]\n# # {number} · Made\n")
        notebook = new_notebook(cells=[new_code_cell(CLAIM), *map(new_code_cell, sources)])
        (course / "solutions" / f"{number}_made.ipynb").write_text(text(notebook), encoding="utf-8")
        return course

    return make


def test_claims_of_all_lectures_stand_in_one_table_and_in_the_json(solution, capsys):
    solution("01", "claim('01.a', 2.0)", "claim('01.b', [1, 2])")
    course = solution("02", "claim('02.a', 1.235)")
    assert run(course, json_file=course / "out.json") == 0
    printed = capsys.readouterr().out
    assert printed.index("01.a") < printed.index("01.b") < printed.index("02.a") < printed.index("peak memory")
    assert "1.235" in printed
    assert "01 Made" in printed
    (first, second) = json.loads((course / "out.json").read_text(encoding="utf-8"))["lectures"]
    assert set(first) == {"lecture", "seconds", "peak_mb", "claims"}
    assert (first["lecture"], second["lecture"]) == ("01", "02")
    assert first["claims"][1] == {
        "id": "01.b",
        "text": "It works: [1, 2].",
        "values": {"x": [1, 2]},
        "holds": ["x >= 1"],
        "held": True,
    }
    assert first["seconds"] > 0
    assert first["peak_mb"] > 10


def test_a_claim_that_fails_is_shown_and_the_rest_runs_on(solution, capsys):
    course = solution("01", "claim('01.a', 0.5, held=False)", "claim('01.b', 2)")
    assert run(course, json_file=course / "out.json") == 1
    printed = capsys.readouterr().out
    assert "✗  01.a" in printed
    assert "✓  01.b" in printed
    assert "✗ lecture 01, cell 2 (claim('01.a', 0.5, held=False)) raised AssertionError: 01.a" in printed
    assert [claim["held"] for claim in json.loads((course / "out.json").read_text())["lectures"][0]["claims"]] == [False, True]


def test_a_kernel_that_dies_is_reported_in_one_line_and_the_status_is_1(solution, capsys):
    course = solution("01", "import os\nos._exit(1)", "claim('01.a', 2)")
    assert run(course, json_file=course / "out.json") == 1
    assert "✗ lecture 01, cell 2 (import os): the kernel died" in capsys.readouterr().out
    assert json.loads((course / "out.json").read_text())["lectures"][0]["claims"] == []


def test_a_value_that_json_cannot_hold_does_not_break_it(solution):
    course = solution("01", "claim('01.a', float('nan'))", "claim('01.b', 2)")
    assert run(course, json_file=course / "out.json") == 0
    claims = json.loads((course / "out.json").read_text(), parse_constant=pytest.fail)["lectures"][0]["claims"]
    assert [claim["values"]["x"] for claim in claims] == ["nan", 2]


def test_what_is_not_there_is_refused_before_anything_runs(solution):
    course = solution("01", "1")
    with pytest.raises(UnknownLecture, match="the course has: 01 Made"):
        run(course, ["09"])
    with pytest.raises(PublishingFailed, match="there is no folder"):
        run(course, ["01"], json_file=course / "nowhere" / "out.json")
    (course / "solutions" / "01_made.ipynb").unlink()
    with pytest.raises(PublishingFailed, match=r"solutions/01_made\.ipynb does not exist: run `python course\.py build 01`"):
        run(course, ["1"])


@pytest.mark.parametrize(
    ("value", "held", "words"),
    [
        (float("nan"), "nan", "nan"),
        (float("inf"), "inf", "inf"),
        ([1.0, float("nan")], "[1.0, nan]", "[1, nan]"),
        ({1}, "{1}", "{1}"),
        (True, True, "yes"),
        (0.123456, 0.123456, "0.1235"),
        ("word", "word", "word"),
        (list(range(9)), list(range(9)), "[0, 1, 2, 3, 4, 5, 6, 7, …]"),
        (None, None, "None"),
    ],
)
def test_values_in_json_and_in_words(value, held, words):
    assert json_value(value) == held
    assert number_in_words(value) == words


@pytest.mark.parametrize(
    ("assigned", "read", "value"),
    [
        ("SEEDS = (0, 1, 2)", "sum(SEEDS)", 33),
        ("SEEDS, T, steps = (0, 1), 8, 300", "sum(SEEDS) + T + steps", 329),
        ("SEED, N = 0, 7", "SEED + N", 17),
    ],
)
def test_other_seeds_take_the_place_of_those_of_the_lecture(solution, assigned, read, value):
    course = solution("01", assigned, f"claim('01.a', {read})")
    stored = (course / "solutions" / "01_made.ipynb").read_bytes()
    assert run(course, json_file=course / "out.json", seeds=(10, 11, 12, 13)) == 0
    assert json.loads((course / "out.json").read_text())["lectures"][0]["claims"][0]["values"]["x"] == value
    assert (course / "solutions" / "01_made.ipynb").read_bytes() == stored


def test_a_lecture_without_seeds_is_named_and_too_few_seeds_are_refused(solution, capsys):
    course = solution("01", "n_SEEDS = 3", "claim('01.a', 2)")
    solution("02", "SEEDS = (0, 1, 2)")
    with pytest.raises(PublishingFailed, match="lecture 02 trains with 3 seeds; give 3 or more"):
        run(course, seeds=(10, 11))
    with pytest.raises(PublishingFailed, match="the seeds 1, 2, 1 are not all different"):
        run(course, seeds=(1, 2, 1))
    assert run(course, seeds=(0, 1, 2)) == 0
    assert "write no seed as a number, and run as they are: 01." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("from torch import manual_seed\nx = manual_seed(3).initial_seed()", 13),
        ("def learn(rate, seed=0):\n    return seed\nx = learn(1)", 10),
        ("x = list(dict(seeds=(0, 1), n_seeds=5)['seeds'])", [10, 11]),
    ],
)
def test_seeds_that_a_lecture_writes_as_numbers_are_moved(solution, written, value):
    course = solution("01", written, "claim('01.a', x)")
    assert run(course, json_file=course / "out.json", seeds=(10, 12)) == 0
    assert json.loads((course / "out.json").read_text())["lectures"][0]["claims"][0]["values"]["x"] == value


def test_the_number_of_threads_reaches_the_kernel(solution):
    course = solution("01", "import torch\nclaim('01.a', torch.get_num_threads())")
    assert run(course, json_file=course / "out.json", threads=2) == 0
    written = json.loads((course / "out.json").read_text())
    assert (written["seeds"], written["threads"]) == (None, 2)
    assert written["lectures"][0]["claims"][0]["values"]["x"] == 2
