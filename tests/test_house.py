"""The house keeps its own rules: floors, sizes, names, first lines, and nothing heavy where a notebook starts."""

import ast
import builtins
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_OURS = {"build", "node_modules", "__pycache__"}
JOINED_BY_NOTEBOOKS = ("models", "objectives", "datasets", "training")
LIBRARY = sorted((ROOT / "course_lib").rglob("*.py"))
CODE = [*LIBRARY, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]
CODE += [ROOT / "course.py", ROOT / "conftest.py"]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this Python at the root."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file that belongs to the project: nothing hidden but .ci and .gitignore, nothing that a tool leaves behind."""
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in (".ci", ".gitignore")
        if hidden or path.name in NOT_OURS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def text_of(path: Path) -> str:
    """What a reader sees of a file; of a notebook without its pictures."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        output["data"] = {kind: data for kind, data in output.get("data", {}).items() if not kind.startswith("image/")}
    return json.dumps(cells, ensure_ascii=False, indent=1)


def room_of(name: str) -> str | None:
    """The room of a module of the course, such as attention for course_lib.attention.core."""
    parts = name.split(".")
    return parts[1] if parts[0] == "course_lib" and len(parts) > 1 else None


def imports_of(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in it the import stands."""
    names = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update([node.module] if node.module != "course_lib" else [f"course_lib.{a.name}" for a in node.names])
    return {room for room in map(room_of, names) if room}


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]


def methods(node: ast.ClassDef) -> set[str]:
    return {part.name for part in node.body if isinstance(part, ast.FunctionDef)}


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in node.bases]


def test_a_room_imports_only_from_the_floors_below_it():
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    done = run(
        "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)


def test_every_room_stands_on_a_floor():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (floors,) = [c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    placed = {room for layer in floors["layers"] for room in re.findall(r"course_lib\.(\w+)", layer)}
    rooms = {path.relative_to(ROOT / "course_lib").parts[0].removesuffix(".py") for path in LIBRARY} - {"__init__"}
    assert rooms <= placed


@pytest.mark.parametrize("room", JOINED_BY_NOTEBOOKS)
def test_models_losses_data_and_the_loop_do_not_know_each_other(room):
    own = [path for path in LIBRARY if path.relative_to(ROOT / "course_lib").parts[0].removesuffix(".py") == room]
    assert own
    others = {*JOINED_BY_NOTEBOOKS, "teaching", "exercises", "publishing"} - {room}
    assert {shown(path): imports_of(path) & others for path in own if imports_of(path) & others} == {}


def test_only_notebooks_tests_and_benchmarks_put_them_together():
    joined = {shown(path): imports_of(path) & {*JOINED_BY_NOTEBOOKS} for path in LIBRARY}
    assert {path: rooms for path, rooms in joined.items() if len(rooms) > 1} == {}


@pytest.mark.parametrize("task", [("check",), ("format", "--check")])
def test_ruff_has_nothing_to_say(task):
    pytest.importorskip("ruff", reason="ruff is not installed")
    done = run("-m", "ruff", *task, "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_no_code_in_comments():
    pytest.importorskip("ruff", reason="ruff is not installed")
    places = ("course_lib", "tests", "benchmarks", "course.py", "conftest.py")
    done = run("-m", "ruff", "check", "--no-cache", "--isolated", "--select", "ERA001", *places)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", CODE, ids=shown)
def test_a_file_says_first_what_it_is_for_and_is_not_long(path):
    text = path.read_text(encoding="utf-8")
    first = text.removeprefix("#!/usr/bin/env python3\n").partition("\n")[0]
    assert re.match(r'r?"""\S.{10,}', first), f"its first line is {first!r}"
    if path != ROOT / "course.py":
        assert text.count("\n") <= 250


def test_no_file_is_named_for_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "stuff"}
    named = [
        shown(path) for path in files() if vague & {part.lower() for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    ]
    assert named == []


def is_record(node: ast.ClassDef) -> bool:
    """Frozen fields and no method: a result that code hands on, which nobody has to construct by hand."""
    frozen = any(ast.unparse(each) == "dataclass(frozen=True)" for each in node.decorator_list)
    return not methods(node) and (frozen or base_names(node) == ["NamedTuple"])


def test_no_constructor_takes_more_than_eight_arguments():
    taken = {}
    for path in LIBRARY:
        for node in (node for node in classes(path) if not is_record(node)):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            inits = [part.args for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            given = [len(a.posonlyargs + a.args + a.kwonlyargs) - 1 for a in inits]
            taken[f"{shown(path)}: {node.name}"] = max([*given, 0 if inits else len(fields)])
    assert max(taken.values()) > 3
    assert {name: n for name, n in taken.items() if n > 8} == {}


def test_classes_compose_and_do_not_override():
    """What inherits from a class of the course adds to it; only `__init__` may be written again."""
    ours = {node.name: node for path in LIBRARY for node in classes(path)}

    def inherited(node: ast.ClassDef) -> set[str]:
        above = [ours[base] for base in base_names(node) if base in ours]
        return set().union(*(methods(base) | inherited(base) for base in above))

    assert any(inherited(node) for node in ours.values())
    assert {name: both for name, node in ours.items() if (both := methods(node) & inherited(node) - {"__init__"})} == {}


def test_classes_inherit_from_little():
    """Modules and own backward passes are torch's; errors, tuples, modules to import and words are Python's; nothing else."""
    ours = {node.name for path in LIBRARY for node in classes(path)}
    errors = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
    known = {
        *ours,
        *errors,
        "nn.Module",
        "torch.autograd.Function",
        "NamedTuple",
        "Protocol",
        "Generic",
        "types.ModuleType",
        "str",
    }
    bases = {f"{shown(path)}: {node.name}": base_names(node) for path in LIBRARY for node in classes(path)}
    assert {place: names for place, names in bases.items() if {name.partition("[")[0] for name in names} - known} == {}


def test_importing_the_library_loads_no_plots_tables_or_widgets():
    light = ("attention", "primitives", "shapes", "models", "objectives", "training", "exercises")
    rooms = ", ".join(f"course_lib.{room}" for room in light)
    heavy = ["seaborn", "pandas", "ipywidgets", "matplotlib", "IPython", "sklearn", "scipy"]
    done = run("-c", f"import sys, course_lib, {rooms}; print([name for name in {heavy} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_importing_the_course_itself_loads_not_even_torch():
    done = run("-c", "import sys, course_lib; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("room", ["primitives", "attention", "objectives"])
def test_the_tests_of_the_mechanisms_mirror_the_library(room):
    library = {path.stem for path in (ROOT / "course_lib" / room).glob("*.py")} - {"__init__"}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / room).glob("test_*.py")}
    assert library <= tests


def test_nothing_is_left_to_do_in_words_and_no_path_is_of_one_machine():
    unwanted = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b|(?<![\w.])/(?:home|Users|root|work|mnt)/\w+|\b[A-Z]:\\Users\\")
    found = {shown(path): unwanted.findall(text_of(path)) for path in files() if path.suffix not in (".png", ".ico")}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "environment.yml", ".ci/run"])
def test_what_a_newcomer_looks_for_is_there(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()
