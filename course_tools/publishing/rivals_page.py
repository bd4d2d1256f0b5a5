"""The site's page of rivals: each mechanism compared with its obvious rivals and controls, and answers to objections.

The rows are in docs/rivals.toml, without numbers: these come from the claims of the executed solutions and from the records of
the studies.
"""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean

from course_tools.publishing.claims_table import cell, number_in_words
from course_tools.publishing.project import Lecture, PublishingFailed, lectures
from course_tools.publishing.sections import MadeClaims
from course_tools.studies.study_record import read, record_path

ROWS = "docs/rivals.toml"
_HEAD = """# Rivals and controls

A mechanism is best judged against its obvious rival. A control removes the supposed cause, and the effect must disappear with
it. The mechanism's number comes first; a signed number is its lead. *Neither* leads if a difference is too small to decide. Of
two lists of scores in a study, neither leads if the scores overlap or, where both have the same data seed by seed, if the sign
differs between seeds. A result from a single seed may be due to chance. Ids link to the claim in the solved
lecture, names of studies to [studies.md](studies.md), which lists each seed. The second part answers
[objections](#objections-and-answers).
"""
_COLUMNS = ("Mechanism", "Rival or control", "Measured", "Numbers", "Who leads", "Source")
_OBJECTIONS = """## Objections and answers

The first objections of a critical reader, and what was measured about each.

| | Objection | Measured | Answer |
| --- | --- | --- | --- |"""


@dataclass(frozen=True)
class _Value:
    """A measured number, or one for each seed, and the link to where it is measured."""

    runs: tuple[float, ...]
    source: str

    @property
    def mean(self) -> float:
        return mean(self.runs)


@dataclass(frozen=True)
class _Measured:
    """Everything that the rows of the page may refer to."""

    root: Path

    @cached_property
    def lectures(self) -> dict[str, Lecture]:
        return {lecture.number: lecture for lecture in lectures(self.root)}

    @cached_property
    def claims(self) -> MadeClaims:
        return MadeClaims(list(self.lectures.values()))

    def value(self, name: str | list[str]) -> _Value:
        """Find a value of a claim by "id" or "id:name", or of a study by its name, setting and score."""
        if isinstance(name, str):
            value = self.claims.value(name)
            return _Value(tuple(value) if isinstance(value, list) else (value,), self.claims.link(name))
        study, setting, score = name
        record = read(record_path(self.root / "authoring" / "studies", study))
        if record is None or setting not in record.names or score not in record.of(setting)[0].scores:
            raise KeyError(f"no record has {score!r} of {setting!r} in the study {study}")
        return _Value(tuple(record.scores(setting, score)), f"[{study}](studies.md#{study})")


def rivals_page(root: Path) -> str:
    """Write one table of rivals for each lecture, then one of objections.

    Raises:
        PublishingFailed: a row names a lecture, claim or study that does not exist.
    """
    rows, measured = tomllib.loads((root / ROWS).read_text(encoding="utf-8"))["lecture"], _Measured(root)
    lines, objections = [_HEAD], []
    for listed in rows:
        number = listed["number"]
        try:
            lecture = measured.lectures[number]
            link = f"../{lecture.name(lecture.solution)}"
            lines += [f"## [{number} {lecture.title}]({link})", ""]
            lines += [f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
            lines += [*(_rival(row, measured) for row in listed["rivals"]), ""]
            objections += [_objection(row, number, measured) for row in listed["objections"]]
        except KeyError as error:
            raise PublishingFailed(f"{ROWS}, lecture {number}: {error.args[0]}") from error
    return "\n".join([*lines, _OBJECTIONS, *objections]) + "\n"


def _rival(row: dict, measured: _Measured) -> str:
    """Format one comparison; the head of docs/rivals.toml describes its keys."""
    if "values" in row:
        of, rival = (measured.value(name) for name in row["values"])
        values = [of, rival]
        lead = of.mean - rival.mean if _decides(of.runs, rival.runs, row.get("paired", False)) else 0.0
        numbers = " against ".join(number_in_words(float(f"{value.mean:.3g}")) for value in values)
    else:
        kind = next(key for key in ("ahead", "rival_ahead", "times") if key in row)
        values = [measured.value(row[kind])]
        stated = values[0].mean
        lead = stated - 1 if kind == "times" else -stated if kind == "rival_ahead" else stated
        numbers = f"{stated:.3g} times" if kind == "times" else f"{lead:+.3g}".replace("-", "−")
    lead = -lead if row.get("lower") else lead
    leads = "neither" if abs(lead) <= row.get("tie", 0.0) else "the mechanism" if lead > 0 else "**the rival**"
    sources = dict.fromkeys([value.source for value in values] + [measured.claims.link(name) for name in row.get("claims", [])])
    on = cell(row["on"]) + (", lower is better" if row.get("lower") else "")
    return f"| {cell(row['of'])} | {cell(row['rival'])} | {on} | {numbers} | {leads} | {', '.join(sources)} |"


def _decides(ours: tuple[float, ...], theirs: tuple[float, ...], paired: bool) -> bool:
    """Return whether each of our scores is above, or each below, the rival's: of the same seed if paired, else of any."""
    if paired:
        gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
        return min(gaps) > 0 or max(gaps) < 0
    return max(len(ours), len(theirs)) == 1 or min(ours) > max(theirs) or min(theirs) > max(ours)


def _objection(row: dict, lecture: str, measured: _Measured) -> str:
    told = [measured.claims.sentence(name) for name in row.get("claims", [])]
    named = [(f"{setting}, {score}", [study, setting, score]) for study, setting, score in row.get("studies", [])]
    for words, name in named:
        value = measured.value(name)
        told.append(f"{value.source} {cell(words)}: {value.mean:.3g}")
    return f"| {lecture} | {cell(row['says'])} | {'<br>'.join(told)} | {cell(row['answer'])} |"
