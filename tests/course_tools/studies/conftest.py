"""A toy study that takes milliseconds, in its own folder, and an executor in this process."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from course_tools.studies import Study, load

TOY = '''"""Does the second letter come later than the first?

Rivals: a and b. Budget: none.
"""

SETTINGS = {"a": 1, "b": 2}
GPU_SETTINGS = {"c": 3}
SEEDS = (0, 1)
TOLERANCE = {"score": 0.1, "curve": 0.1}
WROTE = {1: {}, 2: {"texts": {"sample": "Exit, pursued\\nby a bear — off"}}, 3: {}}


def run(setting, seed, device):
    if (setting, seed) == (2, 1) and (FOLDER / "broken").exists():
        raise FloatingPointError("the loss is nan")
    with (FOLDER / "ran").open("a") as log:
        log.write(f"{setting}{seed} ")
    return {"score": setting + seed / 3, "parameters": 7, "curve": {10: 0.25, 20: setting + seed / 3}} | WROTE[setting]


def finding(study):
    return f"{len(study.runs)} runs."
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "12_toy.py").write_text(
        TOY.replace("SETTINGS =", f"from pathlib import Path\n\nFOLDER = Path({str(tmp_path)!r})\nSETTINGS =", 1)
    )
    (tmp_path / "12_other.py").write_text(
        '"""Another?"""\n\nSETTINGS = {}\n\n\ndef run(setting, seed, device):\n    return {}\n'
    )
    return tmp_path


@pytest.fixture
def toy(folder: Path) -> Study:
    return load("12_toy", folder)


@pytest.fixture
def here() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def ran(folder: Path):
    """Return `ran()`: the runs done so far, as "10 11 " for setting 1 with the seeds 0 and 1."""
    return lambda: (folder / "ran").read_text() if (folder / "ran").exists() else ""
