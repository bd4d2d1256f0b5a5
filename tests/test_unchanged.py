"""Exhaustive tests rerun as soon as one of their inputs changes, and are skipped while none does."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from course_tools import source_digest
from course_tools.bank import exercise, exercises
from tests import unchanged

BANK = "course_tools.bank.lecture_99.first"
FILES = {
    "course_lib/__init__.py": "",
    "course_lib/near.py": "from course_lib.far import f\n",
    "course_lib/far.py": "def f():\n    return 1\n",
    "course_lib/unrelated.py": "",
    "course_tools/__init__.py": "",
    "course_tools/bank/__init__.py": "from course_tools.checks import judge\n\nLECTURES = ()\n",
    "course_tools/checks/__init__.py": "from course_tools.checks.engine import judge\n",
    "course_tools/checks/engine.py": "def judge():\n    return 1\n",
    "course_tools/bank/lecture_99/__init__.py": "from course_tools.bank.lecture_99 import first, unrelated\n",
    "course_tools/bank/lecture_99/unrelated.py": "",
    "course_tools/bank/lecture_99/first.py": "def late():\n    from course_lib import near\n",
    "tests/course_tools/bank/survivors.toml": "",
    "tests/course_tools/bank/test_bank.py": "@pytest.mark.exhaustive\n",
    "tests/course_tools/bank/test_unrelated.py": "",
    "tests/course_tools/bank/answers/lecture_98.py": "",
    "tests/course_tools/bank/answers/lecture_99.py": "",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A course of one exercise."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest_after(root: Path, name: str) -> tuple[str, str]:
    """The digest of the exercise, and what it is when one file has one more line."""
    before = unchanged.digest(BANK, root)
    with (root / name).open("a") as file:
        file.write("# changed\n")
    for cached in (source_digest._passed_on, source_digest._passes_on, source_digest._content):
        cached.cache_clear()
    return before, unchanged.digest(BANK, root)


PASS_ON = ["course_lib/__init__.py", "course_tools/__init__.py", "course_tools/checks/__init__.py"]
ELSEWHERE = [
    name for name in FILES if "unrelated" in name or "98" in name or name.endswith("lecture_99/__init__.py") or name in PASS_ON
]


@pytest.mark.parametrize("name", [name for name in FILES if name not in ELSEWHERE])
def test_a_change_of_an_input_changes_the_digest(small, name):
    before, after = digest_after(small, name)
    assert before != after


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_change_elsewhere_does_not(small, name):
    before, after = digest_after(small, name)
    assert before == after


class Item:
    """What of a collected test is used."""

    def __init__(self, **params: object) -> None:
        self.callspec, self.user_properties, self.markers = SimpleNamespace(params=params), [], []

    def get_closest_marker(self, name: str) -> bool:
        return name == "exhaustive"

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.name)


def test_only_a_recorded_digest_skips():
    same, changed, new = Item(asked=exercise("04.1")), Item(id="04.2"), Item(id="04.3")
    unchanged.skip_unchanged([same, changed, new], {"04.1": "d", "04.2": "another"}, lambda id: "d")
    assert [item.markers for item in (same, changed, new)] == [["skip"], [], []]
    assert [item.user_properties for item in (same, changed, new)] == [
        [],
        [("exhaustive", "04.2 d")],
        [("exhaustive", "04.3 d")],
    ]


def test_an_exercise_is_recorded_only_where_every_test_of_it_passed():
    assert unchanged.all_passed([("04.1 a", True), ("04.2 b", True), ("04.1 a", False), ("04.2 b", True)]) == {"04.2": "b"}


def test_the_digest_of_an_exercise_covers_its_reference_its_bank_file_and_the_engine():
    files = source_digest.imported_files([BANK_OF["04.1"], "course_tools.bank"], unchanged.ROOT)
    covered = {path.relative_to(unchanged.ROOT).as_posix() for path in files}
    assert {
        "course_lib/attention/dot_product.py",
        "course_lib/attention/core.py",
        "course_tools/bank/lecture_04/scaled_dot_product_attention.py",
        "course_tools/checks/verdict.py",
    } <= covered


BANK_OF = {item.id: item.wrong[0].__module__ for item in exercises()}


def test_the_record_names_exercises_that_there_are():
    assert unchanged.recorded().keys() <= BANK_OF.keys()
