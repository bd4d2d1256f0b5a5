"""The wheel is the library alone and works in an empty folder; the course works from its checkout, editable or copied."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import nbformat
import pytest

import course_lib

ROOT = Path(__file__).parents[1]
NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "work", "solutions", "tests")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
ANSWER = """
import math
from course_lib.attention import attend

def scaled_dot_product_attention(q, k, v, mask=None):
    return attend(q @ k.mT / math.sqrt(q.shape[-1]), v, mask)
"""
WITHOUT_SCALE = ANSWER.replace(" / math.sqrt(q.shape[-1])", "")
USE = """
import pkgutil, torch, course_lib
modules = [module.name for module in pkgutil.walk_packages(course_lib.__path__, "course_lib.")]
for name in modules:
    __import__(name)
from course_lib.attention import MultiHead
from course_lib.fast import fused_causal_attention
x = torch.ones(1, 5, 6)
print(course_lib.__file__, len(modules), *MultiHead(6, 2, fused_causal_attention)(x, x, x).context.shape)
"""

pytestmark = pytest.mark.slow


def run(*command: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path or ""), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False
    )


def built(kind: str, folder: Path, out: Path) -> Path:
    """Build an sdist, a wheel or an editable wheel of a folder."""
    done = run("-c", BUILD, f"build_{kind}", str(out), cwd=folder)
    assert done.returncode == 0, done.stderr
    (found,) = out.iterdir()
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course."""
    copy = tmp_path_factory.mktemp("copy") / "course"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    return copy


@pytest.fixture(scope="module")
def site(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel, built from the sdist."""
    unpacked, site = tmp_path_factory.mktemp("unpacked"), tmp_path_factory.mktemp("site")
    with tarfile.open(built("sdist", checkout, tmp_path_factory.mktemp("sdist"))) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    wheel = built("wheel", source, tmp_path_factory.mktemp("wheel"))
    assert wheel.name == f"attention_course-{course_lib.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.fixture(scope="module")
def container(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course without its sources, as in Gradescope's container: the two packages and the lectures."""
    copy = tmp_path_factory.mktemp("container")
    for folder in ("course_lib", "course_tools", "lectures"):
        shutil.copytree(checkout / folder, copy / folder)
    return copy


def names(root: Path) -> set[str]:
    """Return the files in a folder, without caches of Python."""
    paths = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return {path for path in paths if not re.search(r"(^|/)__pycache__/|\.pyc$", path)}


def test_the_wheel_holds_the_library_and_nothing_of_the_course(site):
    assert {path for path in names(site) if ".dist-info/" not in path} == {
        f"course_lib/{name}" for name in names(ROOT / "course_lib")
    }


def test_the_wheel_needs_any_torch_from_the_oldest_on_and_three_small_packages(site):
    (path,) = site.glob("*.dist-info/METADATA")
    metadata = message_from_string(path.read_text(encoding="utf-8"))
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert "torch>=2.11" in needed
    assert len(needed) == 4
    assert "data" in metadata.get_all("Provides-Extra")
    assert "Typing :: Typed" in metadata.get_all("Classifier")


def test_every_module_of_the_wheel_is_imported_in_an_empty_folder(site, tmp_path):
    done = run("-c", USE, cwd=tmp_path, path=site)
    assert done.returncode == 0, done.stderr
    file, n_modules, *shape = done.stdout.split()
    assert file.startswith(str(site))
    assert int(n_modules) > 100
    assert shape == ["1", "5", "6"]


def test_an_editable_installation_puts_the_course_on_the_path(checkout, tmp_path):
    with zipfile.ZipFile(built("editable", checkout, tmp_path)) as archive:
        (pointer,) = [name for name in archive.namelist() if name.endswith(".pth")]
        assert Path(archive.read(pointer).decode().strip()) == checkout


def test_verdict_and_check_work_outside_the_checkout(checkout, tmp_path):
    code = (
        "import course_lib.attention; from course_tools.bank import verdict; from course_tools.notebook import check;"
        "right = course_lib.attention.scaled_dot_product_attention; print(course_lib.__file__);"
        "print(verdict('04.1', right).passed, check('04.1', right) is not None)"
    )
    done = run("-c", code, cwd=tmp_path, path=checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(str(checkout))
    assert done.stdout.splitlines()[-1] == "True True"


def test_exercises_are_listed_outside_the_checkout(checkout, tmp_path):
    done = run("-m", "course_tools", "exercises", "--json", cwd=tmp_path, path=checkout)
    assert done.returncode == 0, done.stderr
    assert "04.1" in [item["id"] for item in json.loads(done.stdout)]


@pytest.mark.full
def test_notebooks_are_graded_by_a_copy_without_sources(container, tmp_path):
    for student, answer in (("right", ANSWER), ("wrong", WITHOUT_SCALE)):
        cell = nbformat.v4.new_code_cell(answer, metadata={"exercise": "04.1"})
        (tmp_path / "handed_in" / student).mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "handed_in" / student / "04_self_attention.ipynb")
    done = run("-m", "course_tools", "grade", "handed_in", "--seed", "3", "-j", "1", cwd=tmp_path, path=container)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "handed_in_graded" / "grades.csv").open(encoding="utf-8", newline="") as table:
        points = {row["name"]: float(row["points"]) for row in csv.DictReader(table)}
    assert points["right"] > points["wrong"] > 0


COMMANDS = [["build"], ["lab"], ["run"], ["test"], ["export-nbgrader", "somewhere"]]
CALL_EACH = "from course_tools.cli import main; print([main(command) for command in {}])"


def test_what_needs_the_sources_says_so_in_one_sentence(container, tmp_path):
    done = run("-c", CALL_EACH.format(COMMANDS), cwd=tmp_path, path=container)
    assert done.stdout == f"{[2] * len(COMMANDS)}\n", done.stdout + done.stderr
    assert done.stderr.splitlines() == [
        "course: this command must run in the folder of the course, which contains course.py and authoring/."
    ] * len(COMMANDS)
    assert list(tmp_path.iterdir()) == []
