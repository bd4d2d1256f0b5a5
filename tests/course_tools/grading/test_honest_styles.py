"""Honest notebooks in sixty styles lose nothing: the answers earn in the grader what they earn in a real notebook."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_tools.bank import exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook
from course_tools.grading.sandbox.readable_files import readable
from course_tools.grading.sandbox.worker import scratch_folder
from tests.course_tools.grading.conftest import submitted
from tests.course_tools.grading.odd_answers import BODY, HEAD
from tests.course_tools.grading.student_notebooks import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="answers have files only on Linux")
ASKED = exercise("04.1")
TEXT = Path(__file__).with_name("honest_styles.txt").read_text(encoding="utf-8")
PARTS = TEXT.replace("/tmp/", f"{scratch_folder(readable())}/").split("\n### ")[1:]
STYLES = {name: source.rstrip() for name, _, source in (part.partition("\n") for part in PARTS)}
GROUPS = [list(STYLES)[i : i + 8] for i in range(0, len(STYLES), 8)]
IN_A_NOTEBOOK = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from course_tools.bank import verdict

class Notebook(InteractiveShell):
    def enable_gui(self, gui=None):
        return None

points = []
for cells in json.load(sys.stdin):
    shell = Notebook()
    shell.user_ns["get_ipython"] = lambda: shell
    for cell in cells:
        shell.run_cell(cell)
    points.append(verdict("04.1", shell.user_ns["scaled_dot_product_attention"], 0).points)
print(json.dumps(points), file=sys.stderr)
"""


def cells_of(names: list[str]) -> list[str]:
    """The cells of styles, and last that of an answer that is right if their facts hold the first time that it is called."""
    cells, facts = [], []
    for name in names:
        source, _, fact = STYLES[name].partition("\n# fact\n")
        cells += [cell.strip("\n") for cell in source.split("# %%\n")]
        facts.append(f"    {name!r}: lambda: {fact.strip()},")
    listed = "FACTS = {\n" + "\n".join(facts) + "\n}"
    test = "    while FACTS:\n        style, holds = FACTS.popitem()\n        assert holds(), style"
    return [*cells, f"{listed}\n\n{HEAD}\n{test}\n{BODY}"]


def points_in_the_grader(engine, names: list[str]) -> int:
    *cells, answer = cells_of(names)
    handed_in = [*(Cell("code", "", {}, cell) for cell in cells), *submitted(ASKED, answer)]
    return engine.mark(Notebook(handed_in, ASKED.lecture), ASKED).points


@pytest.fixture(scope="module")
def points_in_a_notebook(tmp_path_factory) -> list[int]:
    """The points of each group by the notebook's own check, in IPython."""
    folder = tmp_path_factory.mktemp("notebook")
    imports = "import math\nimport torch\nfrom torch import nn\nfrom course_lib.attention import attend"
    plain = {"PATH": os.defpath, "HOME": str(folder), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK],
        input=json.dumps([[imports, *cells_of(names)] for names in GROUPS]),
        cwd=folder,
        env={**plain, "PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


def test_there_are_sixty():
    assert len(STYLES) >= 60


@pytest.mark.parametrize("number", range(len(GROUPS)), ids=lambda number: GROUPS[number][0])
def test_what_is_right_in_a_notebook_is_right_in_the_grader(number, engine, points_in_a_notebook):
    names = GROUPS[number]
    assert points_in_a_notebook[number] == ASKED.points
    if points_in_the_grader(engine, names) != ASKED.points:
        assert [name for name in names if points_in_the_grader(engine, [name]) != ASKED.points] == []
        pytest.fail(f"the styles {names} lose points together")


def test_a_fact_that_does_not_hold_would_be_seen(engine, monkeypatch):
    """Else the tests above would pass whatever the styles do."""
    monkeypatch.setitem(STYLES, "wrong", "x = 1\n# fact\nx == 2")
    assert points_in_the_grader(engine, ["wrong"]) == 0
