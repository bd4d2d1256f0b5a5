"""Run solved lectures on the pretend accelerator: `python -m tests.pretend_gpu [NN …]`, all of them without a number.

Training stops after five steps, so claims are printed and not asserted, and what follows from an untrained model may fail, such
as a division by zero. A lecture fails here where a cell names a device, an unknown operator, or a conversion to NumPy.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

from course_tools.publishing.execute import execute
from course_tools.publishing.outputs import code_cells, first_line
from course_tools.publishing.project import lectures
from tests.pretend_gpu import device

ROOT = Path(__file__).parents[2]
OF_A_DEVICE = re.compile(
    r"same device|generator|can't convert|Could not run|not implemented for|pretend|should be the same|\bdevice\b",
    re.IGNORECASE,
)
START = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.pretend_gpu import device
device.register()
import course_lib.training, course_tools.notebook
runpy.run_path({str(ROOT / "tests" / "quick_training.py")!r})
"""
"""The cell before the first: the device, and few training steps."""

END = """
import gc, torch
print(sum(issubclass(type(x), torch.Tensor) and x.device.type == "pretend" for x in gc.get_objects()))
"""
"""The cell after the last: how many tensors are on the device, to detect a lecture that never used it."""


def main(numbers: list[str]) -> int:
    """Print the errors of each lecture; return 1 if an error mentions a device, else 0."""
    if lacks := device.missing():
        print(lacks, file=sys.stderr)
        return 2
    device.build()
    status = 0
    for lecture in lectures(ROOT, numbers):
        notebook = nbformat.read(lecture.solution, as_version=4)
        n_cells = len(code_cells(notebook))
        notebook.cells = [nbformat.v4.new_code_cell(START), *notebook.cells, nbformat.v4.new_code_cell(END)]
        done = execute({lecture.number: (notebook, lecture.solution.parent)}, ROOT, timeout=1800)[lecture.number]
        raised = list(errors(done.notebook))
        of_a_device = [error for error in raised if OF_A_DEVICE.search(error)]
        dead = [failure for failure in done.failures if "died" in failure or "still running" in failure]
        there = "".join(output.get("text", "") for output in done.notebook.cells[-1].outputs).strip() or "unknown"
        status |= bool(of_a_device or dead)
        cost = f"{n_cells} cells, {done.seconds:.0f} s, {there} tensors on the device"
        print(f"{lecture.number}: {cost}, {len(of_a_device)} errors of a device", flush=True)
        for error in raised + dead:
            print(f"  {'✗' if error in of_a_device or error in dead else '·'} {error}", flush=True)
    return status


def errors(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Return each error in one line, with the number of its cell, not counting the first."""
    for index, cell in enumerate(code_cells(notebook)):
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", ()):
                yield f"cell {index}: {output.ename}: {first_line(output.evalue)}"[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
