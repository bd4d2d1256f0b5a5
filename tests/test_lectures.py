"""Every lecture runs to its end as a student receives it, unsolved, with a few training steps; several in one kernel.

With `--full` it runs on the pretend accelerator (tests/pretend_gpu) where there is a C++ compiler: a cell fails that names a
device, uses an operator that the device lacks, or converts to NumPy without `.cpu()`. nbval runs the solved lectures in full.
"""

import re
import subprocess
import sys
from itertools import product, takewhile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from course_tools.bank import exercises
from course_tools.publishing.execute import execute
from course_tools.publishing.project import lectures
from tests.pretend_gpu import device

ROOT = Path(__file__).parents[1]
LECTURES = lectures(ROOT)
OF_AN_UNTRAINED_MODEL = re.compile("no answer has the length of two dates|mean requires at least one data point")
"""Errors of cells that analyse what a model has learned."""
PRETEND = "from tests.pretend_gpu import device; device.register()"
QUICK = "from tests.quick_training import quicken; quicken()"
NEXT = "%reset -f\nfrom tests import quick_training; quick_training.n_characters = {}"
COUNT = """
import gc, torch
gc.collect()
print(sum(issubclass(type(x), torch.Tensor) and x.device.type == "pretend" for x in gc.get_objects()))
del gc, torch
"""
"""The cells before and after a lecture: how many tensors are on the device, to detect a lecture that never used it."""
N_CHARACTERS, FEW_CHARACTERS = 12_000, 3_000
"""Of text to be read after training; lecture 17 reads all of it several times, and others name a place in it."""
AT_A_TIME = 5
"""Lectures that share a kernel; each finds an empty name space."""
GROUPS = [LECTURES[i : i + AT_A_TIME] for i in range(0, len(LECTURES), AT_A_TIME)]
SHORTER = {
    r"range\(steps\)": "range(min(steps, 5))",
    r"for seed in range\(\d+\)": "for seed in range(1)",
    r"messages\(48_000": "messages(4_000",  # 05
    r"512, 1_024\)": "512)",  # 05
    r"112, 4, law": "8, 4, law",  # 19
    r"1_000\)\[:10\]": "1_000)[:1]",  # 19
}
"""What takes long in the cells of a lecture themselves."""


@pytest.mark.slow
@pytest.mark.parametrize("some", [pytest.param(some, id="-".join(each.number for each in some)) for some in GROUPS])
def test_unsolved_lectures_run_to_their_end(some, request):
    pretends = request.config.getoption("--full") and device.missing() is None
    cells, counts = [new_code_cell(source) for source in (PRETEND, QUICK)[not pretends :]], []
    for lecture in some:
        own = nbformat.read(lecture.unsolved, as_version=4).cells
        for cell, (long, short) in product(own, SHORTER.items()):
            cell.source = re.sub(long, short, cell.source)
        before, after = new_code_cell(COUNT), new_code_cell(COUNT)
        start = new_code_cell(NEXT.format(FEW_CHARACTERS if lecture.number == "17" else N_CHARACTERS))
        cells += [start, before, *own, after] if pretends else [start, *own]
        counts.append((lecture.number, before, after))
    notebook = nbformat.v4.new_notebook(cells=cells)
    done = execute({"": (notebook, lecture.unsolved.parent)}, ROOT, timeout=1800)[""]
    assert [failure for failure in done.failures if not OF_AN_UNTRAINED_MODEL.search(failure)] == []
    if pretends:
        found = {number: [int(cell.outputs[0].text) for cell in pair] for number, *pair in counts}
        assert [number for number, (before, after) in found.items() if after <= before] == []


def test_a_build_task_needs_the_import_cell_and_its_own_section_alone(tmp_path):
    """After a restart a student runs these two: every name that the section uses is defined in them."""
    for lecture in LECTURES:
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
