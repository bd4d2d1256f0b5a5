"""Item analysis over lectures and weeks: difficulty, discrimination, misconceptions, attempts and time to first success.

It is computed from the `report.json` of each grading and from students' progress files, if they submit them. The page and the
table contain no names of students, and a misconception that fewer than three students show is not listed.
"""

import csv
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.grading.files import CannotGrade
from course_tools.grading.report.html import Html, cell, html, page, table
from course_tools.notebook.progress_record import Event, read_events
from course_tools.whole_file import reason

_FEWEST = 3
"""Number of students who must show a misconception before it is listed."""
_FEWEST_FOR_CORRELATION = 5
_LONGEST_PAUSE = 30.0
"""Longest interval between two checks of an exercise, in minutes, that counts as work on it."""


@dataclass(frozen=True)
class ItemStatistics:
    """Statistics of one exercise in a class.

    `students` is the number of submissions, `share` the fraction of the points that was earned, `right` the number of students
    who solved it. `discrimination` is the correlation of its points with those of the student's other exercises. `attempts` and
    `minutes` are medians up to the first success, from progress files. Unknown values are None. `misconceptions` are the
    numbers of students who show each misconception, with its text.
    """

    exercise: Exercise
    students: int
    right: int
    share: float
    discrimination: float | None
    attempts: float | None
    minutes: float | None
    misconceptions: tuple[tuple[int, str], ...]


def analyse(folders: Sequence[Path], progress: Sequence[Path] = ()) -> list[ItemStatistics]:
    """Analyse every exercise that was graded.

    Args:
        folders: the results of gradings, in chronological order; if an exercise is in several, the student's last mark counts.
        progress: progress files of students.

    Raises:
        CannotGrade: a folder has no report.json, or an invalid one.
    """
    marks: dict[str, dict[str, dict]] = defaultdict(dict)
    for folder in folders:
        for student in _students(folder / "report.json"):
            marks[student["id"]].update({mark["exercise"]: mark for mark in student["marks"]})
    successes = _successes(map(read_events, progress))
    graded = {id for of_one in marks.values() for id in of_one}
    return [_item(item, marks, successes.get(item.id, [])) for item in exercises() if item.id in graded]


def _students(path: Path) -> list[dict]:
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return [{"id": str(s["id"]), "marks": [m for m in s["marks"] if m["max_points"]]} for s in report["students"]]
    except OSError as error:
        raise CannotGrade(f"{path} cannot be read: {reason(error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CannotGrade(f"{path} is not a report of `course grade`: grade again into that folder.") from error


def _item(item: Exercise, marks: Mapping[str, dict[str, dict]], successes: list[tuple[int, float]]) -> ItemStatistics:
    own = {student: of_one[item.id] for student, of_one in marks.items() if item.id in of_one}
    pairs = [(_share([mark]), _share(rest)) for s, mark in own.items() if (rest := _others(marks[s], item.id))]
    seen = Counter(mark["misconception"] for mark in own.values() if mark["misconception"] and not mark.get("override"))
    common = sorted(((n, text) for text, n in seen.items() if n >= _FEWEST), key=lambda pair: (-pair[0], pair[1]))
    return ItemStatistics(
        item,
        len(own),
        sum(bool(mark["passed"]) for mark in own.values()),
        mean(_share([mark]) for mark in own.values()),
        correlation(pairs),
        median(n for n, _ in successes) if successes else None,
        round(median(minutes for _, minutes in successes), 1) if successes else None,
        tuple(common),
    )


def _others(marks: Mapping[str, dict], id: str) -> list[dict]:
    return [mark for other, mark in marks.items() if other != id]


def _share(marks: list[dict]) -> float:
    return sum(mark["points"] for mark in marks) / sum(mark["max_points"] for mark in marks)


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the correlation of pairs of numbers; None for fewer than five pairs, or if one side is constant."""
    if len(pairs) < _FEWEST_FOR_CORRELATION:
        return None
    x, y = ([pair[side] - mean(p[side] for p in pairs) for pair in pairs] for side in (0, 1))
    spread = math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    return sum(a * b for a, b in zip(x, y, strict=True)) / spread if spread > 1e-12 else None


def _successes(files: Iterable[list[Event]]) -> dict[str, list[tuple[int, float]]]:
    """For each exercise, the attempts and minutes up to the first success, for each student who succeeded."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for events in files:
        checks: dict[str, list[tuple[datetime, bool]]] = defaultdict(list)
        for event in sorted(events, key=lambda event: str(event["time"])):
            if event.get("kind") == "check" and (time := _time(str(event["time"]))):
                checks[str(event["id"])].append((time, event.get("passed") is True))
        for id, tries in checks.items():
            first = next((n for n, (_, passed) in enumerate(tries, start=1) if passed), None)
            if first is not None:
                gaps = [(after - before).total_seconds() / 60 for (before, _), (after, _) in pairwise(tries[:first])]
                found[id].append((first, sum(gap for gap in gaps if gap <= _LONGEST_PAUSE)))
    return found


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def items_csv(items: Sequence[ItemStatistics]) -> str:
    """Write the analysis as a table, one row per exercise."""
    header = ["exercise", "title", "students", "right", "share_of_points", "discrimination", "attempts", "minutes"]
    rows: list[list[object]] = [[*header, "misconceptions"]]
    for item in items:
        listed = " | ".join(f"{n}: {text}" for n, text in item.misconceptions)
        numbers = [item.students, item.right, round(item.share, 4), _rounded(item.discrimination), item.attempts, item.minutes]
        rows.append([item.exercise.id, item.exercise.title, *("" if n is None else n for n in numbers), listed])
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return "\ufeff" + text.getvalue()


def items_page(items: Sequence[ItemStatistics]) -> str:
    """Make the lecturer's page: lectures in order, a plot of all exercises, the table, and the misconceptions."""
    lectures: dict[str, list[ItemStatistics]] = defaultdict(list)
    for item in items:
        lectures[item.exercise.lecture].append(item)
    rows = [
        (
            number,
            _bar(mean(i.share for i in of)),
            max(i.students for i in of),
            _hardest(of),
            sum(n for i in of for n, _ in i.misconceptions),
        )
        for number, of in sorted(lectures.items())
    ]
    common = sorted(
        ((n, i.exercise.id, text) for i in items for n, text in i.misconceptions), key=lambda row: (-row[0], row[1:])
    )
    header = ("exercise", "points earned", "students", "right", "discrimination", "attempts", "minutes")
    body = [
        "<h1>Item analysis</h1>",
        f'<p class="soft">{len(items)} exercises of {len(lectures)} lectures. No student is named on this page.</p>',
        "<h2>Lectures</h2>",
        table(
            "In the order of the course.",
            ("lecture", "points earned", "students", "hardest", "misconceptions shown"),
            rows,
            [2, 4],
        ),
        "<h2>Exercises</h2>",
        "<p>Discrimination is the correlation of an exercise's points with those of the same student's other exercises. If it "
        "is near 0 or negative, the exercise measures something else, or its check or text is misleading. Attempts and minutes "
        "are medians up to the first success in a notebook, from progress files; pauses of over half an hour are excluded.</p>",
        _plot(items),
        table("Hardest first.", header, map(_row, sorted(items, key=lambda item: item.share)), range(2, len(header))),
        "<h2>Misconceptions</h2>",
        table(f"Shown by at least {_FEWEST} students.", ("students", "exercise", "misconception"), map(_shown, common), [0])
        if common
        else f"<p>No misconception is shown by {_FEWEST} or more students.</p>",
    ]
    return page("Item analysis", body)


def _shown(row: tuple[int, str, str]) -> tuple[object, ...]:
    return row[0], row[1], cell(row[2], "text")


def _row(item: ItemStatistics) -> tuple[object, ...]:
    numbers = (_rounded(item.discrimination), item.attempts, item.minutes)
    name = f"{item.exercise.id} {item.exercise.title}"
    return name, _bar(item.share), item.students, item.right, *("–" if n is None else f"{n:g}" for n in numbers)


def _hardest(items: Sequence[ItemStatistics]) -> str:
    item = min(items, key=lambda item: item.share)
    return f"{item.exercise.id} {item.exercise.title}"


def _bar(share: float) -> Html:
    return Html(f'<td><span class="share">{share:.0%}</span><span class="bar" style="width:{6 * share:.2f}rem"></span></td>')


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 2)


def _plot(items: Sequence[ItemStatistics]) -> Html:
    """Plot every exercise by the fraction of its points that was earned, and its discrimination."""
    shown = [item for item in items if item.discrimination is not None]
    if not shown:
        return Html(f"<p>Discrimination requires {_FEWEST_FOR_CORRELATION} students with two exercises.</p>")
    left, top, width, height = 52, 12, 600, 260
    least_share = math.floor(10 * min(item.share for item in shown)) / 10 if any(item.share < 1 for item in shown) else 0.0
    lowest = math.floor(5 * min(0.0, *(item.discrimination for item in shown))) / 5
    highest = math.ceil(5 * max(0.2, *(item.discrimination for item in shown))) / 5

    def across(share: float) -> float:
        return left + width * (share - least_share) / (1 - least_share)

    def down(discrimination: float) -> float:
        return top + height * (highest - discrimination) / (highest - lowest)

    drawn = []
    for n in range(round(5 * lowest), round(5 * highest) + 1):
        y, number = down(n / 5), f"{n / 5:g}".replace("-", "−")
        drawn.append(f'<line x1="{left}" x2="{left + width}" y1="{y:g}" y2="{y:g}" stroke="var(--line)"/>')
        drawn.append(f'<text x="{left - 8}" y="{y + 4:g}" text-anchor="end">{number}</text>')
    drawn += [
        f'<text x="{across(n / 10):g}" y="{top + height + 18}" text-anchor="middle">{n / 10:.0%}</text>'
        for n in range(round(10 * least_share), 11)
    ]
    middle = top + height / 2
    drawn.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">fraction of points earned</text>')
    drawn.append(f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">discrimination</text>')
    places = [(across(item.share), down(item.discrimination)) for item in shown]
    taken = [(x - 6, x + 6, y) for x, y in places]
    for item, (x, y) in zip(shown, places, strict=True):
        text = html(f"{item.exercise.id} {item.exercise.title}: {item.share:.0%}, discrimination {item.discrimination:.2f}")
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var(--bar)"><title>{text}</title></circle>')
        for begin in (x + 8, x - 40):  # to the right, else to the left, else only in the table
            if not any(begin < right and begin + 32 > left and abs(y - other) < 12 for left, right, other in taken):
                taken.append((begin, begin + 32, y))
                drawn.append(f'<text x="{begin:.1f}" y="{y + 4:.1f}">{item.exercise.id}</text>')
                break
    label = "Each exercise by the fraction of its points earned and by its discrimination; the numbers are in the table."
    return Html(
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}"><svg role="img" aria-label="{label}" '
        f'viewBox="0 0 700 320" style="width:100%;max-width:46rem;min-width:32rem" font-size="12" fill="currentColor">'
        f"{''.join(drawn)}</svg></div>"
    )
