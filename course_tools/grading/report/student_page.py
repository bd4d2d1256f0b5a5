"""The page of one student: what was right, which law fails and why, and no value that a check compares with.

Of what the checks found only a fixed set of sentences is shown, and of each only the part that describes the student's own
code; the numbers, shapes and inputs of a check stay out, and so does every text that was made while the code ran.
"""

import builtins
import re
from dataclasses import replace

from course_tools.checks import Exercise, Finding
from course_tools.grading.marks import Mark
from course_tools.grading.report.html import Html, cell, code, html, page, table
from course_tools.grading.report.results import MarkByHand, Result, Results

_SYMBOLS = {"holds": "✓ holds", "fails": "✗ fails", "skipped": "– not looked at", "adjusts": "±"}
_KINDS = {"holds": "short good", "fails": "short bad", "skipped": "short", "adjusts": "short"}
_STATUS = {"not started": "not started", "not found": "not found", "no answer": "no answer"}
_RESULT = r"(?:The result|Result \d{1,2}|[a-z_]{1,20})"
_INPUT = r"`[^\W\d]\w{0,24}(?: \d{1,2}|\[\d{1,2}\])?`"
_FIT = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(It was still running after [\d.]+ seconds?(?: of processor time| in which it did not compute)?"
        r": a loop that does not end, a wait, or far too many steps\?)",
        r"(It did not end in time; it may take \d+ seconds of processor time\. Use a smaller model or smaller batches)\.",
        r"(One result is missing: return [\w ]{1,30} too\.).*",
        r"(The results come in another order: return them in the order \([\w, ]{1,80}\)\.).*",
        r"(It returns (?:a list|a dict|a tuple in a tuple|\d{1,2} results): return [^.]{1,60}\.).*",
        rf"({_RESULT} is right but for rounding): .*",
        rf"({_RESULT} is close to what is expected, but not equal up to rounding in float32\.) .*",
        rf"({_RESULT} is missing\.)",
        r"(It returns the same whatever `.{1,80}` (?:is|are)\. This earns no points\.)",
        r"(It returned None\. Is there a `return` at its end\?)",
        r"(A function is asked for).*",
        r"(It should return (?:one result|\d{1,2} results))\b.*",
        rf"({_RESULT} should be a tensor), .*",
        rf"({_RESULT} should be (?:floating point|bool|integer)), .*",
        rf"({_RESULT} should be on) .*",
        rf"({_RESULT} is wrong)\..*",
        rf"(The gradient with respect to {_INPUT} is wrong)\..*",
        r"(No gradient comes back: the result is cut off from its inputs) .*",
        rf"(The call changes {_INPUT}(?:, {_INPUT}){{0,9}}: something works in place) .*",
    )
)
_SHAPE = re.compile(rf"({_RESULT}) should have shape .*", re.DOTALL)
_RAISED = re.compile(r"It raised (\w{1,40})(?: in the line (`.{1,200}?`))?: .*", re.DOTALL)


def feedback(result: Result, results: Results) -> str:
    """Make the page of a student.

    Args:
        result: theirs.
        results: of the class, for the exercises and their titles alone; nothing of another student is shown.
    """
    return page(
        f"{result.student.name}: {_total(result, results)[1]}",
        [f"<h1>{html(result.student.name)}</h1>", *sections(result, results)],
    )


def sections(result: Result, results: Results) -> list[Html]:
    """Make the parts of the page of a student under its title; arguments as for `feedback`."""
    named, total = _total(result, results)
    body = [f'<p class="feedback">{named}{total}</p>']
    body += [f"<p>{html(note)}</p>" for note in result.notes]
    if result.failures:
        body.append(
            "<p>A notebook of yours could not be graded this time, through no fault of yours; your instructor knows.</p>"
        )
    marks = result.marks
    body += [section(item, marks[item.id]) for item in results.exercises if item.id in marks]
    body += [_by_hand(mark) for mark in result.by_hand]
    body += [f"<p>Lecture {lecture} does not count for you: it is one of your lowest.</p>" for lecture in result.dropped]
    return [Html(str(part)) for part in body]


def _total(result: Result, results: Results) -> tuple[str, str]:
    """The lectures that count for a student, and what they earned."""
    counting = [
        lecture for lecture in results.lectures if result.points_of(lecture) is not None and lecture not in result.dropped
    ]
    if not counting:
        return "", "no notebook was graded"
    return f"Lecture {' and '.join(counting)}: ", f"{result.points:g} of {results.max_points_of(*counting):g} points"


def kind_of(mark: Mark) -> str:
    """Say how a mark is coloured: good, part or bad."""
    return "good" if mark.points == mark.max_points else "part" if mark.points else "bad"


def _by_hand(mark: MarkByHand) -> Html:
    badge = f'<span class="badge">{mark.points:g} of {mark.of:g} points</span>'
    return Html(f"<section><h2>{html(f'{mark.lecture} {mark.item}')}</h2><p>{badge}</p><p>{html(mark.comment)}</p></section>")


def section(item: Exercise, mark: Mark) -> Html:
    """Make the part of a page that tells a student of one exercise.

    Where the instructor set the points, their reason comes first, and what the checks found below it, as superseded.
    """
    badge = f'<span class="badge {kind_of(mark)}">{mark.points:g} of {mark.max_points} points</span>'
    title, status = f"<h2>{html(item.id)} {html(item.title)}</h2>", _STATUS.get(mark.status, "")
    if not mark.override:
        return Html(f"<section>{title}<p>{badge} {status}</p>{_found(item, mark)}</section>")
    reason = f"<p>Set by your instructor: {html(mark.override)}</p>"
    checks = f"The automatic checks gave {mark.by_checks:g} of {mark.max_points} points; that no longer counts."
    found = _found(item, replace(mark, passed=mark.by_checks == mark.max_points))
    before = f'<div class="superseded"><p>{checks} {status}</p>{found}</div>' if str(found) or mark.by_checks else ""
    return Html(f"<section>{title}<p>{badge}</p>{reason}{before}</section>")


def _found(item: Exercise, mark: Mark) -> Html:
    """What the checks found in an answer, and what of the notebook did not run."""
    parts = []
    if mark.passed:
        parts.append("<p>Right.</p>")
    elif mark.misconception:
        parts.append(f'<p class="feedback">{html(mark.misconception)}</p>')
    if mark.detail:
        parts.append(f"<p>{html(mark.detail)}</p>")
    if mark.findings and not mark.passed and mark.status in ("judged", "no answer"):
        parts.append(
            table(
                f"{item.id}: what your function must do, and whether it does.",
                ("what it must do", "result", "points"),
                map(_row, mark.findings),
                [2],
            )
        )
    if mark.shortened:
        parts.append(f"<p>{html(mark.shortened)} If you think that it is right, ask your instructor to run it by hand.</p>")
    if mark.not_run:
        listed = "".join(f"<li>Cell {s.cell}, {code(s.line)}: {html(s.why)}.</li>" for s in mark.not_run)
        parts.append(f"<p>Your answer may depend on these statements, which did not run here:</p><ul>{listed}</ul>")
    return Html("".join(map(str, parts)))


def _row(finding: Finding) -> tuple[object, ...]:
    detail = detail_for_student(finding.detail) if finding.status == "fails" else ""
    law = html(f"{finding.law} {detail}".strip())
    what = Html(f'<strong>{html(finding.name)}</strong><span class="law">{law}</span>')
    symbol = cell(_SYMBOLS[finding.status], _KINDS[finding.status])
    return what, symbol, finding.shown_points


def detail_for_student(detail: str) -> str:
    """Give the part of a finding that a student may read; "" where nothing in it is known to be harmless."""
    if found := _RAISED.match(detail):
        known = getattr(builtins, found[1], None)
        what = found[1] if isinstance(known, type) and issubclass(known, BaseException) else "an error of its own kind"
        return f"It raised {what}{f' in the line {found[2]}' if found[2] else ''}."
    if found := _SHAPE.fullmatch(detail):
        return f"{_capital(found[1])} has another shape than it should."
    for form in _FIT:
        if found := form.fullmatch(detail):
            sentence = _capital(found[1])
            return sentence if sentence.endswith("?") else f"{sentence}."
    return f"{found[1]}." if (found := re.match(r"(It calls `?[\w.]{1,80}`?)", detail)) else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
