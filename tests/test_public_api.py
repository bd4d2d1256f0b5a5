"""The public names of each package, the `__all__` of its modules: each is documented, and none hides another."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import course_lib
from tests.public_names import public_names

LIBRARY = Path(course_lib.__file__).parent
PACKAGES = sorted(
    f"course_lib.{path.stem}" for path in LIBRARY.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
)
PACKAGES = [name for name in PACKAGES if name != "course_lib.__init__"]
each_package = pytest.mark.parametrize("package", PACKAGES)


@each_package
def test_a_package_re_exports_every_module_with_public_names_and_no_name_twice(package):
    module = import_module(package)
    names = public_names(module)
    assert len(names) == len(set(names)) > 0
    if hasattr(module, "__path__"):
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        assert all(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in tree.body[1:])
        modules = [path for path in Path(module.__file__).parent.glob("*.py") if path.stem != "__init__"]
        others = {path.stem for path in modules if "__all__ = " in path.read_text(encoding="utf-8")}
        assert {node.module.rpartition(".")[2] for node in tree.body[1:]} == others


FAST = [path for path in sorted((LIBRARY / "fast").glob("*.py")) if path.stem != "__init__"]


@pytest.mark.parametrize("path", FAST, ids=lambda path: path.stem)
def test_an_equation_names_its_fast_forms(path):
    """In the file of the same name, so that whoever reads the equation knows of them."""
    (equation,) = (each for each in LIBRARY.rglob(path.name) if each.parent != path.parent)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    nodes = ast.walk(ast.parse(equation.read_text(encoding="utf-8")))
    text = " ".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))
    assert [name for name in public_names(import_module(f"course_lib.fast.{path.stem}")) if name not in text] == []


@each_package
def test_every_public_name_resolves_and_has_a_docstring(package):
    module = import_module(package)
    assert module.__doc__
    for name in public_names(module):
        value = getattr(module, name)
        assert not isinstance(value, ModuleType), f"{package}.{name} is a module"
        if inspect.isclass(value) and value.__module__.startswith("course_lib"):
            assert vars(value).get("__doc__"), f"{package}.{name} has no docstring of its own"
        elif inspect.isfunction(value):
            assert value.__doc__, f"{package}.{name} has no docstring"


@each_package
def test_the_docstring_of_a_function_names_its_arguments(package):
    """It names each argument, or states shapes; a function with the same signature names the function that it equals."""
    module = import_module(package)
    for name in public_names(module):
        function = getattr(module, name)
        if not inspect.isfunction(function):
            continue
        text = function.__doc__
        unnamed = [p for p in inspect.signature(function).parameters if not re.search(rf"\b{p}s?\b", text)]
        told = not unnamed or re.search(r"\([^)]*\b(?:T|B|batch)\b[^)]*\)|`\w+`|[Cc]ompute the same", text)
        assert told, f"{package}.{name} does not mention {unnamed}"
