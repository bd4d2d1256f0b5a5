"""A bug planted in a copy of the library makes the solution of its lecture fail under nbval, at the corresponding check."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_tools.publishing import lectures

REPOSITORY = Path(__file__).parents[3]

PLANTED = {
    "the scale": (
        "04",
        "attention/dot_product.py",
        "scores = q @ k.mT / math.sqrt(d_k)",
        "scores = q @ k.mT / d_k**0.25",
        "04.1",
    ),
    "the mask": (
        "02",
        "attention/core.py",
        "torch.where(mask | empty, scores, -torch.inf)",
        "torch.where(~mask | empty, scores, -torch.inf)",
        "02.4",
    ),
    "the order of the gates": (
        "01",
        "primitives/recurrent.py",
        "i, f, g, o = gates.chunk",
        "f, i, g, o = gates.chunk",
        "01.4",
    ),
}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(("number", "file", "right", "wrong", "exercise"), PLANTED.values(), ids=PLANTED)
def test_a_planted_bug_fails_the_solution(tmp_path, number, file, right, wrong, exercise):
    (lecture,) = lectures(REPOSITORY, [number])
    for package in ("course_lib", "course_tools", "authoring/studies"):
        shutil.copytree(REPOSITORY / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml", "tests/nbval_sanitize.cfg", lecture.name(lecture.solution)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    planted = tmp_path / "course_lib" / file
    source = planted.read_text(encoding="utf-8")
    assert source.count(right) == 1
    planted.write_text(source.replace(right, wrong), encoding="utf-8")

    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    options = ["-x", "--full", "-p", "no:cacheprovider", "--color=no"]
    command = [sys.executable, "-m", "pytest", *options, lecture.name(lecture.solution)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    failed = re.search(r"Input:\n(.*?)Traceback:\n(.*)", done.stdout, flags=re.DOTALL)
    assert done.returncode == 1, done.stdout
    assert f'check("{exercise}"' in failed[1], done.stdout
    assert f"✗ {exercise}" in failed[2], done.stdout
