"""The `course_lib` that a student's code finds inside the sandbox: no library, but the few definitions that its exercise needs.

What is allowed comes as text: a line `{"modules": [...], "places": {module: [start, end]}}`, then for each module at its place
`{name: {"source", "needs"}}`, compressed. It is read when the module is imported, and a definition is run when it is first
asked for. Every other import succeeds as well and gives a stand-in, which raises NotAtHand when it is used. This
text runs inside the sandbox.
"""

import importlib
import json
import sys
import types
import zlib
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

ROOTS = ("course_lib", "course_tools")
FUTURE = __import__("__future__").annotations.compiler_flag


UNUSABLE = "{} is not at hand while this exercise is judged; write it with torch, or by hand."


class NotAtHand(RuntimeError):
    """Something of the course was used that is not there while an answer is judged."""


class StandIn:
    """What is imported of the course and is not allowed: it may be imported, named and inherited from, but not used."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *inputs: object, **options: object) -> object:
        """Say what it is."""
        raise NotAtHand(UNUSABLE.format(self.__name__))

    def __getattr__(self, name: str) -> "StandIn":
        """Stand in for what is below it as well."""
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __getitem__(self, key: object) -> "StandIn":
        """Allow `Name[...]` where types are named."""
        return self

    def __or__(self, other: object) -> object:
        """Allow `Name | None` where types are named."""
        return other

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple) -> tuple:
        """Allow a class to inherit from it."""
        return ()


class Anything:
    """Stands for IPython's shell: every attribute, call and item of it is itself."""

    def __getattr__(self, name: str) -> "Anything":
        """Have every attribute."""
        return self

    def __call__(self, *inputs: object, **options: object) -> "Anything":
        """Do nothing."""
        return self

    def __getitem__(self, key: object) -> "Anything":
        """Hold every item."""
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Take every item."""


class Module(types.ModuleType):
    """One module of the course, or one that it does not have: its names are made when they are asked for."""

    def __getattr__(self, name: str) -> object:
        """Give what is allowed of this name, a module below this one, or a stand-in."""
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
        """Keep a module below this one from hiding what is allowed of the same name."""
        if not (isinstance(value, Module) and name in vars(self).get("__entries__", ())):
            super().__setattr__(name, value)

    def __call__(self, *inputs: object, **options: object) -> object:
        """Say what it is, where a function has the name of a module."""
        raise NotAtHand(UNUSABLE.format(self.__name__))

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
    """Finds every module below `course_lib`, there or not."""

    def __init__(self, allowed: bytes | bytearray, provided: dict[str, object]) -> None:
        n = allowed.index(b"\n")
        index = json.loads(allowed[:n])
        self.modules, self.places, self.packed = frozenset(index["modules"]), index["places"], memoryview(allowed)[n + 1 :]
        self.provided = provided

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Tell the import system that a module of the course is here."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ROOTS else None

    def create_module(self, spec: ModuleSpec) -> Module:
        """Make a module that is empty as yet."""
        module = Module(spec.name)
        vars(module).update(__entries__=self.entries(spec.name), __modules__=self.modules, __provided__=self.provided)
        return module

    def entries(self, module: str) -> dict[str, dict]:
        """Read what is allowed of a module."""
        if module not in self.places:
            return {}
        start, end = self.places[module]
        return json.loads(zlib.decompress(self.packed[start:end]))

    def exec_module(self, module: Module) -> None:
        """Run nothing: the names are made when they are asked for."""


def forget() -> None:
    """Take the modules of the sandbox itself out of the way of `import course_lib`; once, for all workers."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ROOTS]:
        del sys.modules[name]


def install(allowed: bytes | bytearray, provided: dict[str, object]) -> None:
    """Let `import course_lib` find the allowed names, in every module of the course also what is provided, and nothing else."""
    sys.meta_path.insert(0, Finder(allowed, provided))


def find(name: str) -> object | None:
    """Give a function by its module and name, "torch.nn.functional:softmax"; None where it is not at hand."""
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return None
    return None if isinstance(value, StandIn) else value
