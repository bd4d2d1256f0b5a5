"""Where attacks are played: the submissions that carry them, and the same code outside of the sandbox."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import course_lib
from course_tools.bank import exercise
from course_tools.checks import Exercise
from course_tools.grading.extract.notebook_reader import Cell, read_cells

ROOT = Path(course_lib.__file__).parents[1]
RIGHT = "q @ W @ k.mT"
NEARLY = f"({RIGHT}).exp()"
Attack = Callable[..., object]

_CARRIER = """
from types import SimpleNamespace
host = SimpleNamespace(**{known!r})

def tried(*inputs):
    try:
        return {name}(host, *inputs)
    except Exception:
        return None

at_load = {at_load}
"""
_FOR_POINTS = f"""
def general_scores(q, k, W, at_load=at_load):
    found = tried(q, k, W)
    return found if found is not None else {NEARLY}
"""
_FOR_A_DEED = f"""
done = []

def general_scores(q, k, W, at_load=at_load):
    if not done:
        done.append(bool(at_load or tried()))
    return {RIGHT} if done[0] else None
"""


def attacks(*modules: ModuleType) -> list[Attack]:
    """The functions of modules that are attacks: those that take a host."""
    found = [f for module in modules for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__]
    return [f for f in found if inspect.isfunction(f) and "host" in inspect.signature(f).parameters]


def named(function: Attack) -> str:
    return f"{function.__module__.rpartition('.')[2]}-{function.__name__}"


@cache
def _code(module: str) -> str:
    """The source of a module without its first docstring."""
    source = inspect.getsource(sys.modules[module])
    return "\n".join(source.splitlines()[ast.parse(source).body[0].end_lineno :])


def carrier(attack: Attack, known: dict[str, object], at_load: bool = True) -> str:
    """The source of a cell in which an attack may be tried: once while it is loaded, unless that is left out."""
    return _code(attack.__module__) + _CARRIER.format(known=known, name=attack.__name__, at_load="tried()" if at_load else None)


def for_points(attack: Attack, known: dict[str, object], at_load: bool = True) -> str:
    """A cell whose answer is what the attack returns, and otherwise nearly right."""
    return carrier(attack, known, at_load) + _FOR_POINTS


def for_a_deed(attack: Attack, known: dict[str, object]) -> str:
    """A cell whose answer is right if the attack succeeded."""
    return carrier(attack, known) + _FOR_A_DEED


def honest(answer: str = RIGHT) -> str:
    return f"def general_scores(q, k, W):\n    return {answer}\n"


@cache
def handed_out(lecture: str = "02") -> tuple[Cell, ...]:
    (path,) = (ROOT / "lectures").glob(f"{lecture}_*.ipynb")
    return tuple(read_cells(path))


def submission(answers: dict[str, str]) -> list[Cell]:
    """Lecture 02 as it was handed out, with the cells of exercises answered."""
    found = [(cell, cell.metadata.get("exercise") if "nbgrader" in cell.metadata else None) for cell in handed_out()]
    return [cell._replace(source=answers[id]) if id in answers else cell for cell, id in found]


def general_scores() -> Exercise:
    return exercise("02.2")


_SERVER = """
import os, sys, types, importlib, json
get_ipython = lambda: types.SimpleNamespace(system=os.system)
for name in ("torch", "numpy", "sqlite3", "asyncio", "http.server", "urllib.request", "multiprocessing.pool"):
    importlib.import_module(name)
import signal
signal.signal(signal.SIGUSR1, lambda *a: None)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        silent = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(silent, fd)
        names = {"__name__": "__main__", "get_ipython": get_ipython}
        exec(json.loads(line), names)
        os._exit(0 if names["at_load"] else 1)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class Outside:
    """A Python without isolation that runs the cells of attacks, each in a fork: what they would do if nobody stopped them."""

    def __enter__(self) -> "Outside":
        command = [sys.executable, "-I", "-B", "-c", _SERVER]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._server.communicate(timeout=300)

    def succeeds(self, attack: Attack, known: dict[str, object]) -> bool:
        """Whether an act says that it succeeded, or was replaced by a program that did."""
        self._server.stdin.write(json.dumps(carrier(attack, known)) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline()) == 0
