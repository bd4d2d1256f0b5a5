"""What the claims of a lecture say and what must hold for them: `course_tools/lectures/lecture_NN/claims.toml`.

    [m]
    says = "With positions, {positions} of the new dates are right; without, {zero}."
    holds = ["min(positions) >= 0.85", "min(positions) - max(zero) >= 0.4"]

`{positions:%}` shows a share of 1 in per cent, `{sizes:each}` all numbers of a list, not their range. Where several values are
not those of seeds, `repeated = "draws of labels"` says what was repeated. `predicted = "05.p4"` names the prediction of its
last number: a student who made it reads "You said 0.5". The notebook, the tests and the pages read the file here. All
conditions in `holds` must hold; `conditions` says what they may contain.
"""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from course_tools.notebook import conditions

FOLDER = Path(__file__).parents[1] / "lectures"


@dataclass(frozen=True)
class ClaimStatement:
    """A claim without its measured values: the sentence, with the names of the values in braces, and the conditions."""

    id: str
    says: str
    holds: tuple[str, ...]
    repeated: str = "seeds"
    predicted: str = ""

    def __post_init__(self) -> None:
        """Refuse an empty or malformed statement."""
        if not self.says.strip() or not self.holds:
            raise ValueError("it needs `says`, a sentence, and `holds`, a list with at least one condition.")
        for _, name, form, conversion in Formatter().parse(self.says):
            if name is not None and (not name.isidentifier() or form not in ("", "%", "each") or conversion):
                raise ValueError(
                    "braces in `says` contain the name of a value, with :% for a share or :each for all numbers of a list, and "
                    f"no more: {{{name}}}."
                )
        for condition in self.holds:
            if not conditions.names(condition):
                raise ValueError(f"the condition `{condition}` names no measured value.")

    @property
    def shown(self) -> list[str]:
        """The names of the values in the sentence, in order."""
        return [name for _, name, _, _ in Formatter().parse(self.says) if name is not None]

    @property
    def forms(self) -> dict[str, str]:
        """How the sentence shows each of its values: "%", "each" or ""."""
        return {name: form or "" for _, name, form, _ in Formatter().parse(self.says) if name is not None}

    def filled(self, shown: Mapping[str, str]) -> str:
        """Return the sentence with its values in words."""
        return "".join(text + (shown[name] if name is not None else "") for text, name, _, _ in Formatter().parse(self.says))

    @property
    def names(self) -> set[str]:
        """The names of all values that the claim needs."""
        return set(self.shown).union(*map(conditions.names, self.holds))

    def require(self, given: Collection[str]) -> None:
        """Refuse values that are not those of the statement.

        Raises:
            ValueError: a value is missing, or is used neither in the sentence nor in a condition.
        """
        if missing := sorted(self.names - set(given)):
            raise ValueError(f'claim("{self.id}", …) needs {"=…, ".join(missing)}=…, which its statement names.')
        if unused := sorted(set(given) - self.names):
            raise ValueError(
                f'claim("{self.id}", …) is given {", ".join(unused)}, which neither `says` nor `holds` names; leave it out, or '
                f"name it in {_file(self.id[:2])}."
            )

    def holds_for(self, values: Mapping[str, object]) -> bool:
        """Return whether all conditions hold for these values."""
        return all(conditions.holds(condition, values) for condition in self.holds)

    def bounds(self) -> str:
        """Put the conditions in words."""
        return conditions.in_words(self.holds)


def statement(id: str) -> ClaimStatement:
    """Return the statement of a claim.

    Raises:
        ValueError: the id is malformed or unknown, or the file of its lecture is malformed; the text says what to do.
    """
    if not re.fullmatch(r"\d\d\.[\w-]+", id):
        raise ValueError(f'the id of a claim is its lecture and a name, such as "05.m"; got {id!r}.')
    lecture, _, name = id.partition(".")
    known = statements(lecture)
    if name not in known:
        near = ", ".join(difflib.get_close_matches(name, known, n=3)) or "none"
        raise ValueError(f"{_file(lecture)} has no [{name}] with `says` and `holds`: add it; similar names there: {near}.")
    return known[name]


def statements(lecture: str) -> dict[str, ClaimStatement]:
    """Return the statements of all claims of a lecture, such as "05", by their names without the number of the lecture.

    Raises:
        ValueError: the file is missing or malformed.
    """
    file = FOLDER / f"lecture_{lecture}" / "claims.toml"
    if not file.exists():
        raise ValueError(f"there is no {_file(lecture)}; write into it what the claims of lecture {lecture} say.")
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{_file(lecture)}: {error}.") from error
    return {name: _read(f"{lecture}.{name}", table) for name, table in tables.items()}


def _read(id: str, table: object) -> ClaimStatement:
    where = f"{_file(id[:2])}, [{id[3:]}]"
    match table:
        case {"says": str(says), "holds": [*conditions_], **more} if all(
            isinstance(text, str) for text in (*conditions_, *more.values())
        ) and more.keys() <= {"repeated", "predicted"}:
            try:
                return ClaimStatement(id, says, tuple(conditions_), **more)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
    raise ValueError(
        f"{where} needs `says`, a sentence, `holds`, a list of strings, perhaps `repeated` and `predicted`, and nothing else."
    )


def _file(lecture: str) -> str:
    return f"course_tools/lectures/lecture_{lecture}/claims.toml"
