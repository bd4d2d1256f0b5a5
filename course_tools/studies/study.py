"""A study: one small file in authoring/studies with its question, the settings that it compares, and how to do one run.

    \"\"\"Is A better than B?                              # the first line is the question; then rivals, budget, time

    Rivals: … Budget: … About 12 minutes on one CPU thread.
    \"\"\"
    SETTINGS = {"A, width 8": ("A", 8), "B, width 8": ("B", 8)}     # name -> any value that `run` accepts
    TOLERANCE = {"accuracy": 0.02}                       # for `course study --check`; other scores must be equal

    def run(setting, seed, device):                      # one training: numbers by name; "curve" = {step: score}
                                                         # and, if it generates text, "texts" = {name: text}
        return {"accuracy": 0.91, "parameters": 1_000, "curve": {100: 0.71, 200: 0.91}}

    def figure(study):                                   # optional: a figure of the record, and its alt text
    def finding(study):                                  # optional: the finding as text, with numbers from the record

Also optional: `SEEDS` (default 0, 1, 2), and `GPU_SETTINGS`, which `--device cuda` runs instead of SETTINGS. A change of
`GPU_SETTINGS` does not make a record made on a CPU stale; a change of `SEEDS` does.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from course_tools import source_digest
from course_tools.command_failed import CommandFailed
from course_tools.studies.study_record import RecordedStudy

_PACKAGE = Path(__file__).resolve().parents[1]
_DESCRIBING = ("figure", "finding")


class CannotStudy(CommandFailed):
    """A study could not be run, checked or read; the text explains why in one sentence."""


class UnknownStudy(CannotStudy):
    """There is no study of this name; the text lists similar names."""

    status = 2


class StaleStudy(CannotStudy):
    """The recorded result comes from another version of the study."""


@dataclass(frozen=True)
class Study:
    """A study, as its file defines it."""

    path: Path
    settings: Mapping[str, Any]
    run: Callable[[Any, int, Any], dict[str, Any]]
    gpu_settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)
    tolerance: Mapping[str, float] = field(default_factory=dict)
    figure: Callable[[RecordedStudy], tuple[Any, str]] | None = None
    finding: Callable[[RecordedStudy], str] | None = None

    @property
    def name(self) -> str:
        """Its name, the stem of its file."""
        return self.path.stem

    @cached_property
    def text(self) -> str:
        """Its docstring: the question in the first line; then rivals, budget and time."""
        return ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""

    @property
    def question(self) -> str:
        """The first line of its docstring."""
        return self.text.partition("\n")[0]

    def source_on(self, device: str) -> str:
        """Hash its file to 16 digits, without docstring, `figure` and `finding`, and on a CPU without `GPU_SETTINGS`.

        What it imports from the course counts by name: a definition that moves to another file makes no record stale.
        """
        text = self.path.read_text(encoding="utf-8")
        lines: list[str | None] = list(text.splitlines())
        names: list[str] = []
        body = ast.parse(text).body
        for i, node in enumerate(body):
            is_docstring = i == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            describes = isinstance(node, ast.FunctionDef) and node.name in _DESCRIBING
            ours = isinstance(node, ast.ImportFrom) and str(node.module).startswith(("course_lib", "course_tools"))
            if ours:
                names += map(ast.unparse, node.names)
            if is_docstring or describes or ours or (device == "cpu" and _assigned(node) == ["GPU_SETTINGS"]):
                lines[node.lineno - 1 : node.end_lineno] = [None] * ((node.end_lineno or 0) - node.lineno + 1)
        kept = "\n".join([*sorted(names), *(line for line in lines if line and line.strip())])
        return hashlib.sha256(kept.encode()).hexdigest()[:16]

    @cached_property
    def library(self) -> str:
        """Digest of the definitions of library and lecture that it uses, directly or not; code that only draws is excluded."""
        root = _PACKAGE.parent
        text = self.path.read_text(encoding="utf-8")
        return source_digest.digest(text, root)

    def drawn(self, record: RecordedStudy) -> tuple[Any, str]:
        """Draw its record: a matplotlib figure, and its alt text.

        Raises:
            CannotStudy: it has no figure.
        """
        if self.figure is None:
            raise CannotStudy(f"the study {self.name} has no figure: define figure(study) in {self.path.name}.")
        return self.figure(record)

    def settings_on(self, device: str) -> Mapping[str, Any]:
        """Return the settings for a device, such as "cpu" or "cuda"."""
        return self.settings if device == "cpu" else self.gpu_settings or self.settings

    def command_on(self, device: str) -> str:
        """Return the command that runs it on a device, such as "course study 07_text --device cuda"."""
        return f"course study {self.name}" + (f" --device {device}" if device != "cpu" else "")


def studies_folder() -> Path:
    """Return authoring/studies of the course."""
    return _PACKAGE.parent / "authoring" / "studies"


def names(folder: Path | None = None) -> list[str]:
    """List the names of all studies, such as "10_windows"."""
    return sorted(path.stem for path in (folder or studies_folder()).glob("[0-9][0-9]_*.py"))


def load(name: str, folder: Path | None = None) -> Study:
    """Read a study from its file.

    Args:
        name: the name, a unique beginning of it, or the number of a lecture that has one study.
        folder: where the studies are; the course's by default.

    Raises:
        UnknownStudy: no study, or more than one, has this name.
        CannotStudy: the file does not define what a study needs.
    """
    folder = folder or studies_folder()
    path = folder / f"{_full_name(name, names(folder))}.py"
    spec = importlib.util.spec_from_file_location(f"study_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CannotStudy(f"{path.name} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lacking = [part for part in ("SETTINGS", "run") if not hasattr(module, part)]
    if lacking or not module.__doc__:
        raise CannotStudy(f"{path.name} is not a study: it has no {' and no '.join([*lacking] or ['docstring'])}.")
    optional = ("GPU_SETTINGS", "SEEDS", "TOLERANCE", "figure", "finding")
    given = {part.lower(): getattr(module, part) for part in optional if hasattr(module, part)}
    return Study(path, module.SETTINGS, module.run, **given)


def _assigned(node: ast.stmt) -> list[str]:
    """List the names that a statement assigns."""
    return [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]


def _full_name(name: str, known: Iterable[str]) -> str:
    known = list(known)
    name = name.removesuffix(".py")
    if name in known:
        return name
    begun = [other for other in known if other.startswith(f"{name.zfill(2)}_" if name.isdigit() else name)]
    if len(begun) == 1:
        return begun[0]
    near = begun or get_close_matches(name, known, n=3, cutoff=0.5) or known
    raise UnknownStudy(
        f"there is no study {name!r}; {'similar names' if near is not known else 'the studies'} are: {', '.join(near)}."
    )
