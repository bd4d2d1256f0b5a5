"""Everything runs on an accelerator other than the CPU: a pretend one, in a separate process (tests/pretend_gpu)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pretend_gpu import device

FOLDER = Path(__file__).parent / "pretend_gpu"
PARTS = sorted(path.stem for path in FOLDER.glob("on_*.py"))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.pretend_gpu
@pytest.mark.parametrize("part", PARTS)
def test_on_the_pretend_accelerator(part):
    """The device cannot be removed from a process, so no other test may share the process."""
    if lacks := device.missing():
        pytest.skip(lacks)
    device.build()
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=short", str(FOLDER / f"{part}.py")]
    done = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=FOLDER.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_without_a_compiler_there_is_a_reason_to_skip(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    assert device.missing() == "the pretend accelerator needs a C++ compiler: no-such-compiler was not found"


def test_the_parts_are_found():
    assert {"on_mechanisms", "on_models", "on_losses", "on_datasets", "on_exercises", "on_faults"} <= set(PARTS)
