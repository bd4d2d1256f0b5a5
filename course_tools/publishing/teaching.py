"""docs/teaching.md on the site: plans for a deck, a module and a semester, and a sheet for each session."""

import inspect
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jupytext

from course_tools.bank import exercise
from course_tools.publishing.claims_table import cell
from course_tools.publishing.companion import Row, rows
from course_tools.publishing.outputs import tags
from course_tools.publishing.prediction_cells import right_letter, split_question, within
from course_tools.publishing.project import Lecture, lectures
from course_tools.publishing.student_time import StudentTime, exercise_minutes, student_time, time_phrase

SESSION, FRAME = 120, 20
"""Minutes of a session on one deck, and how many of them are for its opening and close."""
PER_PREDICTION = 3
"""Minutes for a question, a vote, and the measured figure."""

IN_CLASS = 4 / 3
"""How much longer an exercise takes in class than a student alone."""

_SHEETS = f"""\
## A sheet for each session
Minutes of exercises are those of a student alone; in class, count a third more. **Two hours** is a plan for {SESSION} minutes:
all predictions, and the exercises that fit between them; the rest is homework. The right option follows each prediction:
cover it before you show this page.
"""


@dataclass(frozen=True)
class Asked:
    """A prediction: its id, its question, its right option with the letter, and the section of the lecture that it is in."""

    id: str
    question: str
    right: str
    section: str


@dataclass(frozen=True)
class Session:
    """What a lecture offers to a class: minutes, predictions, exercises by id and minutes and by section, errata."""

    lecture: Lecture
    time: StudentTime
    predictions: tuple[Asked, ...]
    exercises: tuple[tuple[str, int], ...]
    section_of: dict[str, str]
    errata: tuple[str, ...]
    companion: tuple[Row, ...]


def teaching(root: Path) -> str:
    """Return docs/teaching.md, followed by plans and sheets from the lectures, the companion tables and the bank."""
    sessions = [session(lecture) for lecture in lectures(root)]
    decks = tomllib.loads((root / "docs" / "decks.toml").read_text(encoding="utf-8"))["deck"]
    parts = [
        (root / "docs" / "teaching.md").read_text(encoding="utf-8"),
        "## Two hours with one deck\n" + _opening(),
        *(_deck_plan(deck, sessions) for deck in decks),
        _module(sessions),
        _semester(sessions),
        _SHEETS,
        *(_sheet(one, decks) for one in sessions),
    ]
    return "\n".join(parts).rstrip() + "\n"


def session(lecture: Lecture) -> Session:
    """Read from the source of a lecture what it offers to a class."""
    cells = jupytext.reads(lecture.authoring.read_text(encoding="utf-8"), fmt="py:percent").cells
    predictions: list[Asked] = []
    section, section_of = "", {}
    for one in cells:
        for heading in re.findall(r"^## (.*)$", one.source, flags=re.MULTILINE) if one.cell_type == "markdown" else ():
            section = heading.strip()
        if "exercise" in one.metadata:
            section_of.setdefault(one.metadata["exercise"], section)
        if "predict" in tags(one):
            source, options = split_question(one.source)
            letter = right_letter(one.source)
            right = next(text if within(one.source) else f"{letter}. {text}" for each, text, _ in options if each == letter)
            predictions.append(Asked(f"{lecture.number}.p{len(predictions) + 1}", _the_question(source), right, section))
    return Session(
        lecture,
        student_time(lecture),
        tuple(predictions),
        tuple(sorted(exercise_minutes(lecture).items())),
        section_of,
        tuple(_errata([c.source for c in cells if c.cell_type == "markdown"])),
        tuple(rows(lecture)),
    )


def _the_question(source: str) -> str:
    """Return the question of a prediction: the words after "Predict", or the last two sentences if that word is missing."""
    words = " ".join(line for line in source.splitlines() if not line.startswith("#"))
    words = " ".join(re.sub(r"!\[[^\]]*\]\([^)]*\)", "", words).split())
    before, marked, after = re.split(r"(\*\*Predict(?:\.| a number)\*\*|$)", words, maxsplit=1)
    sentences = re.split(r"(?<=[.:!?])(?:\*\*)? (?=\S)", after if marked else before)
    return (after if marked else " ".join(sentences[-2:])).replace("**", "").strip()


def _errata(sources: list[str]) -> list[str]:
    """Return the entries of the list after a heading "**Errata …"."""
    found: list[str] = []
    for source in sources:
        _, heading, after = source.partition("**Errat")
        if not heading:
            continue
        for line in after.split("\n")[1:]:
            if line.startswith("- "):
                found.append(line[2:].strip())
            elif line.startswith("  ") and found:
                found[-1] += " " + line.strip()
            elif line.strip() and found:
                break
    return found


def _opening() -> str:
    return (
        f"{SESSION} minutes, {FRAME} of them for opening and close. The rest is divided among the lectures in proportion to "
        "the sections of the deck that they treat. A lecture with less than five minutes is only mentioned; predictions and, "
        "if there is time, an exercise are from the sections that treat the deck.\n"
    )


def _deck_plan(deck: dict, sessions: list[Session]) -> str:
    counts = Counter(section["lecture"] for section in deck["sections"] if section.get("lecture"))
    known = {session.lecture.number: session for session in sessions}
    placed = [number for number in counts if number in known]
    total = sum(counts[number] for number in placed)
    lines = [
        f"### {deck['key']} · {deck['title']}",
        "",
        "| Lecture | Sections of the deck | Minutes | Predictions | Exercise in class |",
        "| --- | --- | --- | --- | --- |",
    ]
    for number in placed:
        share = round((SESSION - FRAME) * counts[number] / total)
        one = known[number]
        n_asked = max(1, share // (4 * PER_PREDICTION)) if share >= 5 else 0
        treated = {row.here for row in one.companion if row.deck == deck["key"]}
        of_deck = [each.id for each in one.predictions if each.section in treated][:n_asked]
        left = share - PER_PREDICTION * len(of_deck)
        fits = [(minutes, id) for id, minutes in one.exercises if minutes <= left / IN_CLASS and one.section_of[id] in treated]
        written = f"{max(fits)[1]} {exercise(max(fits)[1]).title}, {max(fits)[0]} min" if fits else ""
        asked = ", ".join(f"`{id}`" for id in of_deck)
        lines.append(f"| {_link(one)} | {counts[number]} | {share} | {asked} | {cell(written)} |")
    return "\n".join(lines) + "\n"


def _module(sessions: list[Session]) -> str:
    """Plan four weeks: the eight lectures that treat the most sections of the decks, two a week."""
    most = sorted(sessions, key=lambda one: -len(one.companion))[:8]
    chosen = sorted(most, key=lambda one: one.lecture.number)
    lines = [
        "## A module of four weeks",
        "The eight lectures that treat the most sections of the five decks, two a week: one in class, one at home, each "
        "submitted and graded; an exam of 40 minutes on the last day.",
        "",
        "| Week | In class | At home | Exercises | Points |",
        "| --- | --- | --- | --- | --- |",
    ]
    for week, pair in enumerate(zip(chosen[::2], chosen[1::2], strict=False), 1):
        n = sum(len(one.exercises) for one in pair)
        lines.append(f"| {week} | {_link(pair[0])} | {_link(pair[1])} | {n} | {sum(_points(one) for one in pair)} |")
    numbers = ",".join(one.lecture.number for one in chosen)
    return "\n".join([*lines, "", f"The exam: `course exam --lectures {numbers} --forms 4 --seed 1`.\n"])


def _semester(sessions: list[Session]) -> str:
    lines = [
        "## A semester",
        "A lecture a week, in order: each needs only earlier ones. With ninety minutes in class, the exercises that are not "
        f"done together are homework. No later lecture needs {' or '.join(_optional(sessions))}. What belongs together can be "
        "taught together: 13 beside 11 (the same patches, mixed by weights that the image does not choose), 14 after 07 (the "
        "same language model, with a state in place of a cache), 16 after 11.",
        "",
        "| Week | Lecture | Minutes alone, core | Going further | Predictions | Exercises | Minutes of exercises | Points |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {week} | {_link(one)} | {one.time.core} | {one.time.further or ''} | {len(one.predictions)} | {len(one.exercises)} "
        f"| {sum(minutes for _, minutes in one.exercises)} | {_points(one)} |"
        for week, one in enumerate(sessions, 1)
    ]
    return "\n".join(lines) + "\n"


def _optional(sessions: list[Session]) -> list[str]:
    """The lectures that no header names as a prerequisite."""
    headers = [one.lecture.authoring.read_text(encoding="utf-8").partition("**Prerequisites:**")[2] for one in sessions]
    needed = {number for text in headers for number in re.findall(r"\b\d\d\b", text.partition("**Time:**")[0])}
    return [one.lecture.number for one in sessions if one.lecture.number not in needed]


def _sheet(one: Session, decks: list[dict]) -> str:
    lines = [
        f"### {one.lecture.number} · {one.lecture.title}",
        "",
        f"[The lecture](../{one.lecture.name(one.lecture.unsolved)})",
    ]
    lines[-1] += f", {time_phrase(one.lecture)}."
    if one.companion:
        treated: dict[str, list[str]] = {}
        for row in one.companion:
            if row.section not in treated.setdefault(row.deck, []):
                treated[row.deck].append(row.section)
        lines[-1] += (
            " Sections of the decks: " + "; ".join(f"{deck}: {', '.join(names)}" for deck, names in treated.items()) + "."
        )
    lines += ["", f"**Two hours:** {_two_hours(one)}"]
    if one.predictions:
        asked = (f"- `{each.id}` (section {each.section}) {each.question} *Right:* {each.right}" for each in one.predictions)
        lines += ["", "Predictions:", *asked]
    if one.exercises:
        lines += ["", "| Exercise | Minutes | Points | Wrong answers to expect |", "| --- | --- | --- | --- |"]
        for id, minutes in one.exercises:
            asked = exercise(id)
            wrong = " *And:* ".join(" ".join((inspect.getdoc(answer) or "").split()) for answer in list(asked.wrong)[:2])
            lines.append(f"| {id} {cell(asked.title)} | {minutes} | {asked.points} | {cell(wrong)} |")
    listed = ((deck["key"], section) for deck in decks for section in deck["sections"] if "erratum" in section)
    errata = [
        f"*{deck}*, {each['title']}: {each['erratum']}" for deck, each in listed if each.get("lecture") == one.lecture.number
    ]
    if errata := [*one.errata, *errata]:
        lines += ["", "What to say about the decks:", *(f"- {text}" for text in errata)]
    return "\n".join(lines) + "\n"


def _two_hours(one: Session) -> str:
    """Choose the exercises, in order, that fit into a session beside all predictions; build tasks are homework."""
    left = SESSION - FRAME - PER_PREDICTION * len(one.predictions)
    together, homework = [], []
    for id, minutes in one.exercises:
        fits = exercise(id).training is None and minutes * IN_CLASS <= left
        left -= minutes * IN_CLASS if fits else 0
        (together if fits else homework).append(id)
    written = f"exercises {', '.join(together)} in class" if together else "no exercise in class"
    return f"{len(one.predictions)} predictions; {written}; {', '.join(homework) or 'nothing'} at home."


def _points(one: Session) -> int:
    return sum(exercise(id).points for id, _ in one.exercises)


def _link(one: Session) -> str:
    return f"[{one.lecture.number} · {cell(one.lecture.title)}](../{one.lecture.name(one.lecture.unsolved)})"
