"""Write an exam: each form and the answer key as a page that prints well, and as PDF if a browser is installed."""

import html
from collections.abc import Sequence
from pathlib import Path

from course_tools.checks.inline_markup import to_html
from course_tools.exams.forms import LETTERS, Form, PlacedQuestion, compose
from course_tools.exams.questions import MINUTES, AnswerOption
from course_tools.publishing.browser import print_pdf
from course_tools.whole_file import write_whole

_STYLE = Path(__file__).with_name("exam.css")
_PREAMBLE = (
    "Code assumes `import math, torch`, `from torch import nn`, `import torch.nn.functional as F` and "
    "`from einops import rearrange`. A mask is bool, and True means “may attend”. In a multiple-choice question, exactly one "
    "answer is right."
)


def write_exam(folder: Path, lectures: Sequence[str], n_forms: int, minutes: int = 40, seed: int = 0) -> list[Path]:
    """Compose an exam and write its forms and its key into a folder.

    Args:
        folder: the output folder; created if it does not exist.
        lectures: numbers of lectures, such as "04".
        n_forms: how many forms.
        minutes: the length of a form.
        seed: seed of the random draw.

    Returns:
        the files written: `form_A.html` and so on, `answer_key.html`, and a PDF of each if there is a browser.

    Raises:
        CannotCompose: the bank cannot provide such an exam.
        CannotWrite: the disk is full or the folder is not writable.
    """
    forms = compose(lectures, n_forms, minutes, seed)
    title = f"Attention: lecture{'s' if len(lectures) > 1 else ''} {', '.join(lectures)}"
    pages = {f"form_{form.name}": form_page(form, title) for form in forms}
    pages["answer_key"] = key_page(forms, title, seed)
    written = []
    for name, text in pages.items():
        path = folder / f"{name}.html"
        write_whole(path, text)
        written.append(path)
        if print_pdf(path, path.with_suffix(".pdf")):
            written.append(path.with_suffix(".pdf"))
    return written


def form_page(form: Form, title: str) -> str:
    """Write the page that a student gets."""
    points = sum(item.question.points for item in form.items)
    head = (
        f"<h1>{html.escape(title)} · Form {form.name}</h1>"
        f'<p class="name"><span>Name</span><span>Date</span></p>'
        f"<p>{len(form.items)} questions, {points} points, {form.minutes} minutes. {to_html(_PREAMBLE)}</p>"
    )
    return _page(f"{title} · Form {form.name}", head + "".join(_question(n, item) for n, item in enumerate(form.items, 1)))


def key_page(forms: list[Form], title: str, seed: int) -> str:
    """Write the answer key: a table of the letters, then each question with an explanation of every option."""
    n_items = len(forms[0].items)
    rows = ""
    for form in forms:
        letters = "".join(f"<td>{item.letter or '✎'}</td>" for item in form.items)
        rows += f"<tr><th>Form {form.name}</th>{letters}<td>{form.difficulty:.1f}</td></tr>"
    numbers = "".join(f"<th>{n}</th>" for n in range(1, n_items + 1))
    body = [
        f"<h1>{html.escape(title)} · Answer key</h1>",
        f"<p>Drawn by seed {seed}. The last column estimates the difficulty of a form; ✎ marks a written answer.</p>",
        f"<table><tr><th></th>{numbers}<th>difficulty</th></tr>{rows}</table>",
    ]
    for form in forms:
        body.append(f"<h1>Form {form.name}</h1>")
        body += [_solved(n, item) for n, item in enumerate(form.items, 1)]
    return _page(f"{title} · Answer key", "".join(body), "key")


def _question(number: int, item: PlacedQuestion) -> str:
    choices = "".join(f"<li>{_option(option)}</li>" for option in item.options)
    below = f"<ol>{choices}</ol>" if choices else '<div class="lines"></div>'
    return f'<div class="question">{_stem(number, item)}{below}</div>'


def _solved(number: int, item: PlacedQuestion) -> str:
    question = item.question
    if not item.options:
        reason, _, code = question.answer.partition("\n\n")
        answer = f"<p>{to_html(reason)}</p><p>Any equivalent correction counts. One right version:</p>{_code(code)}"
    else:
        answer = ""
        for letter, option in zip(LETTERS, item.options, strict=True):
            kind = "right" if letter == item.letter else "wrong"
            answer += f'<p class="{kind}">{letter}: {_option(option)}</p><p class="why">{to_html(option.why)}</p>'
    source = f"<p><small>Exercise {question.exercise}, {html.escape(question.source)}</small></p>"
    return f'<div class="question">{_stem(number, item)}{answer}{source}</div>'


def _stem(number: int, item: PlacedQuestion) -> str:
    question = item.question
    notes = "".join(_code(note.text) if note.is_code else f"<p>{_code_and_words(note.text)}</p>" for note in question.footnotes)
    below = f'<div class="notes">{notes}</div>' if notes else ""
    points = MINUTES[question.kind]
    heading = f"<h2><span>Question {number}</span><span>{points} points</span></h2>"
    return f"{heading}<p>{to_html(question.text)}</p>{_code(question.code)}{below}"


def _option(option: AnswerOption) -> str:
    return f"<code>{html.escape(option.text)}</code>" if option.is_code else to_html(option.text)


def _code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _code_and_words(text: str) -> str:
    """Format the description of a function: `name(arguments)` as code, the words after the colon as text."""
    code, _, words = text.partition("): ")
    return f"<code>{html.escape(code)})</code>: {to_html(words)}"


def _page(title: str, body: str, style: str = "form") -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f'<body class="{style}"><main>{body}</main></body></html>\n'
    )
