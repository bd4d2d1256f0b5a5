"""Skip the exhaustive tests of an exercise while everything they depend on is as it was when they last passed.

A test marked `exhaustive` tries every mutant, or every answer of the bank on twenty seeds. Its exercise has a digest: of its
bank file and each file of the course that this imports, directly or not, of the exhaustive tests, and of the versions of
Python, torch and NumPy. `tests/exhaustive.json` records the digest with which all exhaustive tests of the exercise passed;
while it is the same, they are skipped. `course test --exhaustive` runs them all and writes the record.
"""

import json
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest

from course_tools import source_digest

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "exhaustive.json"


def recorded() -> dict[str, str]:
    """By exercise, the digest with which its exhaustive tests last passed."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(passed: dict[str, str]) -> None:
    """Write digests over those recorded."""
    text = json.dumps(dict(sorted({**recorded(), **passed}.items())), indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8", newline="\n")


def digest(module: str, root: Path = ROOT) -> str:
    """Hash a bank file, the engine that judges it, all that these import of ours, the tests of the bank, and the versions.

    Args:
        module: the dotted name of the bank file, such as "course_tools.bank.lecture_04.multi_head_attention".
        root: the folder of the course.
    """
    lecture = module.split(".")[-2]
    tests = [path for pattern in ("*.py", "*.toml") for path in (root / "tests/course_tools/bank").rglob(pattern)]
    modules = [module, "course_tools.bank", f"tests.course_tools.bank.answers.{lecture}"]
    files = source_digest.imported_files(modules, root, lambda file: not _lists_a_lecture(file))
    files.update(path for path in tests if _matters(path, lecture))
    versions = f"{sys.version_info[:2]} {metadata.version('torch')} {metadata.version('numpy')}"
    return source_digest.digest(files, root, versions)


def _lists_a_lecture(file: Path) -> bool:
    """Whether a file is the list of a lecture's exercises: whoever adds one changes none of the others."""
    return file.name == "__init__.py" and file.parent.name.startswith("lecture_") and file.parents[1].name == "bank"


def _matters(path: Path, lecture: str) -> bool:
    """Whether exhaustive tests of a lecture's exercises depend on a file among the tests of the bank."""
    if path.stem.startswith("test_"):
        return "mark.exhaustive" in path.read_text(encoding="utf-8")
    return not path.stem.startswith("lecture_") or path.stem == lecture


def skip_unchanged(items: Iterable[pytest.Item], known: dict[str, str], digest_of: Callable[[str], str]) -> None:
    """Skip the exhaustive tests of each exercise whose digest is the recorded one; note exercise and digest on the others.

    Args:
        items: the collected tests.
        known: by exercise, the digest recorded.
        digest_of: gives the digest of an exercise by its id.
    """
    for item in items:
        if item.get_closest_marker("exhaustive"):
            params = item.callspec.params
            id = params["asked"].id if "asked" in params else params["id"]
            if known.get(id) == digest_of(id):
                item.add_marker(
                    pytest.mark.skip(reason=f"the inputs of {id} are unchanged: `course test --exhaustive` runs it")
                )
            else:
                item.user_properties.append(("exhaustive", f"{id} {digest_of(id)}"))


def all_passed(outcomes: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """From pairs of a noted `id digest` and whether that part of a test passed: the digests of the exercises where all did."""
    passed: dict[str, bool] = {}
    for noted, well in outcomes:
        passed[noted] = passed.get(noted, True) and well
    return dict(noted.split() for noted, well in passed.items() if well)
