"""The `course_lib` inside the sandbox: only the definitions that a student's code may use in an exercise.

The allowed definitions are sent as text: a line `{"modules": [...], "places": {module: [start, end]}}`, followed for each
module at its position by `{name: {"source", "needs"}}`, compressed. This is parsed when the module is imported, and a
definition is run when it is first accessed. Every other import also succeeds and returns a stand-in, which raises NotAvailable
when it is used. This module runs inside the sandbox.
"""

import importlib
import json
import sys
import types
import zlib
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec

ROOTS = ("course_lib", "course_tools")
FUTURE = __import__("__future__").annotations.compiler_flag


UNUSABLE = "{} is not available in this exercise; use torch, or write it by hand."


class NotAvailable(RuntimeError):
    """An answer used a part of the course that is not available while it is judged."""


class StandIn:
    """A forbidden import from the course: it can be imported, used in annotations and inherited from, but not called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *inputs: object, **options: object) -> object:
        """Raise NotAvailable."""
        raise NotAvailable(UNUSABLE.format(self.__name__))

    def __getattr__(self, name: str) -> "StandIn":
        """Return a stand-in for the attribute as well."""
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __getitem__(self, key: object) -> "StandIn":
        """Allow `Name[...]` in annotations."""
        return self

    def __or__(self, other: object) -> object:
        """Allow `Name | None` in annotations."""
        return other

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple) -> tuple:
        """Allow classes to inherit from it."""
        return ()


class Anything:
    """Replaces IPython's shell: every attribute, call and item is the object itself."""

    def __getattr__(self, name: str) -> "Anything":
        """Return itself for every attribute."""
        return self

    def __call__(self, *inputs: object, **options: object) -> "Anything":
        """Return itself for every call."""
        return self

    def __getitem__(self, key: object) -> "Anything":
        """Return itself for every item."""
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Ignore the item."""

    def __iter__(self) -> Iterator[object]:
        """Contain nothing: no lines were printed by a program."""
        return iter(())


class Module(types.ModuleType):
    """A module of the course, existing or not: its names are created on access."""

    def __getattr__(self, name: str) -> object:
        """Return the allowed definition of this name, a submodule, or a stand-in."""
        place = vars(self)
        if name in place["__provided__"]:
            return place["__provided__"][name]
        if name in place["__entries__"]:
            self._make(name)
            return place[name]
        if name == "__all__":
            return sorted(name for name in place["__entries__"] if not name.startswith("_"))
        if f"{self.__name__}.{name}" in place["__modules__"]:
            return importlib.import_module(f"{self.__name__}.{name}")
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __setattr__(self, name: str, value: object) -> None:
        """Prevent a submodule from hiding an allowed definition of the same name."""
        if not (isinstance(value, Module) and name in vars(self).get("__entries__", ())):
            super().__setattr__(name, value)

    def __call__(self, *inputs: object, **options: object) -> object:
        """Raise NotAvailable: a function of the course may have the name of a module."""
        raise NotAvailable(UNUSABLE.format(self.__name__))

    def _make(self, name: str) -> None:
        place, entry = vars(self), self.__entries__[name]
        if name in place:
            return
        place[name] = None
        for need in entry["needs"]:
            self._make(need)
        del place[name]
        path = f"/{self.__name__.replace('.', '/')}.py"
        exec(compile(entry["source"], path, "exec", FUTURE, dont_inherit=True), place)


class Finder:
    """Finds every module of the course, existing or not."""

    def __init__(self, allowed: bytes | bytearray, provided: dict[str, object]) -> None:
        n = allowed.index(b"\n")
        index = json.loads(allowed[:n])
        self.modules, self.places, self.packed = frozenset(index["modules"]), index["places"], memoryview(allowed)[n + 1 :]
        self.provided = provided

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return a module spec for every module of the course."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ROOTS else None

    def create_module(self, spec: ModuleSpec) -> Module:
        """Create an empty module."""
        module = Module(spec.name)
        vars(module).update(__entries__=self.entries(spec.name), __modules__=self.modules, __provided__=self.provided)
        return module

    def entries(self, module: str) -> dict[str, dict]:
        """Read the allowed definitions of a module."""
        if module not in self.places:
            return {}
        start, end = self.places[module]
        return json.loads(zlib.decompress(self.packed[start:end]))

    def exec_module(self, module: Module) -> None:
        """Do nothing: the names are created on access."""


def forget() -> None:
    """Remove the sandbox's modules from `sys.modules`, so that `import course_lib` uses the finder; once, for all workers."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ROOTS]:
        del sys.modules[name]


def install(allowed: bytes | bytearray, provided: dict[str, object]) -> None:
    """Let imports of the course find the allowed definitions, and in every module the `provided` objects, but nothing else."""
    sys.meta_path.insert(0, Finder(allowed, provided))


def find(name: str) -> object | None:
    """Return a function by its module and name, "torch.nn.functional:softmax"; None if it is not available."""
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    return None if isinstance(value, StandIn) else value
