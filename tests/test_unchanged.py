"""Exhaustive tests and full lectures run again if one of their inputs changes, and are skipped otherwise."""

from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_tools import source_digest
from course_tools.bank import exercise, exercises
from course_tools.publishing.project import lectures
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
    "tests/course_tools/bank/survivors/lecture_98.toml": "",
    "tests/course_tools/bank/survivors/lecture_99.toml": "",
    "tests/course_tools/bank/test_bank.py": "@pytest.mark.exhaustive\n",
    "tests/course_tools/bank/test_unrelated.py": "",
    "tests/course_tools/bank/test_build_tasks.py": "@pytest.mark.exhaustive\n",
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


def digest_after(root: Path, name: str, trains: bool = False) -> tuple[str, str]:
    """Return the digest of the exercise, before and after one file gets one more line."""
    before = unchanged.digest(BANK, root, trains)
    with (root / name).open("a") as file:
        file.write("# changed\n")
    clear_caches()
    return before, unchanged.digest(BANK, root, trains)


def clear_caches() -> None:
    """Clear the cached contents of files."""
    for cached in vars(source_digest).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


PASS_ON = ["course_lib/__init__.py", "course_tools/__init__.py", "course_tools/checks/__init__.py"]
BUILD_TASKS = "tests/course_tools/bank/test_build_tasks.py"
ELSEWHERE = [
    name
    for name in FILES
    if name == BUILD_TASKS or "unrelated" in name or "98" in name or name.endswith("lecture_99/__init__.py") or name in PASS_ON
]


@pytest.mark.parametrize("name", [name for name in FILES if name not in ELSEWHERE])
def test_a_change_of_an_input_changes_the_digest(small, name):
    before, after = digest_after(small, name)
    assert before != after


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_change_elsewhere_does_not(small, name):
    before, after = digest_after(small, name)
    assert before == after


@pytest.mark.parametrize("trains", [True, False])
def test_the_tests_of_build_tasks_matter_to_build_tasks_alone(small, trains):
    before, after = digest_after(small, BUILD_TASKS, trains)
    assert (before != after) is trains


FOLDER = {
    "tests/conftest.py": "",
    "tests/course_tools/grading/conftest.py": "from course_lib.far import f\n",
    "tests/course_tools/grading/test_first.py": "from tests import helper\n\npytestmark = pytest.mark.exhaustive\n",
    "tests/course_tools/grading/test_other.py": "",
    "tests/helper.py": "",
    "tests/unrelated.py": "",
}


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (True, "course_lib/far.py"),
        (True, "course_tools/checks/engine.py"),
        (True, "course_tools/bank/lecture_99/first.py"),
        (True, "tests/conftest.py"),
        (True, "tests/course_tools/grading/conftest.py"),
        (True, "tests/course_tools/grading/test_first.py"),
        (True, "tests/helper.py"),
        (False, "tests/course_tools/grading/test_other.py"),
        (False, "tests/course_tools/bank/test_bank.py"),
        (False, "tests/unrelated.py"),
        (False, "course_lib/unrelated.py"),
        (False, "course_tools/bank/lecture_99/unrelated.py"),
    ],
)
def test_a_folder_of_tests_depends_on_its_exhaustive_tests_their_fixtures_and_all_that_these_import(small, changed, name):
    for other, text in FOLDER.items():
        (small / other).parent.mkdir(parents=True, exist_ok=True)
        (small / other).write_text(text)
    before = unchanged.folder_digest("grading", "99", [BANK], small)
    with (small / name).open("a") as file:
        file.write("# changed\n")
    clear_caches()
    assert (unchanged.folder_digest("grading", "99", [BANK], small) != before) is changed


@pytest.mark.parametrize(
    ("changed", "folder", "number", "cell"),
    [
        (True, "grading", "99", new_code_cell("2")),
        (False, "grading", "98", new_code_cell("2")),
        (False, "grading", "99", new_markdown_cell("2")),
        (False, "checks", "99", new_code_cell("2")),
    ],
)
def test_the_tests_of_grading_depend_on_the_code_of_the_lecture(small, changed, folder, number, cell):
    found = []
    for cells in ([], [cell]):
        (small / "lectures").mkdir(exist_ok=True)
        nbformat.write(new_notebook(cells=cells), small / "lectures" / f"{number}_lecture.ipynb")
        found.append(unchanged.folder_digest(folder, "99", [BANK], small))
    assert (found[0] != found[1]) is changed


class Item:
    """The attributes of a collected test that are used."""

    def __init__(self, folder: str = "bank", **params: object) -> None:
        self.path = unchanged.ROOT / "tests" / "course_tools" / folder / "deeper" / "test_any.py"
        self.callspec, self.user_properties, self.markers = SimpleNamespace(params=params), [], []
        self.module = SimpleNamespace()

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.name)


def test_only_a_recorded_digest_skips():
    same, changed, new = items = Item(), Item(), Item()
    tested = zip(items, ("04.1", "04.2", "solutions/04.ipynb"), strict=True)
    unchanged.skip_unchanged(tested, {"04.1": "d", "04.2": "another"}, lambda id: "d")
    assert [item.markers for item in (same, changed, new)] == [["skip"], [], []]
    assert [item.user_properties for item in (same, changed, new)] == [
        [],
        [("exhaustive", "04.2 d")],
        [("exhaustive", "solutions/04.ipynb d")],
    ]


@pytest.mark.parametrize(
    ("key", "folder", "params"),
    [
        ("04.1", "bank", {"asked": exercise("04.1")}),
        ("04.1", "bank", {"id": "04.1"}),
        ("grading/04.1", "grading", {"wanted": exercise("04.1")}),
        ("grading/04", "grading", {"lecture": SimpleNamespace(number="04")}),
    ],
)
def test_the_key_of_a_test_is_its_folder_and_what_it_tries(key, folder, params):
    assert unchanged.key_of(Item(folder, **params)) == key


def test_the_key_of_a_test_whose_file_names_its_inputs_is_that_file():
    item = Item(part="on_models")
    item.module.INPUTS = ("course_lib",)
    assert unchanged.key_of(item) == "tests/course_tools/bank/deeper/test_any.py"


def test_the_key_of_a_lecture_on_the_pretend_accelerator():
    (lecture,) = lectures(unchanged.ROOT, ["13"])
    item = Item(lecture=lecture)
    item.module.solved_lectures = [lecture]
    assert unchanged.key_of(item) == "pretend_gpu/solutions/13_mlp_mixer.ipynb"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (True, "tests/test_device.py"),
        (True, "tests/helper.py"),
        (True, "course_lib/deeper/kernel.cpp"),
        (True, "pyproject.toml"),
        (False, "course_lib/__pycache__/core.pyc"),
        (False, "README.md"),
    ],
)
def test_a_file_of_tests_depends_on_itself_what_it_imports_and_the_inputs_it_names(tmp_path, changed, name):
    files = {"tests/test_device.py": "from tests import helper\n", "tests/helper.py": "", "course_lib/core.py": "", name: ""}
    for path in (*files, "pyproject.toml", "course_lib/deeper/kernel.cpp"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(files.get(path, ""), encoding="utf-8")
    found = []
    for text in ("", "# another\n"):
        (tmp_path / name).write_text(files[name] + text, encoding="utf-8")
        file = tmp_path / "tests" / "test_device.py"
        clear_caches()
        found.append(unchanged.file_digest(file, ("course_lib", "pyproject.toml"), tmp_path))
    assert (found[0] != found[1]) is changed


def test_an_input_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_device.py").touch()
    with pytest.raises(FileNotFoundError, match=r"test_device\.py names course_lib among its inputs"):
        unchanged.file_digest(tmp_path / "tests" / "test_device.py", ("course_lib",), tmp_path)


KEYS = ["04.1", "04.7", "checks/04.1", "grading/04.1", "grading/04", "solutions/13_mlp_mixer.ipynb"]
KEYS += ["pretend_gpu/solutions/13_mlp_mixer.ipynb"]


@pytest.mark.parametrize("key", [*KEYS, "tests/test_pretend_gpu.py"])
def test_every_kind_of_key_has_its_own_digest(key):
    others = {"04.2", "checks/04.2", "grading/04.2", "notebook/04.2", "grading/05", "lectures/13_mlp_mixer.ipynb"}
    assert unchanged.digest_of(key) not in {unchanged.digest_of(other) for other in others}


@pytest.mark.parametrize(
    ("key", "asked", "whole"),
    [
        ("04.1", "tests", True),
        ("04.1", "tests/course_tools/bank", True),
        ("04.1", "tests/course_tools/bank/test_mutants.py", False),
        ("04.1", "tests/course_tools/grading", False),
        ("grading/04.1", "tests/course_tools", True),
        ("grading/04.1", "tests/course_tools/bank", False),
        ("solutions/13_mlp_mixer.ipynb", "solutions", True),
        ("solutions/13_mlp_mixer.ipynb", "solutions/13_mlp_mixer.ipynb", True),
        ("solutions/13_mlp_mixer.ipynb", "lectures", False),
        ("tests/test_pretend_gpu.py", "tests", True),
        ("tests/test_pretend_gpu.py", "tests/course_lib", False),
        ("pretend_gpu/solutions/13_mlp_mixer.ipynb", "tests", True),
        ("pretend_gpu/solutions/13_mlp_mixer.ipynb", "solutions", False),
        ("pretend_gpu/solutions/13_mlp_mixer.ipynb", "tests/course_tools", False),
    ],
)
def test_what_ran_in_part_is_not_recorded(key, asked, whole):
    assert unchanged.ran_whole(key, [unchanged.ROOT / asked]) is whole


LECTURE = {
    "pyproject.toml": """\
[project]
dependencies = ["torch>=2"]
[project.optional-dependencies]
data = []
course = ["psutil>=5.9", "no-such-package"]
""",
    "tests/nbval_sanitize.cfg": "",
    "authoring/studies/99_long.json": "",
    "authoring/studies/98_other.json": "",
}


def notebook(root: Path, code: str = "from course_lib.near import f", output: str = "1", timing: str = "3 s") -> Path:
    """Write a lecture: a cell whose output is compared, a cell whose output is not, and text."""
    compared = new_code_cell(code, outputs=[new_output("stream", text=output)], metadata={"tags": ["nbval-check-output"]})
    cells = [compared, new_code_cell("1", outputs=[new_output("stream", text=timing)]), new_markdown_cell(timing)]
    for at, cell in enumerate(cells):
        cell["id"] = str(at)
    nbformat.write(new_notebook(cells=cells), root / "99_lecture.ipynb")
    return root / "99_lecture.ipynb"


@pytest.fixture
def lecture(small: Path) -> Path:
    """The course of one exercise, and the files that a lecture depends on."""
    for name, text in LECTURE.items():
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        (small / name).write_text(text)
    return small


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (True, "course_lib/near.py"),
        (True, "course_lib/far.py"),
        (True, "course_tools/bank/lecture_99/first.py"),
        (True, "authoring/studies/99_long.json"),
        (True, "tests/nbval_sanitize.cfg"),
        (False, "course_lib/__init__.py"),
        (False, "authoring/studies/98_other.json"),
        (False, "tests/course_tools/bank/survivors/lecture_99.toml"),
    ],
)
def test_a_lecture_depends_on_what_its_cells_import_its_exercises_and_its_studies(lecture, changed, name):
    file = notebook(lecture)
    before = unchanged.notebook_digest(file, lecture)
    with (lecture / name).open("a") as text:
        text.write("# changed\n")
    clear_caches()
    assert (unchanged.notebook_digest(file, lecture) != before) is changed


@pytest.mark.parametrize(
    ("changed", "other"),
    [(True, {"code": "from course_lib.far import f"}), (True, {"output": "2"}), (False, {"timing": "4 s"})],
)
def test_a_lecture_depends_on_its_code_and_on_the_outputs_that_are_compared(lecture, changed, other):
    before = unchanged.notebook_digest(notebook(lecture), lecture)
    assert (unchanged.notebook_digest(notebook(lecture, **other), lecture) != before) is changed


def test_a_lecture_depends_on_the_versions_of_its_packages(lecture, monkeypatch):
    file = notebook(lecture)
    before = unchanged.notebook_digest(file, lecture)
    monkeypatch.setattr(unchanged.metadata, "version", lambda name: "0")
    assert unchanged.notebook_digest(file, lecture) != before


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


def test_the_record_names_exercises_and_lectures_that_there_are():
    known = {*BANK_OF, *(id[:2] for id in BANK_OF)}
    files = [key.removeprefix(unchanged.ON_A_DEVICE) for key in unchanged.recorded() if key.rpartition("/")[2] not in known]
    assert all((unchanged.ROOT / file).is_file() for file in files)
