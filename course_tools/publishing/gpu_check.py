"""`course gpu-check`: run the tests and timings that need a GPU, and write a report (docs/gpu.md)."""

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from course_tools.publishing.project import PublishingFailed

PARTS: Mapping[str, Sequence[str]] = {
    "Tests marked gpu": ("pytest", "-q", "-m", "gpu", "tests"),
    "Lectures, a few training steps each": ("pytest", "-q", "tests/test_lectures.py"),
    "Speed and memory": ("benchmarks.gpu",),
}
"""The parts of the report, each a module run by this Python with its arguments."""

KEPT_LINES = 40
"""Number of last lines of each part that the report quotes."""


def gpu_in_words() -> str | None:
    """Describe the CUDA GPU that torch finds, in one line; None if it finds none."""
    import torch

    if not torch.cuda.is_available():
        return None
    found = torch.cuda.get_device_properties(0)
    cudnn = torch.backends.cudnn.version()
    return (
        f"{found.name}, {found.total_memory / 2**30:.0f} GiB, compute capability {found.major}.{found.minor}; "
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn}; Python {platform.python_version()}"
    )


def gpu_check(
    root: Path,
    report: Path,
    parts: Mapping[str, Sequence[str]] = PARTS,
    describe: Callable[[], str | None] = gpu_in_words,
) -> int:
    """Run all parts, one after the other, and write their results as Markdown.

    Args:
        root: the folder of the course.
        report: the file to write; an existing file is overwritten.
        parts: title -> a module and its arguments.
        describe: returns a description of the GPU, or None if there is none.

    Returns:
        the exit status: 0, or 1 if a part failed.

    Raises:
        PublishingFailed: there is no GPU, or no folder for the report.
    """
    machine = describe()
    if machine is None:
        raise PublishingFailed("gpu-check needs a CUDA GPU, but torch finds none on this machine: nothing was run.")
    if not report.absolute().parent.is_dir():
        raise PublishingFailed(f"there is no folder {report.parent} to write {report.name} into")
    written = [f"# GPU check\n\n{machine}  \n{datetime.now(UTC):%Y-%m-%d}, written by `course gpu-check`\n"]
    failed = []
    for title, arguments in parts.items():
        print(f"{title} …", flush=True)
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", *arguments], cwd=root, capture_output=True, text=True, errors="replace")
        if done.returncode:
            failed.append(title)
        outcome = f"failed with status {done.returncode}" if done.returncode else "passed"
        said = "\n".join((done.stdout + done.stderr).rstrip().splitlines()[-KEPT_LINES:])
        command = " ".join(("python -m", *arguments))
        seconds = time.monotonic() - started
        written.append(f"## {title}: {outcome}\n\n`{command}`, {seconds:.0f} s\n\n```\n{said}\n```\n")
        report.write_text("\n".join(written), encoding="utf-8")
    print(f"wrote {report}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0
