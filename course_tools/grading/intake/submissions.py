"""Intake: assign the notebooks in a download from an LMS, or in a folder, to students.

The layout is chosen once for a whole archive, by the majority of the names at its top, one vote each. What a student put into
a zip or folder has none, nor has a page: Canvas stores typed texts as name_12345_text.html. A name that fits two patterns has
that of the LMS whose numbers come first, since the end of a name is the student's. A name that fits another layout than the
archive's yields a note.
There are four layouts:
    nbgrader    submitted/<id>/<assignment>/NB.ipynb
    Moodle      Full Name_123456_assignsubmission_file_/NB.ipynb, or the same in one file name
    Canvas      name_12345_67890_NB.ipynb, name_LATE_12345_67890_NB-1.ipynb     (user, attachment, number of the resubmission)
    a folder    one file or one folder per student, named after the student
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from course_tools.grading.intake.archive import Archive, Entry

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<id>[1-9]\d*)_(?P<attachment>[1-9]\d*)_(?P<file>.+)", re.DOTALL)
_RESUBMITTED = re.compile(r"-(\d{1,3})(?=(?:\.\w+)+$)")
_COPY = re.compile(r"(?: ?\(\d+\)| - (?:Copy|Kopie|copie)(?: \(\d+\))?|-Copy\d+)$", re.IGNORECASE)
_NOTEBOOK = re.compile(r"\.ipynb(?:\.(?:txt|json))?$|\.json$", re.IGNORECASE)
_PAGE = re.compile(r"\.html?$", re.IGNORECASE)
_MOST_NOTEBOOKS = 40
"""Each may take minutes, and the course has fewer lectures. Files that end in .ipynb come before other JSON files."""
_NBGRADER = frozenset({"source", "release", "submitted", "autograded", "feedback", "downloaded"})
_NOBODYS = frozenset({"timestamp.txt", "onlinetext.html"})


class Student(NamedTuple):
    """A student: the number in the LMS, else the name of the folder or file; and the name to show."""

    id: str
    name: str


@dataclass(frozen=True)
class Submission:
    """One notebook of one student. `attempt` is Canvas's number of the resubmission, 0 for a first one or another LMS.

    `lms` is "Canvas" or "Moodle" if the name of the download shows it. `returned_as` is the name of the file in Canvas, or of
    the student's folder in Moodle: the LMS accepts feedback under that name.
    """

    student: Student
    source: str
    file_name: str
    read: Callable[[], bytes]
    attempt: int = 0
    late: bool = False
    lms: str = ""
    returned_as: str = ""

    @property
    def series(self) -> str:
        """The common part of the file names of one assignment, without Canvas's number of the resubmission."""
        return _RESUBMITTED.sub("", self.file_name).casefold()


class Note(NamedTuple):
    """A remark on a file that is not graded, or is unusual; `student` is None if the student is unknown."""

    student: Student | None
    source: str
    text: str


class Intake(NamedTuple):
    """Everything that was submitted: the notebooks, in a fixed order, and remarks on other files."""

    submissions: tuple[Submission, ...]
    notes: tuple[Note, ...]


class _Place(NamedTuple):
    """The student of a file and its original name; no file name if the file is irrelevant."""

    student: Student | None
    file_name: str
    attempt: int = 0
    late: bool = False
    lms: str = ""
    returned_as: str = ""


@contextmanager
def handed_in(path: Path, topics: Sequence[str] = (), skip: Path | None = None) -> Iterator[Intake]:
    """Read the submissions in a folder or zip, which stays open during the `with` block.

    Args:
        path: the folder or zip.
        topics: the names of the course's notebooks, such as "04_self_attention", which are not part of a student's name.
        skip: a folder within it that is ignored.

    Raises:
        CannotGrade: the path cannot be read.
    """
    with Archive(path, skip) as archive:
        paths = [(entry.parts, entry.inside) for entry in archive.entries]
        whose = _Whose([*paths, *((item.parts, item.inside) for item in archive.refused)], path, topics)
        submissions, notes, n_notebooks = [], [], Counter[str]()
        for entry in sorted(archive.entries, key=lambda entry: not entry.parts[-1].lower().endswith(".ipynb")):
            place = whose.place(entry.parts, entry.inside)
            if place.student is not None and _NOTEBOOK.search(place.file_name):
                n_notebooks[place.student.id] += 1
                if n_notebooks[place.student.id] > _MOST_NOTEBOOKS:
                    text = f"is more than the {_MOST_NOTEBOOKS} notebooks that are graded for a student; not graded."
                    notes.append(Note(place.student, entry.source, text))
                    continue
                submissions.append(_submission(entry, place))
                if other := whose.other_layout(entry.parts, entry.inside):
                    notes.append(
                        Note(
                            place.student,
                            entry.source,
                            f"has a name in {other}'s format, but most files do not.",
                        )
                    )
            elif place.file_name and place.file_name not in _NOBODYS:
                notes.append(Note(place.student, entry.source, "is not a notebook (.ipynb); not graded."))
        notes += [
            Note(whose.place(item.parts, item.inside).student, "/".join(item.parts), item.reason) for item in archive.refused
        ]
        yield Intake(tuple(submissions), tuple(notes))


def _submission(entry: Entry, place: _Place) -> Submission:
    return Submission(place.student, entry.source, place.file_name, entry.read, *place[2:])


class _Whose:
    """Assigns each path to a student. The members of a student's zip belong to that student."""

    def __init__(self, paths: list[tuple[tuple[str, ...], int]], path: Path, topics: Sequence[str]) -> None:
        outer = [parts[: len(parts) - inside] for parts, inside in paths]
        self._wrapped = int(path.is_file() and _is_wrapped(outer, topics))
        outer = [parts[self._wrapped :] for parts in outer]
        votes: dict[str, Counter[str]] = {}
        for parts in outer:
            if len(parts) == 1 and _PAGE.search(parts[0]):
                continue
            votes.setdefault(parts[0], Counter())[next(filter(None, map(_form, parts)), "plain")] += 1
        forms = Counter(of_one.most_common(1)[0][0] for of_one in votes.values())
        if 2 * forms["Moodle"] > len(votes):
            self._layout = "Moodle"
        elif path.name == "submitted" or _is_nbgrader(outer):
            self._layout = "nbgrader"
        else:
            self._layout = "Canvas" if 2 * forms["Canvas"] > len(votes) else "plain"
        self._stems = {_stem(parts[0]) for parts in outer if len(parts) == 1}
        named = "|".join(re.escape(topic) for topic in sorted(topics, key=len, reverse=True))
        self._topic = re.compile(rf"(?:{named})" if named else r"(?!)", re.IGNORECASE)
        self._from = 0 if path.name == "submitted" else 1

    def place(self, path: tuple[str, ...], inside: int) -> _Place:
        parts = path[self._wrapped : len(path) - inside]
        known = {"Moodle": _moodle, "nbgrader": self._in_nbgrader, "Canvas": _canvas, "plain": self._plain}[self._layout]
        found = known(parts) or self._plain(parts)
        return found._replace(file_name=path[-1]) if inside else found

    def other_layout(self, path: tuple[str, ...], inside: int) -> str:
        """Return the layout that the name of a file fits if it differs from that of the archive; else ""."""
        parts = path[self._wrapped : len(path) - inside]
        if self._layout != "Moodle" and _moodle(parts) is not None:
            return "Moodle"
        return "Canvas" if self._layout == "plain" and _canvas(parts) is not None else ""

    def _in_nbgrader(self, parts: tuple[str, ...]) -> _Place:
        """Only files under submitted/ are a student's; source, release, autograded and feedback are ignored."""
        if len(parts) < self._from + 2 or (self._from and parts[0] != "submitted"):
            return _Place(None, "")
        return _Place(Student(parts[self._from], parts[self._from]), parts[-1])

    def _plain(self, parts: tuple[str, ...]) -> _Place:
        if len(parts) > 1:
            return _Place(Student(parts[0], parts[0]), parts[-1])
        if not re.search(r"\.(?:ipynb|json|zip)\b", parts[0], re.IGNORECASE):
            return _Place(None, parts[0])
        named = _stem(parts[0])
        original = _COPY.sub("", named)
        named = original if original in self._stems else named
        student = self._topic.sub("", named).strip(" _.-") or named
        return _Place(Student(student, student), parts[0])


def _is_wrapped(paths: list[tuple[str, ...]], topics: Sequence[str]) -> bool:
    """Return whether one folder contains the whole download; the only folder of one student is recognised by its lectures."""
    tops = {parts[0] for parts in paths}
    if len(tops) != 1 or any(len(parts) < 2 for parts in paths) or _moodle((next(iter(tops)),)):
        return False
    return not any(len(parts) == 2 and _stem(parts[1]) in topics for parts in paths)


def _is_nbgrader(paths: list[tuple[str, ...]]) -> bool:
    """Return whether the folders are those of a course of nbgrader, and one holds submissions: submitted/<id>/<assignment>/."""
    tops = {parts[0] for parts in paths if len(parts) > 1 or _NOTEBOOK.search(parts[0])}
    return tops <= _NBGRADER and any(parts[0] == "submitted" and len(parts) > 3 for parts in paths)


def _moodle(parts: tuple[str, ...]) -> _Place | None:
    for at, part in enumerate(parts):
        if found := _MOODLE.fullmatch(part):
            file_name = parts[-1] if at + 1 < len(parts) else found["file"]
            folder = part[: found.start("file")]
            return _Place(Student(found["id"], found["name"]), file_name, lms="Moodle", returned_as=folder)
    return None


def _form(name: str) -> str:
    """The LMS whose numbers come first in a name, or "" if it fits the pattern of neither."""
    found = {"Moodle": _MOODLE.fullmatch(name), "Canvas": _CANVAS.fullmatch(name)}
    begins = {lms: match.start("id") for lms, match in found.items() if match}
    return min(begins, key=lambda lms: begins[lms], default="")


def _canvas(parts: tuple[str, ...]) -> _Place | None:
    found = next(filter(None, map(_CANVAS.fullmatch, parts)), None)
    if found is None:
        return None
    number = _RESUBMITTED.search(found["file"])
    attempt = int(number[1]) if number else 0
    late = found["late"] is not None
    return _Place(Student(found["id"], found["name"]), found["file"], attempt, late, "Canvas", found[0])


def _stem(file_name: str) -> str:
    return re.sub(r"\.zip$", "", _NOTEBOOK.sub("", file_name), flags=re.IGNORECASE) or file_name
