"""The search for everything of a notebook that an answer needs: by name, from statement to statement."""

import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from course_tools.checks import Exercise
from course_tools.grading.extract.statements import Unparsable

if TYPE_CHECKING:
    from course_tools.grading.extract.programs import Notebook

At = tuple[int, int]
"""The place of a statement: the number of its cell and its number in the cell."""


class NotFound(LookupError):
    """No cell of the notebook holds the exercise."""


@dataclass
class Search:
    """The search for everything that the answer at a place needs."""

    notebook: "Notebook"
    answer: At
    ready: dict[str, Exercise]
    later: dict[str, Exercise]
    taken: set[At] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)

    def take(self) -> None:
        """Take the answer and all that it needs; of functions that change something, also the calls that do it."""
        waiting = [self.answer]
        while waiting:
            at = waiting.pop()
            if at in self.taken:
                continue
            self.taken.add(at)
            statement = self.notebook.at(at)
            for name in statement.needs:
                waiting += self._found(name, at[0])
            if statement.acts and at != self.answer:
                waiting += self.notebook.callers(statement.binds, self.answer[0])
        if self.missing:  # a name that was found nowhere may come from an `import *`
            self.taken.update(self.notebook.stars())

    def imports(self) -> list[str]:
        """The earlier exercises that are needed, as imports from the library."""
        return [f"from {self.ready[name].reference.__module__} import {name}" for name in sorted(self.given)]

    def _found(self, name: str, cell: int) -> list[At]:
        own = self._with_changes(name, cell)
        if any(self.notebook.is_fresh(name, at) for at in own):
            return own
        return own + ([] if hasattr(builtins, name) else self._elsewhere(name, cell))

    def _elsewhere(self, name: str, cell: int) -> list[At]:
        if name in self.ready:
            self.given.add(name)
            return []
        if name in self.later:
            try:
                return [self.notebook.answer(self.later[name])[1]]
            except (NotFound, Unparsable):
                return []
        for other in self.notebook.around(name, cell):
            if found := self._with_changes(name, other):
                return found
        self.missing.add(name)
        return []

    def _with_changes(self, name: str, cell: int) -> list[At]:
        found = self.notebook.binders(name, cell)
        return found + self.notebook.changers(name, found, self.answer[0]) if found else []
