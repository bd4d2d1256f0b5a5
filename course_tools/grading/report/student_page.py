"""The page of one student: what is right, which property fails and why, without the values that a check compares with.

Only a fixed set of sentences from the checks is shown, and of each only the part that describes the student's code. The
numbers, shapes and inputs of a check are omitted, and so is every text that was produced while the code ran.
"""

import builtins
import re
from dataclasses import replace

from course_tools.checks import Exercise, Finding
from course_tools.grading.marks import Comment, Mark
from course_tools.grading.report.html import Html, block, cell, code, html, page, table
from course_tools.grading.report.results import MarkByHand, Result, Results

_SYMBOLS = {"holds": "✓ holds", "fails": "✗ fails", "skipped": "– not judged"}
_KINDS = {"holds": "short good", "fails": "short bad", "skipped": "short"}
_STATUS = {"not started": "not started", "not found": "not found", "no answer": "no answer"}
_RESULT = r"(?:The result|Result \d{1,2}|[a-z_]{1,20}|∂L/∂\w{1,10})"
_INPUT = r"`[^\W\d]\w{0,24}(?: \d{1,2}|\[\d{1,2}\])?`"
_FIT = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(It was still running after [\d.]+ seconds?(?: of processor time| in which it did not compute)?"
        r"\. Does it contain an endless loop, a wait, or far too many steps\?)",
        r"(It did not end in time: the limit is [\d.]+ seconds of processor time\. [\w ,:-]{1,200}(?:\.[\w ]{1,80})?)\.",
        r"(One result is missing: return [\w ∂/]{1,30} too\.).*",
        r"(One result is too many: leave out result \d\.).*",
        r"(The results are in the wrong order: (?:return them in the order \([\w, ∂/]{1,80}\)|exchange them)\.).*",
        rf"({_RESULT} is None: return it too\.).*",
        r"(It returns (?:a list|a dict|a nested tuple|\d{1,2} results): return (?:[^.`]|`[^`]{1,20}`){1,60}\.).*",
        rf"({_RESULT} is correct up to rounding): .*",
        rf"({_RESULT} is close to the expected values, but the difference is larger than rounding in float32\.) .*",
        rf"({_RESULT} is missing\.)",
        r"(Its result does not depend on `.{1,80}`\. This earns no points\.)",
        r"(It returned None\. Is a `return` statement missing\?)",
        r"(Expected a function).*",
        r"(It should return (?:one result|\d{1,2} results))\b.*",
        rf"({_RESULT} should be a tensor), .*",
        rf"({_RESULT} should be (?:floating point|bool|integer)), .*",
        rf"({_RESULT} should be on the device '\w{{1,10}}(?::\d)?'), .*",
        rf"({_RESULT} should be of type \w{{1,40}}), .*",
        r"(It made \d+ updates, but only \d+ are allowed)\.",
        r"(The model has [\d,]+ weights, but only [\d,]+ are allowed)\.",
        r"(Before \d+% of the updates, the gradients of the previous update had not been cleared)\.",
        r"(\d+% of the weights (?:in the optimizer never had a gradient|that had a gradient are not in any optimizer))\.",
        r"(Called twice with the same inputs, the returned model returns different results"
        r"(?:\. All else is judged after a call of its `eval\(\)`)?)\.",
        r"(The result itself is wrong here, before any gradient)\. .*",
        rf"({_RESULT} is wrong)\..*",
        rf"(The gradient with respect to {_INPUT} is wrong)\..*",
        r"(No gradient reaches the inputs: the result is detached from them) .*",
        rf"(The call changes {_INPUT}(?:, {_INPUT}){{0,9}}: an operation works in place) .*",
    )
)
_SHAPE = re.compile(rf"({_RESULT}) should have shape .*", re.DOTALL)
_RAISED = re.compile(r"It raised (\w{1,40})(?: in the line (`.{1,200}?`))?: .*", re.DOTALL)


def feedback(result: Result, results: Results) -> str:
    """Make a student's page.

    Args:
        result: the result of the student.
        results: of the class, used only for the exercises and their titles; nothing about other students is shown.
    """
    return page(
        f"{result.student.name}: {_total(result, results)[1]}",
        [f"<h1>{html(result.student.name)}</h1>", *sections(result, results)],
    )


def sections(result: Result, results: Results) -> list[Html]:
    """Make the parts of a student's page below its title; arguments as for `feedback`."""
    named, total = _total(result, results)
    body = [f'<p class="feedback">{named}{total}</p>']
    body += [f"<p>{html(note)}</p>" for note in result.notes]
    if result.failures:
        body.append(
            "<p>One of your notebooks could not be graded this time. It was not your mistake; your instructor knows.</p>"
        )
    marks = result.marks
    body += [section(item, marks[item.id], result.code.get(item.id, "")) for item in results.exercises if item.id in marks]
    body += [_by_hand(mark) for mark in result.by_hand]
    body += [f"<p>Lecture {lecture} does not count for you: it is one of your lowest.</p>" for lecture in result.dropped]
    return [Html(str(part)) for part in body]


def _total(result: Result, results: Results) -> tuple[str, str]:
    """The lectures that count for a student, and their points."""
    counting = [
        lecture for lecture in results.lectures if result.points_of(lecture) is not None and lecture not in result.dropped
    ]
    if not counting:
        return "", "no notebook was graded"
    named = f"Lecture{'s' * (len(counting) > 1)} {', '.join(counting)}: "
    extra = f", {result.extra_points:g} of them extra" if result.extra_points else ""
    return named, f"{result.points:g} of {results.max_points_of(result, *counting):g} points{extra}"


def kind_of(item: Exercise, mark: Mark) -> str:
    """Return the colour class of a mark: good, part or bad; "" for an extra exercise that earned nothing."""
    return "good" if mark.points == mark.max_points else "part" if mark.points else "" if item.extra else "bad"


def _by_hand(mark: MarkByHand) -> Html:
    badge = f'<span class="badge">{mark.points:g} of {mark.of:g} points</span>'
    return Html(f"<section><h2>{html(f'{mark.lecture} {mark.item}')}</h2><p>{badge}</p><p>{html(mark.comment)}</p></section>")


def section(item: Exercise, mark: Mark, own: str = "") -> Html:
    """Make the section of a page on one exercise: what the instructor says, the result of the checks, the student's own code.

    If the instructor set the points, the result of the checks is marked as superseded.
    """
    points = f"{mark.points:g} of {mark.max_points} {'extra ' * item.extra}points"
    badge = f'<span class="badge {kind_of(item, mark)}">{points}</span>'
    title, status = f"<h2>{html(item.id)} {html(item.title)}</h2>", _STATUS.get(mark.status, "")
    said = "".join(f"<p>Your instructor: {html(_remark(comment))}</p>" for comment in mark.comments)
    if not mark.override:
        result = f"<p>{badge} {status}</p>{said}{_found(item, mark)}"
    else:
        reason = f"<p>Set by your instructor: {html(mark.override)}</p>"
        checks = f"The automatic checks gave {mark.by_checks:g} of {mark.max_points} points, which no longer count."
        found = _found(item, replace(mark, passed=mark.by_checks == mark.max_points))
        before = f'<div class="superseded"><p>{checks} {status}</p>{found}</div>' if str(found) or mark.by_checks else ""
        result = f"<p>{badge}</p>{reason}{said}{before}"
    if own:
        result = f'<div class="beside"><div>{result}</div>{block(own, f"{item.id}: your code")}</div>'
    return Html(f"<section>{title}{result}</section>")


def _remark(comment: Comment) -> str:
    points = f" ({comment.points:+g} points)".replace("-", "−") if comment.points else ""
    return f"{comment.text}{points}"


def _found(item: Exercise, mark: Mark) -> Html:
    """The result of the checks, and the statements that did not run."""
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
                f"{item.id}: requirements for your function, and whether it meets them.",
                ("requirement", "result", "points"),
                [_row(finding) for finding in mark.findings if finding.status != "adjusts"],
                [2],
            )
        )
        parts += [f"<p>{html(finding.law)}</p>" for finding in mark.findings if finding.status == "adjusts"]
    if mark.shortened:
        parts.append(f"<p>{html(mark.shortened)} If you think your answer is right, ask your instructor to run it.</p>")
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
    """Return the part of a finding that may be shown to a student; "" if no part is known to be harmless."""
    if found := _RAISED.match(detail):
        line = f" in the line {found[2]}" if found[2] else ""
        if found[1] == "NotAvailable":
            return f"It uses a part of the course{line} that is not available in this exercise; use torch, or write it by hand."
        known = getattr(builtins, found[1], None)
        what = found[1] if isinstance(known, type) and issubclass(known, BaseException) else "an error of a non-built-in type"
        return f"It raised {what}{line}."
    if found := _SHAPE.fullmatch(detail):
        return f"{_capital(found[1])} has the wrong shape."
    for form in _FIT:
        if found := form.fullmatch(detail):
            sentence = _capital(found[1])
            return sentence if sentence.endswith((".", "?")) else f"{sentence}."
    return f"{found[1]}." if (found := re.match(r"(It calls `?[\w.]{1,80}`?)", detail)) else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
