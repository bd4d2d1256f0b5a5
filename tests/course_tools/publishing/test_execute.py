"""Notebooks run in real kernels: results, time, memory, and every way to fail."""

import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_tools.publishing.execute import execute, kernel_environment


def notebook(*sources: str, tags: tuple[str, ...] = ()):
    cells = [new_code_cell(source, metadata={"tags": list(tags)}) for source in sources]
    return new_notebook(cells=[new_markdown_cell("# A title"), *cells])


def executed(tmp_path: Path, *sources: str, timeout: float = 60.0, tags: tuple[str, ...] = ()):
    return execute({"a": (notebook(*sources, tags=tags), tmp_path)}, tmp_path, timeout=timeout)["a"]


def test_a_notebook_runs_in_its_folder_with_this_interpreter(tmp_path):
    done = executed(tmp_path, "import os, sys\nprint(sys.executable)\nprint(os.getcwd())\nprint(os.environ['PYTHONPATH'])")
    assert done.failures == []
    python, folder, path = done.notebook.cells[1].outputs[0].text.split("\n")[:3]
    assert Path(python).samefile(sys.executable)
    assert Path(folder).samefile(tmp_path)
    assert path.startswith(str(tmp_path))


def test_time_and_memory_are_those_of_the_kernel(tmp_path):
    done = executed(tmp_path, "import time\nheld = b'x' * 300 * 2**20\ntime.sleep(0.6)")
    small = executed(tmp_path, "1")
    assert done.seconds > 0.6
    assert done.peak_mb - small.peak_mb == pytest.approx(300, abs=60)


@pytest.mark.full
def test_processor_time_counts_the_kernel_and_what_it_starts_and_no_waiting(tmp_path):
    compute = "import time\nwhile time.process_time() < 1.5: pass"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {compute!r}])"
    done = executed(tmp_path, compute, child, "import time\ntime.sleep(1.0)")
    assert 2.8 < done.processor_seconds <= done.seconds


def test_a_failing_cell_is_named_and_the_next_one_runs(tmp_path):
    done = executed(tmp_path, "# the reason\n1 / 0", "print('still here')")
    assert done.failures == ["cell 2 (1 / 0) raised ZeroDivisionError: division by zero"]
    assert done.notebook.cells[2].outputs[0].text == "still here\n"


def test_what_a_cell_prints_is_one_output_however_it_was_flushed(tmp_path):
    done = executed(tmp_path, "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.4)")
    assert [output.text for output in done.notebook.cells[1].outputs] == ["0\n1\n2\n"]


def test_a_cell_that_should_raise_and_does_not_is_a_failure(tmp_path):
    assert executed(tmp_path, "1 / 0", tags=("raises-exception",)).failures == []
    (line,) = executed(tmp_path, "1", tags=("raises-exception",)).failures
    assert line == "cell 2 (1) is tagged raises-exception but raised no exception"


def test_a_kernel_that_dies_is_named_with_its_cell_and_other_notebooks_run_on(tmp_path):
    dying = notebook("x = 1", "import os\nos._exit(1)", "print('never')")
    dying.cells[3].outputs = [{"output_type": "stream", "name": "stdout", "text": "stored before\n"}]
    done = execute({"dying": (dying, tmp_path), "well": (notebook("2 + 2"), tmp_path)}, tmp_path, timeout=600.0)
    (line,) = done["dying"].failures
    assert line.startswith("cell 3 (import os): the kernel died with exit status 1")
    assert done["dying"].notebook.cells[3].outputs == []
    assert done["well"].failures == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_kernel_that_is_killed_names_the_signal(tmp_path):
    (line,) = executed(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)").failures
    assert line == "cell 2 (import os, signal): the kernel died by SIGKILL, possibly out of memory"


def test_a_cell_without_end_is_stopped_and_named(tmp_path):
    done = executed(tmp_path, "while True: pass", timeout=1.0)
    assert done.failures == ["cell 2 (while True: pass): still running after 1 s"]


def test_what_an_interactive_raises_is_a_failure(tmp_path):
    source = "import ipywidgets\ndef draw(n):\n    raise ValueError('inside')\nipywidgets.interact(draw, n=(1, 3));"
    assert executed(tmp_path, source).failures == ["cell 2 (import ipywidgets) raised ValueError: inside"]


def test_interactives_that_print_a_lot_do_not_stall(tmp_path):
    draw = "def draw(n):\n    for i in range(30): print(i, flush=True)\n"
    source = f"import ipywidgets\n{draw}ipywidgets.interact(draw, n=(1, 3));"
    done = executed(tmp_path, *[source] * 15, timeout=600.0)
    assert done.failures == []


def test_kernels_are_pinned_and_silent():
    environment = kernel_environment(Path("/course"))
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "1"
    assert environment["CI"]
