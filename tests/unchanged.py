"""Skip what takes long while everything that it depends on is as it was when it last passed.

A test marked `exhaustive` tries every mutant, or every answer of the bank on twenty seeds. Its exercise has a digest: of its
bank file and each file of the course that this imports, directly or not, of the exhaustive tests, and of the versions of
Python, torch and NumPy. A lecture that trains in full has a digest, too: of its cells and the outputs that nbval compares, of
each file of the course that they import, of its exercises and recorded studies, and of the versions of all packages in use.
`tests/exhaustive.json` records the digest with which all of it passed; while it is the same, it is skipped.
`course test --exhaustive` runs everything and writes the record.
"""

import contextlib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest

from course_tools import source_digest
from course_tools.checks import Exercise

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "exhaustive.json"


def recorded() -> dict[str, str]:
    """By exercise, the digest with which its exhaustive tests last passed."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(passed: dict[str, str]) -> None:
    """Write digests over those recorded."""
    text = json.dumps(dict(sorted({**recorded(), **passed}.items())), indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8", newline="\n")


def digest(module: str, root: Path = ROOT, trains: bool = False) -> str:
    """Hash a bank file, the engine that judges it, all that these import of ours, the tests of the bank, and the versions.

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
    versions = f"{sys.version_info[:2]} {metadata.version('torch')} {metadata.version('numpy')}"
    return source_digest.digest(files, root, versions)


def exercise_digest(asked: Exercise) -> str:
    """Hash an exercise of this course, as `digest` does."""
    return digest(asked.wrong[0].__module__, trains=asked.training is not None)


def notebook_digest(notebook: Path, root: Path = ROOT) -> str:
    """Hash a lecture's code and compared outputs, what they depend on in the course, and the versions of all packages.

    Args:
        notebook: the file, such as solutions/04_self_attention.ipynb.
        root: the folder of the course.
    """
    lecture = notebook.name[:2]
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in cells]
    compared = [cell["outputs"] for cell in cells if "nbval-check-output" in cell["metadata"].get("tags", [])]
    files = source_digest.imported_files([f"course_tools.bank.lecture_{lecture}"], root)
    for text in code:
        files |= source_digest.imported_by(text, root)
    files.update((root / "authoring" / "studies").glob(f"{lecture}_*"))
    settings = (root / "tests" / "nbval_sanitize.cfg").read_text(encoding="utf-8")
    return source_digest.digest(files, root, json.dumps([code, compared, settings, _versions(root)]))


def _versions(root: Path) -> list[str]:
    """List the versions of Python and of the packages that a lecture can use, where they are installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    versions = [f"Python {sys.version_info[:2]}"]
    for line in (*project["dependencies"], *extras["data"], *extras["course"]):
        name = re.split(r"[<>=!~;\[ ]", line)[0]
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return versions


def _lists_a_lecture(file: Path) -> bool:
    """Whether a file is the list of a lecture's exercises: whoever adds one changes none of the others."""
    return file.name == "__init__.py" and file.parent.name.startswith("lecture_") and file.parents[1].name == "bank"


def _matters(path: Path, lecture: str) -> bool:
    """Whether exhaustive tests of a lecture's exercises depend on a file among the tests of the bank."""
    if path.stem.startswith("test_"):
        return "mark.exhaustive" in path.read_text(encoding="utf-8")
    return not path.stem.startswith("lecture_") or path.stem == lecture


def skip_unchanged(tested: Iterable[tuple[pytest.Item, str]], known: dict[str, str], digest_of: Callable[[str], str]) -> None:
    """Skip the tests of what has the recorded digest; note what is tested, and its digest, on the others.

    Args:
        tested: collected tests, each with the id of its exercise or the name of its lecture's file.
        known: by id or name, the digest recorded.
        digest_of: gives the digest of an id or name.
    """
    for item, id in tested:
        if known.get(id) == digest_of(id):
            item.add_marker(pytest.mark.skip(reason=f"the inputs of {id} are unchanged: `course test --exhaustive` runs it"))
        else:
            item.user_properties.append(("exhaustive", f"{id} {digest_of(id)}"))


def exercise_of(item: pytest.Item) -> str:
    """Give the id of the exercise that an exhaustive test tries."""
    params = item.callspec.params
    return params["asked"].id if "asked" in params else params["id"]


def all_passed(outcomes: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """From pairs of a noted `id digest` and whether that part of a test passed: the digests by id, where all parts did."""
    passed: dict[str, bool] = {}
    for noted, well in outcomes:
        passed[noted] = passed.get(noted, True) and well
    return dict(noted.split() for noted, well in passed.items() if well)
