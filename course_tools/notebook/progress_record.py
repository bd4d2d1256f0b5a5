"""Progress of a student: attempts, solved exercises and predictions, in one local file. It is never sent anywhere.

The file is a list of events, one JSON object per line, so that it survives restarts, updates of the course and new copies of a
lecture, and two files can be merged. It is in `work/` of the course, else in the home folder; COURSE_PROGRESS overrides its
path.
"""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from course_tools.bank import LECTURES, exercises
from course_tools.checks import Exercise
from course_tools.notebook.prediction_options import predictions
from course_tools.notebook.progress_bar import watched
from course_tools.notebook.show import in_notebook, publish
from course_tools.whole_file import write_whole

Event = dict[str, object]

_NOT_RECORDED = "In a notebook that someone works in, this cell shows how many of them are solved."
_NOTHING_YET = "Nothing is recorded yet. Open a lecture with `course lab`; its checks and predictions will be recorded."


@dataclass
class ExerciseProgress:
    """One exercise: attempts until it was solved, best points, and the misconceptions that were found.

    A misconception that a check only suspects ("Perhaps: …") is among them if the very next answer is right: then nothing else
    was wrong. `suspected` is that of the latest answer.
    """

    attempts: int = 0
    points: int = 0
    solved: bool = False
    misconceptions: list[str] = field(default_factory=list)
    suspected: str | None = None


@dataclass
class Progress:
    """Exercises by id, and the first choice of each prediction by id, such as "B" or "0.3"."""

    exercises: dict[str, ExerciseProgress] = field(default_factory=dict)
    predictions: dict[str, str] = field(default_factory=dict)

    @property
    def overcome(self) -> list[tuple[str, str]]:
        """Misconceptions in exercises that were solved later: pairs of id and misconception."""
        return [(id, text) for id, item in self.exercises.items() if item.solved for text in item.misconceptions]


def progress_file() -> Path:
    """Return the path of the file, which need not exist."""
    if named := os.environ.get("COURSE_PROGRESS"):
        return Path(named)
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "course.py").is_file() and (folder / "course_tools").is_dir():
            return folder / "work" / "progress.jsonl"
    return Path.home() / ".attention-course" / "progress.jsonl"


def remember(kind: str, id: str, **facts: object) -> None:
    """Append an event in an interactive notebook; elsewhere, such as under CI, do nothing.

    If the file cannot be written, the event is lost and a sentence is printed to stderr, but the student's cell does not fail.
    """
    if not (watched() and in_notebook()):
        return
    event = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "kind": kind, "id": id, **facts}
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
    except OSError as error:
        print(f"Your progress could not be saved in {path}: {error.strerror or error}.", file=sys.stderr)


def read_events(path: Path) -> list[Event]:
    """Read the events of a file in order; invalid lines are skipped, and a missing file is treated as empty."""
    if not path.is_file():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("id"), str) and isinstance(event.get("time"), str):
            events.append(event)
    return events


def merge(events: Iterable[Event], others: Iterable[Event]) -> list[Event]:
    """Merge two lists of events in chronological order, without duplicates."""
    joined = {json.dumps(event, sort_keys=True): event for event in (*events, *others)}
    return sorted(joined.values(), key=lambda event: str(event["time"]))


def progress_of(events: Iterable[Event]) -> Progress:
    """Summarise events; those that do not belong to this course are ignored."""
    progress = Progress()
    for event in events:
        id = str(event["id"])
        match event:
            case {"kind": "check", "points": int(points), "passed": bool(passed)}:
                item = progress.exercises.setdefault(id, ExerciseProgress())
                shown = item.suspected if passed else event.get("misconception")
                item.suspected = event.get("suspected")
                if not item.solved and isinstance(shown, str) and shown not in item.misconceptions:
                    item.misconceptions.append(shown)
                item.attempts += not item.solved
                item.points, item.solved = max(item.points, points), item.solved or passed
            case {"kind": "prediction", "choice": str(choice)}:
                progress.predictions.setdefault(id, choice)
    return progress


def answer_to(id: str) -> str | None:
    """Return the first answer to a prediction, such as "B" or "0.3", in an interactive notebook; elsewhere None."""
    return progress_of(read_events(progress_file())).predictions.get(id) if watched() and in_notebook() else None


def my_progress(lecture: str) -> None:
    """Show the solved exercises and the predictions of a lecture so far; in a batch run, the number of its exercises."""
    if watched():
        text = summary(progress_of(read_events(progress_file())), lecture)
    else:
        asked = exercises(lecture)
        points = sum(item.points for item in asked if not item.extra)
        text = f"Lecture {lecture}: {len(asked)} exercises, {points} points. {_NOT_RECORDED}"
    publish({"text/html": f"<p>{escape(text)}</p>", "text/plain": text})


def summary(progress: Progress, lecture: str) -> str:
    """Summarise the progress in a lecture in one or two sentences."""
    asked = exercises(lecture)
    mine = {item.id: progress.exercises[item.id] for item in asked if item.id in progress.exercises}
    solved = f"{sum(item.solved for item in mine.values())} of {len(asked)} exercises solved"
    core = [item for item in asked if not item.extra]
    extra = sum(mine[item.id].points for item in asked if item.extra and item.id in mine)
    points = f"{sum(item.points for item in mine.values()) - extra} of {sum(item.points for item in core)} points"
    points += f" and {extra} extra" if extra else ""
    made, right = predicted(progress, lecture)
    predictions_right = f", {right} of {made} predictions right" if made else ""
    text = f"Lecture {lecture}: {solved}, {points}{predictions_right}."
    overcome = [id for id, _ in progress.overcome if id in mine]
    return f"{text} Misconceptions overcome: {len(overcome)}." if overcome else text


def predicted(progress: Progress, lecture: str) -> tuple[int, int]:
    """Count the predictions made in a lecture, and those that were right."""
    made = [item for id, item in predictions().items() if id.startswith(f"{lecture}.") and id in progress.predictions]
    return len(made), sum(item.accepts(progress.predictions[item.id]) for item in made)


def show_progress(html: Path | None = None, export: Path | None = None, other: Path | None = None) -> None:
    """Merge the progress of another file, export it, print a line for each lecture, and write a page.

    Args:
        html: path of the page; None = in the folder of the progress file.
        export: path of an exported copy of the progress.
        other: a file exported on another machine, whose events are added.

    Raises:
        CannotWrite: a file cannot be written.
        OSError: a file cannot be read.
    """
    path = progress_file()
    events = read_events(path)
    if other is not None:
        if not other.is_file():
            raise FileNotFoundError(f"there is no file {other}")
        events = merge(events, read_events(other))
        _write(path, events)
    if export is not None:
        _write(export, events)
    progress = progress_of(events)
    begun = progress.exercises or progress.predictions
    print("\n".join(summary(progress, lecture) for lecture in LECTURES) if begun else _NOTHING_YET)
    html = path.with_suffix(".html") if html is None else html
    write_whole(html, page(progress))
    print(f"The page: {html}")


def _write(path: Path, events: list[Event]) -> None:
    write_whole(path, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events))


def page(progress: Progress) -> str:
    """Draw the progress in all lectures: one HTML page with one figure, without scripts or external resources."""
    by_lecture: dict[str, list[Exercise]] = {}
    for item in exercises():
        by_lecture.setdefault(item.lecture, []).append(item)
    squares = []
    for row, (lecture, asked) in enumerate(by_lecture.items()):
        squares.append(f'<text x="0" y="{28 * row + 23}">{lecture}</text>')
        squares += [_square(item, progress, 36 + 28 * column, 28 * row + 8) for column, item in enumerate(asked)]
    solved = sum(item.solved for item in progress.exercises.values())
    overcome = "".join(f"<li><b>{escape(id)}</b> {escape(text)}</li>" for id, text in progress.overcome)
    return _PAGE.format(
        alt=f"{solved} of {len(exercises())} exercises solved, one square for each exercise, one row for each lecture.",
        width=36 + 28 * max(map(len, by_lecture.values())),
        height=8 + 28 * len(by_lecture),
        squares="".join(squares),
        rows="".join(f"<li>{escape(summary(progress, lecture))}</li>" for lecture in by_lecture),
        learned=f"<h2>Misconceptions overcome</h2><ul>{overcome}</ul>" if overcome else "",
    )


def _square(item: Exercise, progress: Progress, x: int, y: int) -> str:
    mine = progress.exercises.get(item.id, ExerciseProgress())
    kind, mark = ("solved", "✓") if mine.solved else ("tried", "…") if mine.attempts else ("open", "")
    return (
        f"<g><title>{item.id} {escape(item.title)}: {kind}, {mine.points} of {item.points} points</title>"
        f'<rect class="{kind}" x="{x}" y="{y}" width="22" height="22" rx="4"/>'
        f'<text class="mark" x="{x + 11}" y="{y + 16}" text-anchor="middle">{mark}</text></g>'
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>My progress</title><style>
:root {{ color-scheme: light dark; --line: #767676; --solved: #1b7f3b; --tried: #b35900; }}
@media (prefers-color-scheme: dark) {{ :root {{ --solved: #4cc275; --tried: #ffa94d; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
svg {{ max-width: 100%; height: auto; }} svg text {{ font: 14px system-ui, sans-serif; fill: currentColor; }}
rect {{ fill: none; stroke: var(--line); }} rect.solved {{ fill: var(--solved); stroke: var(--solved); }}
rect.tried {{ stroke: var(--tried); stroke-width: 2; }} rect.solved + text.mark {{ fill: Canvas; font-weight: 700; }}
</style></head><body><main><h1>My progress</h1><p>{alt}</p>
<svg role="img" aria-label="{alt}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">{squares}</svg>
<h2>By lecture</h2><ul>{rows}</ul>{learned}</main></body></html>
"""
