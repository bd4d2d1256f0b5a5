"""Recognise the lecture of a notebook: from its cells, and from the file name only if the cells are inconclusive."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_tools.bank import LECTURES, exercises
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.publishing import lectures

_EXERCISE = re.compile(r"(\d\d)\.\d{1,2}")
_GRADE_ID = re.compile(r"(?:exercise|check)-(\d\d)-\d{1,2}\b.*", re.DOTALL)
_CHECK = re.compile(r"\bcheck\(\s*[\"'](\d\d)\.\d{1,2}[\"']")
_DEFINED = re.compile(r"^def (\w+)\s*\(", re.MULTILINE)
_NUMBER = re.compile(r"lecture[ _-]*0*(\d{1,2})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Course:
    """What identifies each lecture: `stems` and `titles` by its number; cell `ids` and `functions` map to lecture numbers."""

    stems: dict[str, str]
    titles: dict[str, str]
    ids: dict[str, str]
    functions: dict[str, str]

    @classmethod
    def at(cls, root: Path) -> "Course":
        """Collect them from the built notebooks of a course and from its exercises."""
        found = [lecture for lecture in lectures(root) if lecture.number in LECTURES]
        ids = {id: lecture.number for lecture in found for id in _cell_ids(lecture.unsolved)}
        known = {lecture.number for lecture in found}
        functions = {item.reference.__name__: item.lecture for item in exercises() if item.lecture in known}
        return cls(
            {lecture.number: lecture.stem for lecture in found},
            {lecture.number: lecture.title for lecture in found},
            ids,
            functions,
        )

    def lecture_of(self, cells: Sequence[Cell], file_name: str) -> str | None:
        """Return the lecture of a notebook, or None if it is unknown.

        Args:
            cells: its cells; each counts once for a lecture that its exercise tag, nbgrader id, cell id or check names. If none
                names one, the functions of exercises that they define are counted.
            file_name: used only if no cell identifies the lecture.
        """
        found_numbers = Counter(number for cell in cells if cell.type == "code" for number in self._numbers_in(cell))
        if not found_numbers:
            names = [name for cell in cells if cell.type == "code" for name in _DEFINED.findall(cell.source)]
            found_numbers = Counter(self.functions[name] for name in names if name in self.functions)
        named = self.named(file_name)
        most = max(found_numbers.values(), default=0)
        likely = sorted(number for number, n in found_numbers.items() if n == most)
        return named if named in likely or not likely else likely[0]

    def named(self, file_name: str) -> str | None:
        """Return the lecture that a file name contains, or None."""
        text = re.sub(r"[^a-z0-9]+", "_", file_name.casefold())
        names = [(name, number) for number, stem in self.stems.items() for name in (stem, stem[3:])]
        for name, number in sorted(names, key=lambda pair: -len(pair[0])):  # "transformer" is a part of longer names
            if name in text:
                return number
        found = _NUMBER.search(text)
        number = found[1].zfill(2) if found else None
        return number if number in self.stems else None

    def _numbers_in(self, cell: Cell) -> set[str]:
        exercise, marks = cell.metadata.get("exercise"), cell.metadata.get("nbgrader")
        grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
        found_numbers = [
            found[1] for text, form in ((exercise, _EXERCISE), (grade_id, _GRADE_ID)) if (found := _match(form, text))
        ]
        found_numbers += _CHECK.findall(cell.source) if "check(" in cell.source else []
        return {number for number in [*found_numbers, self.ids.get(cell.id)] if number in self.stems}


def _match(form: re.Pattern[str], text: object) -> re.Match[str] | None:
    return form.fullmatch(text) if isinstance(text, str) else None


def _cell_ids(notebook: Path) -> list[str]:
    """The ids of the cells of a built notebook; empty if it has not been built."""
    if not notebook.exists():
        return []
    return [cell["id"] for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if "id" in cell]
