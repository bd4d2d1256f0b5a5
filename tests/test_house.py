"""The project's rules: import layers, names of files, first lines, light imports, tests path for path."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.rule import for_each

ROOT = Path(__file__).parents[1]
NOT_OURS = {"build", "node_modules", "__pycache__", "work"}
LIBRARY = sorted((ROOT / "course_lib").rglob("*.py"))
TOOLS = sorted((ROOT / "course_tools").rglob("*.py"))
OURS = [*LIBRARY, *TOOLS]
CODE = [*OURS, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]
CODE += [ROOT / "course.py", ROOT / "conftest.py"]
MECHANISMS = ("primitives", "attention", "blocks", "models", "generation", "pretrained", "losses", "metrics", "analysis")
"""Packages whose tests are in the same paths in tests/course_lib."""


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a module with this Python at the root."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Return every file of the project: no hidden files except .ci and .gitignore, and none left by tools."""
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in (".ci", ".gitignore")
        if hidden or path.name in NOT_OURS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from files(path)
        else:
            yield path


def text_of(path: Path) -> str:
    """Return the text of a file that a reader sees; of a notebook, without its images."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        output["data"] = {kind: data for kind, data in output.get("data", {}).items() if not kind.startswith("image/")}
    return json.dumps(cells, ensure_ascii=False, indent=1)


def modules_used_by(tree: ast.Module, modules: set[str]) -> set[str]:
    """Return which of these modules a program imports: for `from a import b`, `a.b` if that is a module, else `a`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}": node.module for alias in node.names}
            names.update(name if name in modules else package for name, package in inner.items())
    return names & modules


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def circles(edges: dict[str, set[str]]) -> list[str]:
    """Return the nodes of a directed graph that reach themselves."""
    reached = {node: set(ends) for node, ends in edges.items()}
    changed = True
    while changed:
        changed = False
        for ends in reached.values():
            more = set().union(*(reached.get(end, set()) for end in ends)) - ends
            ends |= more
            changed |= bool(more)
    return sorted(node for node, ends in reached.items() if node in ends)


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]


def methods(node: ast.ClassDef) -> set[str]:
    return {part.name for part in node.body if isinstance(part, ast.FunctionDef)}


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in node.bases]


def test_a_package_imports_only_from_the_layers_below_it():
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    done = run(
        "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)


def test_a_circle_is_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]


def test_no_modules_import_each_other_in_a_circle():
    modules = {module_of(path) for path in OURS}
    edges = {module_of(path): modules_used_by(tree_of(path), modules) - {module_of(path)} for path in OURS}
    assert edges["course_lib.attention"]  # a package re-exports what its modules define
    assert circles(edges) == []


def test_a_module_that_imports_a_name_from_its_package_closes_a_circle():
    modules = {"a", "a.b", "a.c"}
    texts = {"a": "from a.b import f", "a.b": "from a import c, g", "a.c": ""}
    edges = {name: modules_used_by(ast.parse(text), modules) for name, text in texts.items()}
    assert edges == {"a": {"a.b"}, "a.b": {"a", "a.c"}, "a.c": set()}
    assert circles(edges) == ["a", "a.b"]
    assert circles({**edges, "a.b": modules_used_by(ast.parse("from a import c"), modules)}) == []


@pytest.mark.parametrize("task", [("check",), ("format", "--check")])
def test_ruff_has_nothing_to_say(task):
    pytest.importorskip("ruff", reason="ruff is not installed")
    done = run("-m", "ruff", *task, "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_no_code_in_comments():
    pytest.importorskip("ruff", reason="ruff is not installed")
    places = ("course_lib", "course_tools", "tests", "benchmarks", "course.py", "conftest.py")
    done = run("-m", "ruff", "check", "--no-cache", "--isolated", "--select", "ERA001", *places)
    assert done.returncode == 0, done.stdout + done.stderr


@for_each(CODE, shown)
def test_a_file_says_first_what_it_is_for(path):
    text = path.read_text(encoding="utf-8")
    first = text.removeprefix("#!/usr/bin/env python3\n").partition("\n")[0]
    assert re.match(r'r?"""\S.{10,}', first), f"its first line is {first!r}"


def test_no_file_is_named_for_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "stuff"}
    named = [
        shown(path) for path in files() if vague & {part.lower() for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    ]
    assert named == []


def is_record(node: ast.ClassDef) -> bool:
    """Frozen fields and no method: a result that code passes on and that users need not construct."""
    frozen = any(ast.unparse(each) == "dataclass(frozen=True)" for each in node.decorator_list)
    return not methods(node) and (frozen or base_names(node) == ["NamedTuple"])


def test_constructors_take_at_most_eight_arguments():
    taken = {}
    for path in LIBRARY:
        for node in (node for node in classes(path) if not is_record(node)):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            inits = [part.args for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            given = [len(a.posonlyargs + a.args + a.kwonlyargs) - 1 for a in inits]
            taken[f"{shown(path)}: {node.name}"] = max([*given, 0 if inits else len(fields)])
    assert max(taken.values()) > 3
    # The Transformer's ninth argument is dropout: each of the others is a choice in the paper, and a bundle would hide them.
    assert {name: n for name, n in taken.items() if n > 8} == {"course_lib/models/transformer.py: Transformer": 9}


def test_classes_compose_and_do_not_override():
    """A subclass of a class of the course adds to it; only `__init__` may be overridden."""
    ours = {(module_of(path), node.name): node for path in LIBRARY for node in classes(path)}

    def above(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
        """Return the bases with their modules: from the same module, else every class of the course with that name."""
        for base in base_names(node):
            named = [key for key in ours if key[1] == base and key != (module, node.name)]
            for key in [key for key in named if key[0] == module] or named:
                yield key[0], ours[key]

    def inherited(module: str, node: ast.ClassDef) -> set[str]:
        return set().union(*(methods(base) | inherited(there, base) for there, base in above(module, node)))

    assert any(inherited(module, node) for (module, _), node in ours.items())
    assert {key: both for key, node in ours.items() if (both := methods(node) & inherited(key[0], node) - {"__init__"})} == {}


def types_of(path: Path) -> set[str]:
    """Return the public classes and type aliases that a module defines at its top level, without type variables."""
    found = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            found.update(ast.unparse(target) for target in node.targets)
    return {name for name in found if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


def test_no_two_modules_give_one_name_to_two_types():
    places: dict[str, list[str]] = {}
    for path in OURS:
        if path.parent.parent.name == "bank":  # the classes of an answer are those of its exercise alone
            continue
        for name in types_of(path):
            places.setdefault(name, []).append(shown(path))
    assert {"MultiHead", "Mechanism", "Answer", "Exercise"} <= places.keys()
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


HEAVY = {"seaborn", "pandas", "ipywidgets", "matplotlib", "IPython", "sklearn", "scipy", "babel", "networkx", "mlxtend"}
LIGHT = [*(f"course_lib.{name}" for name in (*MECHANISMS, "fast", "shapes", "training", "datasets")), "course_tools.bank"]


def test_importing_library_checks_and_bank_loads_no_plots_tables_or_widgets():
    """Modules that torch itself loads, tqdm and possibly networkx, do not count."""
    imports = "import sys, torch; before = set(sys.modules); import " + ", ".join(LIGHT)
    done = run("-c", f"{imports}; print(sorted({HEAVY} & set(sys.modules) - before))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_importing_the_tools_of_a_notebook_loads_no_package_that_they_do_not_use_at_once():
    late = HEAVY - {"matplotlib"} | {"matplotlib.pyplot"}
    done = run("-c", f"import sys, torch; import course_tools.notebook; print(sorted({late} & set(sys.modules)))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("package", ["course_lib", "course_tools"])
def test_importing_a_top_package_loads_not_even_torch(package):
    done = run("-c", f"import sys, {package}; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


TESTED_TOGETHER = {
    "models/gcn": "models/test_gat.py",
    "pretrained/gpt2": "pretrained/test_checkpoints.py",
    "pretrained/bert": "pretrained/test_checkpoints.py",
    "pretrained/llama": "pretrained/test_checkpoints.py",
    "pretrained/checkpoint_reader": "pretrained/test_checkpoints.py",
}
"""Modules whose tests compare them with another, in the test file of that one or of both."""


@for_each(MECHANISMS)
def test_the_tests_of_the_mechanisms_mirror_the_library(package):
    library = {f"{package}/{path.stem}" for path in (ROOT / "course_lib" / package).glob("*.py") if path.stem != "__init__"}
    tests = ROOT / "tests" / "course_lib"
    own = {f"{package}/{path.stem.removeprefix('test_')}" for path in (tests / package).glob("test_*.py")}
    assert library - own - TESTED_TOGETHER.keys() == set()


@pytest.mark.parametrize(("module", "test"), TESTED_TOGETHER.items())
def test_a_module_without_a_test_file_of_its_own_is_tested_in_the_one_named(module, test):
    defined = tree_of(ROOT / "course_lib" / f"{module}.py").body
    names = {node.name for node in defined if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"}
    used = {node.id for node in ast.walk(tree_of(ROOT / "tests" / "course_lib" / test)) if isinstance(node, ast.Name)}
    assert names & used


BINARY = (".png", ".webp", ".ico", ".pt")


def test_nothing_is_left_to_do_in_words_and_no_path_is_of_one_machine():
    unwanted = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b|(?<![\w.])/(?:home|Users|root|work|mnt)/\w+|\b[A-Z]:\\Users\\")
    found = {shown(path): unwanted.findall(text_of(path)) for path in files() if path.suffix not in BINARY}
    assert {path: words for path, words in found.items() if words} == {}


@for_each(["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "environment.yml", ".ci/run"])
def test_what_a_newcomer_looks_for_is_there(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()
