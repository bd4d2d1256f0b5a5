"""The instructor's page: marks, common misconceptions, hard exercises, flags, and the active isolation layers."""

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median

from course_tools.checks import Exercise
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Student
from course_tools.grading.marks import Mark, NotRun
from course_tools.grading.report.flags import Flag
from course_tools.grading.report.html import Html, cell, code, html, page, table
from course_tools.grading.report.results import Result, Results
from course_tools.grading.report.similar_page import similar_page_name
from course_tools.grading.report.student_page import kind_of

SCRIPT = Path(__file__).with_name("tables.js").read_text(encoding="utf-8")
"""The script of the page, which searches, filters and sorts its tables; it holds nothing of a student."""
_MOST_MISCONCEPTIONS = 20


def page_name(student: Student) -> str:
    """Return the file name of a student's page: valid on every file system, and unique for each student."""
    plain = unicodedata.normalize("NFKD", student.name).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:40]
    return f"{readable or 'student'}-{hashlib.sha256(student.id.encode('utf-8', 'replace')).hexdigest()[:16]}.html"


def index(results: Results, course: Course, messages: Iterable[str] = ()) -> str:
    """Make the instructor's page.

    Args:
        results: of the class.
        course: the titles of its lectures.
        messages: what the grading reported about the policy, changed marks, the tables filled in and the upload to Canvas.
    """
    messages = tuple(messages)
    named = (f"{number} {course.titles.get(number, '')}".strip() for number in results.lectures)
    title = ", ".join(named) or "Nothing was graded"
    graded = [result for result in results.students if result.by_lecture]
    body: list[object] = [
        f"<h1>{html(title)}</h1>",
        f'<p class="soft">{html(_summary(results, graded))}</p>',
        _contents(results, messages),
        *_isolation(results),
        *_attention(results),
        "<h2>Marks</h2>",
        _marks(results),
    ]
    if graded:
        body += ["<h2>Hardest exercises</h2>", _hardest(results)]
    body += ["<h2>Most common misconceptions</h2>", *_misconceptions(results)]
    body += ['<h2 id="flags">Flags</h2>', *_flags(results)]
    body += _not_run(results)
    body += (
        [f"<h2 id='messages'>Messages</h2><ul>{''.join(f'<li>{html(text)}</li>' for text in messages)}</ul>"]
        if messages
        else []
    )
    if results.unassigned:
        rows = [(note.source, cell(note.text, "text")) for note in results.unassigned]
        body += ["<h2>Other files</h2>", table("Files that are not a student's notebook.", ("file", "remark"), rows)]
    return page(f"Marks: {title}", body, SCRIPT)


def _summary(results: Results, graded: list[Result]) -> str:
    text = f"{len(results.students)} students, {len(graded)} with a notebook that was graded"
    points = [result.points for result in graded if result.points is not None]
    of = "" if results.same_maximum is None else f" of {results.same_maximum:g}"
    return f"{text}; median {median(points):g}, mean {mean(points):.1f}{of} points." if points else f"{text}."


def _contents(results: Results, messages: Sequence[str]) -> Html:
    """What may need the instructor's attention, in one line, with links."""
    late = sum(result.late for result in results.students)
    shown = (
        ("without-mark", "Without a mark", len(_without_mark(results))),
        ("", "Late", late),
        ("flags", "Flags", len(results.flags)),
        ("not-run", "Statements that did not run", len(_statements(results))),
        ("messages", "Messages", len(messages)),
    )
    parts = (f'<a href="#{place}">{text}: {n}</a>' if place else f"{text}: {n}" for place, text, n in shown if n)
    return Html(f"<p>{' · '.join(parts)}</p>")


def _without_mark(results: Results) -> list[Result]:
    """The students who submitted something of which nothing could be graded."""
    return [result for result in results.students if result.points is None and not result.failures]


def _isolation(results: Results) -> Iterable[Html]:
    for text in results.isolation:
        yield Html(f"<p><strong>Isolation:</strong> {html(text)}</p>")


def _attention(results: Results) -> Iterable[Html]:
    """What the instructor must know before using the marks: notebooks whose grading failed."""
    failed = [f"{result.student.name}: {text}" for result in results.students for text in result.failures]
    if failed:
        items = "".join(f"<li>{html(text)}</li>" for text in failed)
        yield Html(
            f"<section><h2>Not graded</h2><p>Run the same command again, or inspect the notebook.</p><ul>{items}</ul></section>"
        )
    if without := _without_mark(results):
        items = "".join(f"<li>{_link(result.student)}: {html(' '.join(result.notes))}</li>" for result in without)
        yield Html(
            '<section id="without-mark"><h2>Without a mark</h2><p>Nothing that they submitted could be graded. Ask for the '
            f"notebook, or enter points in <code>overrides</code>.</p><ul>{items}</ul></section>"
        )


def _marks(results: Results) -> Html:
    exercises = results.exercises
    by_hand = [f"{lecture} {item} /{of:g}" for (lecture, item), of in results.items_by_hand.items()]
    columns = [*(f"{item.id} {'extra ' * item.extra}/{item.points}" for item in exercises), *by_hand]
    most = results.same_maximum
    header = ("student", "points" if most is None else f"points /{most:g}", *columns, "notes")
    rows = [_marks_row(result, exercises, results) for result in results.students]
    caption = "Points of each student; – means that no notebook of that lecture was graded."
    flagged = {id for flag in results.flags for id in flag.students}
    return table(caption, header, rows, range(1, len(header) - 1), [_states(result, flagged) for result in results.students])


def _states(result: Result, flagged: set[str]) -> list[str]:
    """What a student can be filtered by."""
    is_set = any(mark.override or mark.comments for mark in result.marks.values())
    known = {
        "not graded": result.points is None,
        "flagged": result.student.id in flagged,
        "late": result.late,
        "set or commented by you": is_set,
    }
    return [state for state, holds in known.items() if holds]


def _link(student: Student) -> Html:
    return Html(f'<a href="students/{page_name(student)}">{html(student.name)}</a>')


def _marks_row(result: Result, exercises: list[Exercise], results: Results) -> list[object]:
    link = _link(result.student)
    identity = "" if result.student.id == result.student.name else Html(f' <span class="soft">{html(result.student.id)}</span>')
    marks = [(item, result.marks.get(item.id)) for item in exercises]
    shown = [cell(_points(mark), f"n {kind_of(item, mark)}") if mark else "–" for item, mark in marks]
    given = {(mark.lecture, mark.item): mark.points for mark in result.by_hand}
    shown += [cell(f"{given[item]:g}", "n") if item in given else "–" for item in results.items_by_hand]
    overrides = [
        f"{mark.exercise} is set by you, {mark.points:g} instead of {mark.by_checks:g}: "
        + " ".join(filter(None, (mark.override, *(comment.text for comment in mark.comments))))
        for mark in result.marks.values()
        if _is_set(mark)
    ]
    dropped = [f"Lecture {lecture} is dropped; the maximum is {results.of(result):g}." for lecture in result.dropped]
    notes = [*(["late"] if result.late else []), *result.notes, *overrides, *dropped]
    of = f" of {results.of(result):g}" if results.same_maximum is None else ""
    total = "–" if result.points is None else f"{result.points:g}</strong>{of}<strong>"
    return [
        Html(f"{link}{identity}"),
        Html(f'<td class="n"><strong>{total}</strong></td>'),
        *shown,
        cell(" ".join(notes), "text"),
    ]


def _points(mark: Mark) -> str:
    return f"{mark.points:g}{'*' if _is_set(mark) else ''}"


def _is_set(mark: Mark) -> bool:
    """Whether the instructor changed the points."""
    return bool(mark.override) or any(comment.points for comment in mark.comments)


def _hardest(results: Results) -> Html:
    rows = []
    for item in results.exercises:
        marks = results.marks_of(item.id)
        share = sum(mark.points for mark in marks) / (item.points * len(marks)) if marks and item.points else 1.0
        by_checks = [mark for mark in marks if not mark.override]
        fails = Counter(finding.name for mark in by_checks for finding in mark.findings if finding.status == "fails")
        first = ", ".join(f"{name} ({n})" for name, n in sorted(fails.items(), key=lambda item: (-item[1], item[0]))[:3])
        states = Counter(mark.status for mark in by_checks if mark.status != "judged")
        other = ", ".join(f"{status} ({n})" for status, n in sorted(states.items()))
        bar = Html(f'<td><span class="share">{share:.0%}</span><span class="bar" style="width:{6 * share:.2f}rem"></span></td>')
        right = f"{sum(mark.passed for mark in marks)} of {len(marks)}"
        rows.append((share, (f"{item.id} {item.title}", bar, right, cell(first, "text"), cell(other, "text"))))
    rows.sort(key=lambda row: row[0])
    header = ("exercise", "points earned", "right", "most frequent failures", "not judged")
    return table("Hardest first: the percentage of its points that the class earned.", header, [row for _, row in rows], [2])


def _misconceptions(results: Results) -> Iterable[object]:
    found = results.misconceptions
    if not found:
        return ["<p>No misconception was recognised.</p>"]
    rows = [(n, id, cell(text, "text")) for n, id, text in found[:_MOST_MISCONCEPTIONS]]
    more = [f"<p>{len(found) - len(rows)} more are in <code>report.json</code>.</p>"] if len(found) > len(rows) else []
    return [
        table("By the number of students who show them.", ("students", "exercise", "feedback given"), rows, [0]),
        *more,
    ]


def _not_run(results: Results) -> Iterable[object]:
    found = _statements(results)
    if not found:
        return []
    rows = [(who, ", ".join(ids), f"cell {s.cell}", code(s.line), cell(s.why, "text")) for (who, s), ids in found.items()]
    caption = "Wrong answers may depend on these statements. Inspect them first if a student objects."
    return [
        '<h2 id="not-run">Statements that did not run</h2>',
        table(caption, ("student", "exercises", "cell", "statement", "reason"), rows),
    ]


def _statements(results: Results) -> dict[tuple[str, NotRun], list[str]]:
    """The statements that did not run although a wrong answer may depend on them, with the exercises."""
    found: dict[tuple[str, NotRun], list[str]] = defaultdict(list)
    for result in results.students:
        for mark in result.marks.values():
            for statement in () if mark.override else mark.not_run:
                found[result.student.name, statement].append(mark.exercise)
    return found


def _flags(results: Results) -> Iterable[object]:
    if not results.flags:
        return ["<p>No forbidden call, shortened time limit or similar pair of solutions was found.</p>"]
    students = {result.student.id: result.student for result in results.students}
    rows = [_flag_row(flag, students) for flag in results.flags]
    explanation = (
        "<p>A flag is a reason to inspect a submission; it never changes a mark. Two students can have the same idea.</p>"
    )
    header, kinds = ("students", "exercises", "kind", "observation"), [[flag.kind] for flag in results.flags]
    return [explanation, table("Also in flags.csv.", header, rows, (), kinds)]


def _flag_row(flag: Flag, students: dict[str, Student]) -> tuple[object, ...]:
    who = Html(" and ".join(str(_link(students[id])) for id in flag.students))
    beside = f' <a href="similar/{similar_page_name(flag)}">Compare.</a>' if len(flag.students) > 1 else ""
    return who, ", ".join(flag.exercises), flag.kind, cell(Html(f"{html(flag.what)}{beside}"), "text")
