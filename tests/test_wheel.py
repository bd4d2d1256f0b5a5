"""Sdist and wheel are complete: in an empty folder with only the wheel on the path, commands that need no checkout work."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest

import course_lib

ROOT = Path(__file__).parents[1]
NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "work")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
ANSWER = """
import math
from course_lib.attention import attend

def scaled_dot_product_attention(q, k, v, mask=None):
    return attend(q @ k.mT / math.sqrt(q.shape[-1]), v, mask)
"""
WITHOUT_SCALE = ANSWER.replace(" / math.sqrt(q.shape[-1])", "")

pytestmark = pytest.mark.slow


def run(*command: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path or ""), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist of a copy of the course."""
    copy, out = tmp_path_factory.mktemp("copy") / "course", tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    for folder in (".ci", ".binder", ".devcontainer", ".github"):
        shutil.copytree(ROOT / folder, copy / folder)
    shutil.copy(ROOT / ".dockerignore", copy)
    done = run("-c", BUILD, "build_sdist", str(out), cwd=copy)
    assert done.returncode == 0, done.stderr
    (packed,) = out.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(out, filter="data")
    return out / packed.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def site(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel, built from the sdist."""
    out, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    done = run("-c", BUILD, "build_wheel", str(out), cwd=sdist)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob(f"attention_course-{course_lib.__version__}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def names(root: Path, *folders: str) -> set[str]:
    """Return the files of the course in folders of a root, without caches of Python or other tools."""
    paths = [path.relative_to(root) for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    cache = re.compile(r"(^|/)(\.|__pycache__/)|\.pyc$")
    return {path.as_posix() for path in paths if not cache.search(path.as_posix())}


def test_the_sdist_holds_the_whole_course(sdist):
    folders = ("course_lib", "course_tools", "authoring", "lectures", "solutions", "tests", "benchmarks", "docs", "examples")
    assert names(ROOT, *folders) - names(sdist, *folders) == set()
    for name in (
        "course.py",
        "conftest.py",
        "environment.yml",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        ".ci/run",
        "Dockerfile",
        ".dockerignore",
        ".binder/postBuild",
        ".devcontainer/devcontainer.json",
        ".github/workflows/tests.yml",
    ):
        assert (sdist / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_holds_both_packages_their_data_and_the_lectures(site):
    assert names(site, "course_lib", "course_tools") == {
        *names(ROOT, "course_lib", "course_tools"),
        *(f"course_tools/unsolved/{name}" for name in names(ROOT, "lectures")),
        *(f"course_tools/recorded_studies/{path.name}" for path in (ROOT / "authoring" / "studies").glob("[0-9][0-9]_*.*")),
    }
    (metadata,) = site.glob("*.dist-info/METADATA")
    assert "Typing :: Typed" in metadata.read_text(encoding="utf-8")


def test_verdict_and_check_work_with_the_wheel_alone(site, tmp_path):
    code = (
        "import course_lib.attention; from course_tools.bank import verdict; from course_tools.notebook import check;"
        "right = course_lib.attention.scaled_dot_product_attention; print(course_lib.__file__);"
        "print(verdict('04.1', right).passed, check('04.1', right) is not None)"
    )
    done = run("-c", code, cwd=tmp_path, path=site)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(str(site))
    assert done.stdout.splitlines()[-1] == "True True"


def test_exercises_are_listed_with_the_wheel_alone(site, tmp_path):
    done = run("-m", "course_tools", "exercises", "--json", cwd=tmp_path, path=site)
    assert done.returncode == 0, done.stderr
    assert "04.1" in [item["id"] for item in json.loads(done.stdout)]


def test_notebooks_are_graded_with_the_wheel_alone(site, tmp_path):
    for student, answer in (("right", ANSWER), ("wrong", WITHOUT_SCALE)):
        cell = nbformat.v4.new_code_cell(answer, metadata={"exercise": "04.1"})
        (tmp_path / "handed_in" / student).mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "handed_in" / student / "04_self_attention.ipynb")
    done = run("-m", "course_tools", "grade", "handed_in", "--seed", "3", "-j", "1", cwd=tmp_path, path=site)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "handed_in_graded" / "grades.csv").open(encoding="utf-8", newline="") as table:
        points = {row["name"]: float(row["points"]) for row in csv.DictReader(table)}
    assert points["right"] > points["wrong"] > 0


@pytest.mark.parametrize("command", [["build"], ["lab"], ["run"], ["test"], ["export-nbgrader", "somewhere"]])
def test_what_needs_the_checkout_says_so_in_one_sentence(site, tmp_path, command):
    done = run("-m", "course_tools", *command, cwd=tmp_path, path=site)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == (
        "course: this command must run in the folder of the course, which contains course.py and authoring/.\n"
    )
    assert list(tmp_path.iterdir()) == []
