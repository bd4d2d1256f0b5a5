"""Display of a verdict to the student: HTML in Jupyter, text elsewhere.

In a kernel, the report is published as the result of the cell. Its plain text is the number of points, which nbgrader reads as
partial credit.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from course_tools.checks.inline_markup import to_html
from course_tools.checks.judge_answer import PERHAPS, Finding, Verdict

_AGAIN = "It fails in the same way as before."
_PLANTED = "This version was made wrong on purpose. Your own function is checked in another cell."
_REPAIRED = "This version is repaired. Your own function is checked in another cell."
_SIGNS = {"holds": "✓", "fails": "✗", "skipped": "–"}
_COLOURS = {"holds": "#1b7f3b", "fails": "#c0392b", "skipped": "#808080"}


class Hint(NamedTuple):
    """A hint of an exercise, with its number from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class VerdictDisplay:
    """A verdict with the name of its exercise; `note` is a sentence below it, `hint` is folded at its end.

    `planted` is True if the judged function is the wrong version that the lecture gives, such as that of a bug hunt.
    """

    id: str
    title: str
    verdict: Verdict
    note: str = ""
    hint: Hint | None = None
    planted: bool = False

    @property
    def about_planted(self) -> str:
        """A sentence on a planted version that was judged, in place of what the lecture continues with; else ""."""
        if not self.planted or not self.verdict.findings:
            return ""
        return _REPAIRED if self.verdict.passed else _PLANTED

    def __repr__(self) -> str:
        """Return the points as a float."""
        return repr(float(self.verdict.points))

    def _repr_html_(self) -> str:
        v = self.verdict
        status = "holds" if v.passed else "fails" if v.started else "skipped"
        head = (
            f"<b>{_SIGNS[status]} {escape(self.id)} {escape(self.title)}</b> · {v.points} of {v.max_points} points"
            f"{'' if v.started else ' · not started'}"
        )
        return (
            f'<div style="border-left:4px solid {_COLOURS[status]};padding:.3em .8em;max-width:60em">'
            f"<div>{head}</div>{self._body()}{self._offer()}</div>"
        )

    def _body(self) -> str:
        v = self.verdict
        note = f"<div>{to_html(self.note)}</div>" if self.note else ""
        printer = "This version" if self.planted else "Your function"
        printed = f'<div>{printer} printed:</div><pre style="margin:.2em 0">{escape(v.printed)}</pre>' if v.printed else ""
        if v.passed:
            said = f'<p style="margin:.4em 0">{to_html(v.conclusion)}</p>' if v.conclusion else ""
            follows = self.about_planted or "The lecture continues with your function."
            return f"<div>Right. {follows}</div>{said}{note}{printed}"
        if not v.started:
            start = "Write your code at <code>YOUR CODE HERE</code>. Until then, the lecture uses the library's function."
            return f"<div>{start}</div>{note}{printed}"
        named = v.misconception or (f"{PERHAPS} {v.suspected}" if v.suspected else "")
        misconception = f'<p style="margin:.4em 0;font-size:1.05em">{to_html(named)}</p>' if named else ""
        judged = [f for f in v.findings if f.status in ("holds", "fails")]
        rows = "".join([*map(_row, judged), _skipped(v.findings)])
        adjusted = "".join(f"<div>{f.law}</div>" for f in v.findings if f.status == "adjusts")
        table = f'<table style="margin:.3em 0">{rows}</table>' if rows else ""
        follows = self.about_planted if self.planted else "Until it is right, the lecture uses the library's function."
        return f"{misconception}{table}{adjusted}<div>{follows}</div>{note}{printed}"

    def _offer(self) -> str:
        if self.hint is None:
            return ""
        return f"<details><summary>{_AGAIN} Open hint {self.hint.number}.</summary><p>{to_html(self.hint.text)}</p></details>"


def _skipped(findings: Sequence[Finding]) -> str:
    """One row for all properties that were not judged."""
    skipped = [f for f in findings if f.status == "skipped"]
    if not skipped:
        return ""
    cell = '<td style="text-align:left;vertical-align:top">'
    names = escape(", ".join(f.name for f in skipped))
    return (
        f'<tr>{cell}<span style="color:{_COLOURS["skipped"]}">{_SIGNS["skipped"]}</span> {len(skipped)} more</td>'
        f"{cell}0/{sum(f.points for f in skipped)}</td>{cell}Not judged until the properties above hold: {names}.</td></tr>"
    )


def _row(finding: Finding) -> str:
    colour, sign = _COLOURS[finding.status], _SIGNS[finding.status]
    detail = to_html(f"{finding.detail} {finding.numbers}".strip())
    example = f'<br><span style="opacity:.75">failing input: {escape(finding.example)}</span>' if finding.example else ""
    cell = '<td style="text-align:left;vertical-align:top">'
    unbroken = cell.replace("top", "top;white-space:nowrap")
    name = f'{unbroken}<span style="color:{colour}">{sign}</span> {escape(finding.name)}</td>'
    law = to_html(finding.required if finding.status == "fails" else finding.law)
    says = f"{'<br>'.join(part for part in (law, detail) if part)}{example}"
    return f"<tr>{name}{cell}{finding.shown_points}</td>{cell}{says}</td></tr>"


def show_verdict(report: VerdictDisplay) -> None:
    """Show a report: in a kernel as the result of the cell, elsewhere as text on standard output."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        shell.displayhook(report)
    else:
        v = report.verdict
        lines = [v.message]
        if report.about_planted:
            lines.append(report.about_planted)
        if report.note and report.note not in v.message:
            lines.append(report.note)
        if v.printed:
            lines += ["This version printed:" if report.planted else "Your function printed:", v.printed]
        if report.hint:
            lines.append(f"{_AGAIN} Hint {report.hint.number}: {report.hint.text}")
        print("\n".join(lines))
