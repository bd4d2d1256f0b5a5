"""Paths of the course on disk, and its list of lectures."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_tools.command_failed import CommandFailed

_PACKAGE = Path(__file__).resolve().parents[1]


class NotACourse(CommandFailed):
    """No folder that contains `authoring/` was found."""

    status = 2


class UnknownLecture(CommandFailed):
    """A requested lecture does not exist; the text lists those that do."""

    status = 2


class PublishingFailed(CommandFailed):
    """A lecture could not be built or run; the text says which, where and why."""


@dataclass(frozen=True)
class Lecture:
    """One lecture and its three files: the authoring source, the student's notebook and the solved one."""

    root: Path
    stem: str

    @property
    def number(self) -> str:
        """Its two-digit number, such as "04"."""
        return self.stem[:2]

    @property
    def authoring(self) -> Path:
        """The authoring source, the only form that is edited by hand."""
        return self.root / "authoring" / f"{self.stem}.py"

    @property
    def unsolved(self) -> Path:
        """The student's notebook."""
        return self.root / "lectures" / f"{self.stem}.ipynb"

    @property
    def solution(self) -> Path:
        """The solved and executed notebook."""
        return self.root / "solutions" / f"{self.stem}.ipynb"

    @property
    def title(self) -> str:
        """Its title, from the heading `# 04 · Self-attention` of its source; if that is not installed, of its notebook."""
        if self.authoring.exists():
            text = self.authoring.read_text(encoding="utf-8").replace("\n# ", "\n")
        else:
            text = "\n".join("".join(cell["source"]) for cell in json.loads(self.unsolved.read_text(encoding="utf-8"))["cells"])
        heading = re.search(r"^# \d\d · (.+)$", text, flags=re.MULTILINE)
        return heading[1].strip() if heading else self.stem[3:].replace("_", " ")

    @property
    def source_name(self) -> str:
        """The path of its source from the root."""
        return self.name(self.authoring)

    def name(self, path: Path) -> str:
        """Return the path of one of its files from the root, with forward slashes on every system."""
        return path.relative_to(self.root).as_posix()


def project_root() -> Path:
    """Find the folder of the course: the one that contains this package, else the working directory or one above it.

    Raises:
        NotACourse: none of them has an `authoring` folder.
    """
    for folder in (_PACKAGE.parent, Path.cwd(), *Path.cwd().parents):
        if (folder / "authoring").is_dir():
            return folder
    raise NotACourse("this command must run in the folder of the course, which contains course.py and authoring/.")


def lectures_root() -> Path:
    """Find the folder whose `lectures/` contains the notebooks for students: the course, or a copy of it without its sources.

    Raises:
        NotACourse: there is none.
    """
    return _PACKAGE.parent if (_PACKAGE.parent / "lectures").is_dir() else project_root()


def lectures(root: Path, numbers: Iterable[str] = ()) -> list[Lecture]:
    """Return the lectures of a course in order: those with the given numbers ("4" or "04"), or all.

    Raises:
        UnknownLecture: there is no lecture of that number.
    """
    sources = sorted((root / "authoring").glob("[0-9][0-9]_*.py")) or sorted((root / "lectures").glob("[0-9][0-9]_*.ipynb"))
    found = {path.stem[:2]: Lecture(root, path.stem) for path in sources}
    wanted = {number.zfill(2) for number in numbers}
    if unknown := sorted(wanted - set(found)):
        named = ", ".join(f"{lecture.number} {lecture.title}" for lecture in found.values()) or "none"
        raise UnknownLecture(f"there is no lecture {', '.join(unknown)}; the course has: {named}.")
    return [lecture for number, lecture in found.items() if not wanted or number in wanted]
