"""What a student sees of a verdict: HTML in Jupyter, text elsewhere.

In a kernel the report is published as the result of the cell, and its plain text is the number of points: nbgrader reads that
as partial credit.
"""

import sys
from dataclasses import dataclass
from html import escape

from course_tools.checks.verdict import Finding, Verdict

_SIGNS = {"holds": "✓", "fails": "✗", "skipped": "–"}
_COLOURS = {"holds": "#1b7f3b", "fails": "#c0392b", "skipped": "#808080"}


@dataclass(frozen=True)
class VerdictDisplay:
    """A verdict with the name of its exercise, ready to be shown."""

    id: str
    title: str
    verdict: Verdict

    def __repr__(self) -> str:
        """Give the points as a float."""
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
            f"<div>{head}</div>{self._body()}</div>"
        )

    def _body(self) -> str:
        v = self.verdict
        if v.passed:
            return "<div>Right. The lecture goes on with your function.</div>"
        if not v.started:
            return "<div>Write your code where it says <code>YOUR CODE HERE</code>. Until then the lecture uses ours.</div>"
        told = f'<p style="margin:.4em 0;font-size:1.05em">{_marked(v.misconception)}</p>' if v.misconception else ""
        rows = "".join(map(_row, v.findings))
        return f'{told}<table style="margin:.3em 0">{rows}</table><div>Until it is right, the lecture goes on with ours.</div>'


def _row(finding: Finding) -> str:
    colour, sign = _COLOURS[finding.status], _SIGNS[finding.status]
    detail = (
        "skipped: it needs the ones that fail"
        if finding.status == "skipped"
        else _marked(f"{finding.detail} {finding.numbers}".strip())
    )
    example = f'<br><span style="opacity:.75">smallest input: {escape(finding.example)}</span>' if finding.example else ""
    points = f"{finding.points if finding.status == 'holds' else 0}/{finding.points}" if finding.points else ""
    cell = '<td style="text-align:left;vertical-align:top">'
    return (
        f'<tr>{cell}<span style="color:{colour}">{sign}</span> {escape(finding.name)}</td>{cell}{points}</td>'
        f"{cell}{_marked(finding.law)}{'<br>' + detail if detail else ''}{example}</td></tr>"
    )


def _marked(text: str) -> str:
    """Escape a text for HTML, with `code` between back-ticks."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def publish(report: VerdictDisplay) -> None:
    """Show a report: as the result of the cell in a kernel, as text on standard output elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        shell.displayhook(report)
    else:
        print(report.verdict.message)
