"""The student's own code for each exercise as text: what a reader of the marks, or a search for similar answers, looks at.

Nothing is parsed here, so that cells which are not valid Python are shown as well.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from course_tools.bank import exercises
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import handed_out, is_marked

LONGEST = 20_000
"""Characters that are kept for an exercise."""
_CHECK = re.compile(r"\bcheck\(\s*[\"'](\d\d\.\d{1,2})[\"']\s*,\s*(\w+)")
_DEFINED = re.compile(r"^(?:async +)?(?:def|class)[\s\\]+(\w+)", re.MULTILINE)
_ASSIGNED = re.compile(r"^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)


def names_of_answers(cells: Sequence[Cell], lecture: str) -> dict[str, str]:
    """Return the exercise that each function answers: those of the lecture by their names, others by what is checked."""
    names = {item.reference.__name__: item.id for item in exercises(lecture)}
    checked = [pair for cell in cells if "check(" in cell.source for pair in _CHECK.findall(cell.source)]
    return names | {name: id for id, name in checked if id.startswith(f"{lecture}.")}


def own_code(cells: Sequence[Cell], lecture: str) -> dict[str, str]:
    """Return the student's cells that answer each exercise, and those with functions and classes that these use.

    Args:
        cells: of the notebook.
        lecture: its number.

    Returns:
        the text by exercise; exercises without a cell of the student are missing.
    """
    asked = exercises(lecture)
    given = {cell.source.strip() for cell in handed_out(lecture)}
    own = [cell for cell in cells if cell.source.strip() not in given]
    answered_by = names_of_answers([cell for cell in cells if cell.type == "code"], lecture)
    answers: dict[str, list[int]] = defaultdict(list)
    place_of: dict[str, int] = {}
    for place, cell in enumerate(own):
        defined = _DEFINED.findall(cell.source) if cell.type == "code" else []
        place_of |= dict.fromkeys(defined, place)
        named = [*defined, *(_ASSIGNED.findall(cell.source) if cell.type == "code" else [])]
        ids = {answered_by[name] for name in named if name in answered_by}
        ids |= {item.id for item in asked if is_marked(cell, item)}
        for id in ids:
            answers[id].append(place)
    taken = {place for places in answers.values() for place in places}
    found = {}
    for id, places in sorted(answers.items()):
        kept, queue = set(places), list(places)
        while queue:
            words = re.findall(r"\w+", own[queue.pop()].source)
            helpers = {place_of[word] for word in words if word in place_of} - kept - taken
            kept |= helpers
            queue += helpers
        found[id] = "\n\n\n".join(own[place].source.strip("\n") for place in sorted(kept))[:LONGEST]
    return found
