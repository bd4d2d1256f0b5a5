"""Every lecture runs to its end as a student receives it, unsolved, with a few training steps.

With `--full` it runs on the pretend accelerator (tests/pretend_gpu) where there is a C++ compiler: a cell fails that names a
device, uses an operator that the device lacks, or converts to NumPy without `.cpu()`. nbval runs the solved lectures in full.
"""

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from course_tools.bank import exercises
from course_tools.publishing.execute import execute
from course_tools.publishing.outputs import code_cells
from course_tools.publishing.project import lectures
from tests.pretend_gpu import device

ROOT = Path(__file__).parents[1]
LECTURES = lectures(ROOT)
OF_AN_UNTRAINED_MODEL = re.compile("no answer has the length of two dates|mean requires at least one data point")
"""Errors of cells that analyse what a model has learned."""
PRETEND = "from tests.pretend_gpu import device; device.register()"
QUICK = "from tests.quick_training import quicken; quicken({})"
N_CHARACTERS, FEW_CHARACTERS = 12_000, 3_000
"""Of text to be read after training; lecture 17 reads all of it several times, and others name a place in it."""
END = """
import gc, torch
from course_lib.training import train
assert train.__code__.co_name == "few_steps"
print(sum(issubclass(type(x), torch.Tensor) and x.device.type == "pretend" for x in gc.get_objects()))
"""
"""The cell after the last: how many tensors are on the device, to detect a lecture that never used it."""


@pytest.mark.slow
@pytest.mark.parametrize("lecture", LECTURES, ids=[lecture.number for lecture in LECTURES])
def test_an_unsolved_lecture_runs_to_its_end(lecture, request):
    pretends = request.config.getoption("--full") and device.missing() is None
    notebook = nbformat.read(lecture.unsolved, as_version=4)
    for cell in notebook.cells:  # loops that a lecture writes out
        cell.source = cell.source.replace("range(steps)", "range(min(steps, 5))")
        cell.source = re.sub(r"for seed in range\(\d+\)", "for seed in range(1)", cell.source)
    quick = QUICK.format(FEW_CHARACTERS if lecture.number == "17" else N_CHARACTERS)
    before = [PRETEND, quick] if pretends else [quick]
    notebook.cells = [*map(new_code_cell, before), *notebook.cells, new_code_cell(END)]
    done = execute({lecture.number: (notebook, lecture.unsolved.parent)}, ROOT, timeout=1800)[lecture.number]
    assert [failure for failure in done.failures if not OF_AN_UNTRAINED_MODEL.search(failure)] == []
    n_on_the_device = int("".join(output.text for output in code_cells(notebook)[-1].outputs))
    assert (n_on_the_device > 0) is pretends


@pytest.mark.parametrize("lecture", LECTURES, ids=[lecture.number for lecture in LECTURES])
def test_a_build_task_needs_the_import_cell_and_its_own_section_alone(lecture, tmp_path):
    """After a restart a student runs these two: every name that the section uses is defined in them."""
    cells = nbformat.read(lecture.solution, as_version=4).cells
    imports = next(cell for cell in cells if cell.cell_type == "code" and "diagram" not in cell.metadata.get("tags", ()))
    for item in (item for item in exercises() if item.lecture == lecture.number and item.training is not None):
        at = next(n for n, cell in enumerate(cells) if f'= check("{item.id}"' in cell.source)
        back = takewhile(lambda cell: not re.search(r"^## ", cell.source, re.MULTILINE), cells[at::-1])
        section = [cell.source for cell in back if cell.cell_type == "code"][::-1]
        (tmp_path / f"task_{item.id}.py").write_text("\n\n".join([imports.source, *section]), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=F821", "--output-format=concise"]
    done = subprocess.run([*ruff, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
