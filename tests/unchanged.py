"""Skip slow tests while everything that they depend on is unchanged since they last passed.

A test marked `exhaustive` tries every mutant, every answer of the bank on twenty seeds, or every answer in the sandbox, in the
notebook's check or in a report. Its exercise has a digest: of its bank file and each file of the course that this imports,
directly or not, of the exhaustive tests and what they import, and of the versions of Python, torch and NumPy; one digest for
the tests of the bank, and one for each other folder of tests, such as "grading/04.1", where the lecture's code counts as well.
A lecture has a digest, too: of its cells and the outputs that nbval compares, of each file of the course that they import, of
its exercises and recorded studies, and of the versions of all packages in use. A file of tests that names its `INPUTS`, files
and folders of the course, has a digest of these, of itself and of what it imports. `tests/exhaustive.json` records the digests
with which all of it passed; while one is the same, its tests are skipped. What asks the machine itself, such as the attacks on
the sandbox, is never skipped. `course test --record` notes what passed, and `course test --exhaustive` runs everything first.
"""

import contextlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module, metadata
from pathlib import Path

import pytest

from course_tools import source_digest

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "exhaustive.json"
ON_A_DEVICE = "pretend_gpu/"
"""Before the name of a solved lecture: its run on the pretend accelerator."""


def recorded() -> dict[str, str]:
    """Map each key to the digest with which its tests last passed."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(passed: dict[str, str]) -> None:
    """Update the recorded digests."""
    text = json.dumps(dict(sorted({**recorded(), **passed}.items())), indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8", newline="\n")


def digest(module: str, root: Path = ROOT, trains: bool = False) -> str:
    """Hash a bank file, the engine that judges it, all project files that these import, the tests of the bank, and versions.

    Args:
        module: the dotted name of the bank file, such as "course_tools.bank.lecture_04.multi_head_attention".
        root: the folder of the course.
        trains: whether it is a build task, which further tests try.
    """
    lecture = module.split(".")[-2]
    tests = [path for pattern in ("*.py", "*.toml") for path in (root / "tests/course_tools/bank").rglob(pattern)]
    modules = [module, "course_tools.bank", f"tests.course_tools.bank.answers.{lecture}"]
    files = source_digest.imported_files(modules, root, lambda file: not _lists_a_lecture(file))
    files.update(path for path in tests if _matters(path, lecture) and (trains or path.name != "test_build_tasks.py"))
    return source_digest.digest(files, root, " ".join(_own_versions()))


def file_digest(file: Path, inputs: Iterable[str], root: Path = ROOT) -> str:
    """Hash a file of tests, all project files that it imports, and the files that it declares as dependencies.

    Args:
        file: such as tests/test_pretend_gpu.py.
        inputs: files and folders, relative to the root; of a folder every file counts.
        root: the folder of the course.

    Raises:
        FileNotFoundError: there is nothing at one of the inputs.
    """
    files = source_digest.imported_files([".".join(file.relative_to(root).with_suffix("").parts)], root)
    for path in (root / name for name in inputs):
        found = [path] if path.is_file() else [inside for inside in path.rglob("*") if _is_source(inside)]
        if not found:
            raise FileNotFoundError(f"{file.name} names {path.relative_to(root)} among its inputs, and there is nothing.")
        files.update(found)
    return source_digest.digest(files, root, " ".join(_own_versions()))


def folder_digest(folder: str, lecture: str, modules: Iterable[str], root: Path = ROOT) -> str:
    """Hash bank files of a lecture, the exhaustive tests of a folder, all that these import, and the code of a graded lecture.

    Args:
        folder: the name of a folder in tests/course_tools, such as "grading".
        lecture: the number of the lecture, such as "04".
        modules: the dotted names of bank files, such as "course_tools.bank.lecture_04.multi_head_attention".
        root: the folder of the course.
    """
    tests = [path for path in (root / "tests/course_tools" / folder).rglob("test_*.py") if _is_exhaustive(path)]
    shared = [path for path in (root / "tests").rglob("conftest.py") if any(path.parent in test.parents for test in tests)]
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in (*tests, *shared)]
    files = source_digest.imported_files([*modules, "course_tools.bank", *names], root, lambda file: not _lists_a_lecture(file))
    graded = ("lectures", "solutions") if folder == "grading" else ()
    notebooks = sorted(path for kind in graded for path in (root / kind).glob(f"{lecture}_*.ipynb"))
    code = [["".join(cell["source"]) for cell in _code_cells(notebook)] for notebook in notebooks]
    return source_digest.digest({*files, *shared}, root, json.dumps([code, *_own_versions()]))


@cache
def digest_of(key: str) -> str:
    """Hash the inputs of a key of the record: a lecture's file, an exercise, or a folder of tests and what it tests.

    Args:
        key: such as "solutions/04_self_attention.ipynb", the same after "pretend_gpu/", "tests/test_pretend_gpu.py", "04.1",
            "grading/04.1" or "grading/04", all exercises of a lecture.
    """
    if key.startswith(ON_A_DEVICE):
        notebook = ROOT / key.removeprefix(ON_A_DEVICE)
        files = [path for path in (ROOT / "tests" / "pretend_gpu").glob("*") if _is_source(path)]
        return source_digest.digest({*files, ROOT / "tests" / "quick_training.py"}, ROOT, notebook_digest(notebook))
    if key.endswith(".py"):
        return file_digest(ROOT / key, import_module(key.removesuffix(".py").replace("/", ".")).INPUTS)
    if (ROOT / key).is_file():
        return notebook_digest(ROOT / key)
    from course_tools.bank import exercises

    folder, _, id = key.rpartition("/")
    tried = [asked for asked in exercises() if id in (asked.id, asked.lecture)]
    modules = [asked.wrong[0].__module__ for asked in tried]
    if folder:
        return folder_digest(folder, id[:2], modules)
    return digest(modules[0], trains=tried[0].training is not None)


def notebook_digest(notebook: Path, root: Path = ROOT) -> str:
    """Hash a lecture's code and compared outputs, the project files that they depend on, and the versions of all packages.

    Args:
        notebook: the file, such as solutions/04_self_attention.ipynb.
        root: the folder of the course.
    """
    lecture = notebook.name[:2]
    cells = _code_cells(notebook)
    code = ["".join(cell["source"]) for cell in cells]
    compared = [cell["outputs"] for cell in cells if "nbval-check-output" in cell["metadata"].get("tags", [])]
    files = source_digest.imported_files([f"course_tools.bank.lecture_{lecture}"], root)
    for text in code:
        files |= source_digest.imported_by(text, root)
    files.update((root / "authoring" / "studies").glob(f"{lecture}_*"))
    if notebook.parent.name == "lectures":
        files.add(root / "tests" / "quick_training.py")
    settings = (root / "tests" / "nbval_sanitize.cfg").read_text(encoding="utf-8")
    return source_digest.digest(files, root, json.dumps([code, compared, settings, _versions(root)]))


def _code_cells(notebook: Path) -> list[dict]:
    """Read the code cells of a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _is_source(path: Path) -> bool:
    return path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)


def _own_versions() -> list[str]:
    """List the versions of Python, torch and NumPy."""
    return [str(sys.version_info[:2]), metadata.version("torch"), metadata.version("numpy")]


def _is_exhaustive(path: Path) -> bool:
    return "mark.exhaustive" in path.read_text(encoding="utf-8")


def _versions(root: Path) -> list[str]:
    """List the versions of Python and of the packages that a lecture can use, if installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    versions = [f"Python {sys.version_info[:2]}"]
    for line in (*project["dependencies"], *extras["data"], *extras["course"]):
        name = re.split(r"[<>=!~;\[ ]", line)[0]
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return versions


def _lists_a_lecture(file: Path) -> bool:
    """Return whether a file is the list of a lecture's exercises: adding an exercise does not change the others."""
    return file.name == "__init__.py" and file.parent.name.startswith("lecture_") and file.parents[1].name == "bank"


def _matters(path: Path, lecture: str) -> bool:
    """Return whether exhaustive tests of a lecture's exercises depend on a file among the tests of the bank."""
    if path.stem.startswith("test_"):
        return _is_exhaustive(path)
    return not path.stem.startswith("lecture_") or path.stem == lecture


def skip_unchanged(tested: Iterable[tuple[pytest.Item, str]], known: dict[str, str], digest_of: Callable[[str], str]) -> None:
    """Skip the tests of keys whose digest is recorded; attach key and digest to the others.

    Args:
        tested: collected tests, each with its key in the record.
        known: by key, the digest recorded.
        digest_of: gives the digest of a key.
    """
    for item, key in tested:
        if known.get(key) == digest_of(key):
            item.add_marker(pytest.mark.skip(reason=f"the inputs of {key} are unchanged: `course test --exhaustive` runs it"))
        else:
            item.user_properties.append(("exhaustive", f"{key} {digest_of(key)}"))


def key_of(item: pytest.Item) -> str:
    """Return the key of an exhaustive test in the record: its file if that declares its inputs, else what it tests.

    What it tries stands after the folder of tests, unless that is the bank's.
    """
    if hasattr(item.module, "solved_lectures"):
        lecture = item.callspec.params["lecture"]
        return ON_A_DEVICE + lecture.name(lecture.solution)
    if hasattr(item.module, "INPUTS"):
        return item.path.relative_to(ROOT).as_posix()
    params = item.callspec.params
    named = next(params[name] for name in ("asked", "wanted", "lecture", "id") if name in params)
    tried = next((getattr(named, name) for name in ("id", "number") if hasattr(named, name)), named)
    folder = item.path.relative_to(ROOT / "tests" / "course_tools").parts[0]
    return tried if folder == "bank" else f"{folder}/{tried}"


def ran_whole(key: str, asked: Iterable[Path]) -> bool:
    """Return whether all tests of a key were among the files and folders that pytest was asked to run."""
    if key.startswith(ON_A_DEVICE):
        needed = ROOT / "tests" / "test_lectures_on_a_device.py"
    elif (ROOT / key).is_file():
        needed = ROOT / key
    else:
        needed = ROOT / "tests" / "course_tools" / (key.rpartition("/")[0] or "bank")
    return any(path in (needed, *needed.parents) for path in asked)


def all_passed(outcomes: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """Map keys to digests, from pairs of `key digest` and whether that part of a test passed, if all parts did."""
    passed: dict[str, bool] = {}
    for noted, well in outcomes:
        passed[noted] = passed.get(noted, True) and well
    return dict(noted.split() for noted, well in passed.items() if well)
