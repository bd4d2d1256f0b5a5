"""`course test [--full]`: the tests, in parallel if pytest-xdist is installed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def run_tests(root: Path, arguments: Sequence[str] = ()) -> int:
    """Run pytest on the project, from its root.

    Args:
        root: the folder of the course.
        arguments: passed to pytest; `-n` overrides the number of workers chosen here.

    Returns:
        pytest's exit status.
    """
    workers = []
    if find_spec("xdist") and not any(argument.startswith(("-n", "--numprocesses", "--pdb")) for argument in arguments):
        workers = ["-n", str(max(2, min(4, os.cpu_count() or 2)))]
    return subprocess.run([sys.executable, "-m", "pytest", *workers, *arguments], cwd=root, check=False).returncode
