"""Every solved lecture runs on the pretend accelerator, with few training steps (tests/pretend_gpu)."""

import subprocess
import sys
from pathlib import Path

import pytest

from course_tools.publishing.project import lectures
from tests.pretend_gpu import device

ROOT = Path(__file__).parents[1]
solved_lectures = lectures(ROOT)


@pytest.mark.full
@pytest.mark.pretend_gpu
@pytest.mark.parametrize("lecture", solved_lectures, ids=[lecture.number for lecture in solved_lectures])
def test_no_cell_fails_because_of_the_device(lecture):
    """A cell that names a device, an operator that the device lacks, a conversion to NumPy without `.cpu()`."""
    if lacks := device.missing():
        pytest.skip(lacks)
    command = [sys.executable, "-m", "tests.pretend_gpu", lecture.number]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{lecture.number}: " in done.stdout
    assert " 0 tensors on the device" not in done.stdout
