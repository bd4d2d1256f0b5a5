"""HTML of the report pages: one file each, legible in light mode, in dark mode and on paper.

The policy of a page lets the browser run the script given to `page`, by its hash, and nothing else: a text that reached a page
unescaped would still not run.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, repeat

from course_tools.checks.inline_markup import to_html
from course_tools.grading.files import shown

_STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --soft: #59616b; --back: #fff; --line: #d3d8de; --head: #f2f4f7;
  --link: #0b57a4; --good: #14662f; --good-back: #e3f4e8; --part: #744a00; --part-back: #fdf1d8; --bad: #a3201a;
  --bad-back: #fce8e6; --bar: #3f6fb5; }
@media (prefers-color-scheme: dark) { :root { --text: #e7eaee; --soft: #a9b2bd; --back: #15181c; --line: #3a414a;
  --head: #20252b; --link: #8cc0ff; --good: #84d99c; --good-back: #16301f; --part: #f2c56b; --part-back: #352a12;
  --bad: #ff9d94; --bad-back: #3a1a18; --bar: #7aa7e8; } }
* { box-sizing: border-box; }
body { font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: var(--text);
  background: var(--back); margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; }
h1, h2, p, li { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; }
p, ul { max-width: 46rem; }
a { color: var(--link); }
:is(a, .wide, pre, button, input, select):focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code { font: .92em ui-monospace, "Cascadia Mono", Consolas, Menlo, monospace; background: var(--head); border-radius: 3px;
  padding: 0 .25em; overflow-wrap: anywhere; }
pre { font: .85rem/1.45 ui-monospace, "Cascadia Mono", Consolas, Menlo, monospace; background: var(--head); margin: 0;
  padding: .6rem .8rem; border-radius: 4px; overflow: auto; max-height: 40rem; tab-size: 4; }
mark { background: var(--part-back); color: inherit; box-shadow: inset 3px 0 var(--part); display: block;
  margin: 0 -.8rem; padding: 0 .8rem; width: max-content; min-width: calc(100% + 1.6rem); }
.beside { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem 1.5rem; align-items: start; }
figure { margin: 0; min-width: 0; }
figcaption { color: var(--soft); padding-bottom: .3rem; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.wide { overflow: auto; margin: .5rem 0; max-height: 92vh; }
.find { display: flex; flex-wrap: wrap; gap: .5rem 1.25rem; align-items: center; margin: .5rem 0; }
.find input, .find select { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--soft);
  border-radius: 4px; padding: .25rem .5rem; max-width: 100%; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th button::after { content: " ↕"; color: var(--soft); font-weight: 400; }
[aria-sort=ascending] button::after { content: " ↑"; color: inherit; }
[aria-sort=descending] button::after { content: " ↓"; color: inherit; }
table { border-collapse: collapse; min-width: 20rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; max-width: min(46rem, 90vw); }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .7rem; text-align: left; vertical-align: top; }
th { font-weight: 600; }
thead th { background: var(--head); white-space: nowrap; position: sticky; top: 0; z-index: 1; }
tbody th { font-weight: 400; overflow-wrap: break-word; min-width: 6rem; max-width: 20rem; }
thead th.n { white-space: normal; }
tbody th:has(> a) { position: sticky; left: 0; background: var(--back); min-width: 12rem; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.text { min-width: 13rem; max-width: 46rem; overflow-wrap: anywhere; }
.short { white-space: nowrap; }
.good { color: var(--good); background: var(--good-back); }
.part { color: var(--part); background: var(--part-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.bar { display: inline-block; height: .6rem; background: var(--bar); border-radius: 2px; }
.share { display: inline-block; width: 3.2rem; font-variant-numeric: tabular-nums; }
section { margin: 1.75rem 0; border-left: 5px solid var(--line); padding: .1rem 0 .1rem 1rem; }
section h2 { margin: 0 0 .35rem; }
section tbody th { max-width: 40rem; }
.law { display: block; }
section .badge { display: inline-block; border-radius: 3px; padding: 0 .5rem; font-weight: 600; }
.superseded { color: var(--soft); border-top: 1px dashed var(--line); margin-top: .8rem; }
.feedback { font-size: 1.08rem; margin: .6rem 0; }
@media (max-width: 60rem) { .beside { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; } section { padding-left: .6rem; } table { min-width: 0; }
  th, td { padding: .3rem .4rem; } thead th { white-space: normal; } .text { min-width: 9rem; } tbody th { min-width: 4rem; }
  .short { white-space: normal; } }
@media print { :root { --text: #000; --soft: #333; --back: #fff; --line: #999; --head: #eee; --good: #14662f;
  --good-back: #fff; --part: #744a00; --part-back: #fff; --bad: #a3201a; --bad-back: #fff; }
  body { padding: 0; max-width: none; font-size: 10pt; } .wide, pre { overflow: visible; max-height: none; }
  pre { white-space: pre-wrap; } .find { display: none; } th { position: static !important; }
  tr, section { break-inside: avoid; } thead { display: table-header-group; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_LONGEST_LINE = 1_000


@dataclass(frozen=True)
class Html:
    """A text that is already HTML; any other text is escaped before it is shown."""

    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def html(text: object) -> Html:
    """Make HTML of a text: escaped, with `code` between back-ticks and *emphasis* between asterisks."""
    if isinstance(text, Html):
        return text
    return Html(to_html(str(text)))


def code(text: str) -> Html:
    """Make HTML of a line of code."""
    return Html(f"<code>{escape(text)}</code>")


def block(text: str, label: str, marked: Iterable[int] = ()) -> Html:
    """Make a figure of a student's code.

    Args:
        text: the code; invisible characters are replaced.
        label: the caption, also the accessible name.
        marked: the lines to mark, from 0.
    """
    chosen = set(marked)
    lines = [escape(shown(line.expandtabs(4), _LONGEST_LINE)) for line in text.split("\n")]
    body = "".join(f"<mark>{line} </mark>" if i in chosen else f"{line}&#10;" for i, line in enumerate(lines))
    pre = f'<pre role="region" tabindex="0" aria-label="{escape(label)}">{body}</pre>'
    return Html(f"<figure><figcaption>{html(label)}</figcaption>{pre}</figure>")  # one line: Markdown leaves it alone


def page(title: str, body: Iterable[object], script: str = "") -> str:
    """Make a complete page.

    Args:
        title: of the page.
        body: its parts.
        script: the only script that the browser may run on it.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"{_POLICY}; script-src 'sha256-{digest}'" if script else _POLICY
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(map(str, body))
        + "\n</main>\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def cell(text: object, kind: str = "") -> Html:
    """Make a cell of a table; `kind` is one or more of n (a number), text (long), short, good, part, bad."""
    return Html(f'<td class="{kind}">{html(text)}</td>' if kind else f"<td>{html(text)}</td>")


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Iterable[int] = (),
    states: Iterable[Sequence[str]] = (),
) -> Html:
    """Make a table; the first cell of each row is its header.

    Args:
        caption: what the table shows, in a sentence; also the accessible name of its scrollable region.
        header: the titles of the columns.
        rows: cells made by `cell`, or texts.
        numbers: the columns that hold numbers, from 0.
        states: for each row, by what it can be filtered, such as "late".
    """
    right = set(numbers)
    head = "".join(f'<th scope="col"{" class=n" if i in right else ""}>{html(text)}</th>' for i, text in enumerate(header))
    of_rows = (f' data-is="{escape(";".join(state))}"' if state else "" for state in chain(states, repeat(())))
    body = "\n".join(f"<tr{state}>{_row(row, right)}</tr>" for row, state in zip(rows, of_rows, strict=False))
    region = f'<div class="wide" role="region" tabindex="0" aria-label="{escape(caption)}">'
    return Html(
        f"{region}<table><caption>{html(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(row: Sequence[object], numbers: set[int]) -> str:
    first = f'<th scope="row"{" class=n" if 0 in numbers else ""}>{html(row[0])}</th>'
    rest = (
        text if isinstance(text, Html) and text.text.startswith("<td") else cell(text, "n" if i in numbers else "")
        for i, text in enumerate(row[1:], start=1)
    )
    return first + "".join(map(str, rest))
