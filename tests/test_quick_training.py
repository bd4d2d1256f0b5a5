"""Unsolved lectures train for a few steps; solved ones, run by the same process, train in full."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[1]
FILES = ("conftest.py", "pyproject.toml", "tests/quick_training.py", "tests/nbval_sanitize.cfg")
TRAINS = """\
import os
from course_lib.training import train
from course_tools.notebook import claim
assert (train.__code__.co_name == "few_steps") is {quick}
assert (claim.__code__.co_name == "stated") is {quick}
assert (os.environ.get("IPYTHONDIR") == {own!r}) is not {quick}
"""


@pytest.mark.slow
@pytest.mark.parametrize("own", [None, "own"])
def test_only_unsolved_lectures_train_briefly(tmp_path, own):
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    own = own and str(tmp_path / own)
    order = ["lectures/01.ipynb", "solutions/01.ipynb"]
    for name in order:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        cell = new_code_cell(TRAINS.format(quick="lectures" in name, own=own))
        write(new_notebook(cells=[cell]), tmp_path / name)
    environment = {name: value for name, value in os.environ.items() if name != "IPYTHONDIR" and not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"IPYTHONDIR": own} if own else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--full", *order]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
