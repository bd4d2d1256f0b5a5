"""Cells tagged `predict`: from the authoring source to a question, a call of `predict`, and the data that it reads.

**Predict.** The question.

<details><summary>A. An option.</summary>

Its explanation; that of the right option starts with "Yes" or "Right".</details>

Where the answer is a number, the first one is right, and the others are known wrong ones, which are not shown beforehand:

**Predict a number** (within a factor of 1.5). The question.

<details><summary>0.334</summary>

Why.</details>

How near it must be is a factor, as here, or a difference, "within 0.02", or "exactly".
"""

import json
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import jupytext
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from course_tools.notebook.prediction_options import Option, Prediction
from course_tools.publishing.project import lectures

FILE = Path("course_tools/notebook/predictions.json")
_OPTION = re.compile(r"<details><summary>([A-Z])\. (.*?)</summary>\s*(.*?)</details>", re.DOTALL)
_NUMBER = re.compile(r"<details><summary>([-\d.,e]+)</summary>\s*(.*?)</details>", re.DOTALL)
_WITHIN = re.compile(r"\*\*Predict a number\*\* \((?:within ((?:a factor of )?[\d.]+)|exactly)\)")
_RIGHT = re.compile(r"(?:Yes|Right|Correct)\b")


def is_right(why: str) -> bool:
    """Return whether an explanation is that of the right option."""
    return _RIGHT.match(why) is not None


def within(source: str) -> str:
    """Return how near a number must be, such as "a factor of 1.5"; "" if a predict cell has options."""
    found = _WITHIN.search(source)
    return (found[1] or "exactly") if found else ""


def right_letter(source: str) -> str:
    """Return the letter of the right option of a predict cell; the right one of several numbers is the first."""
    _, options = split_question(source)
    return "A" if within(source) else next(letter for letter, _, why in options if is_right(why))


def split_question(source: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Parse a predict cell: the question, and each option's letter, text and explanation, all in Markdown.

    Raises:
        ValueError: there are fewer than two options, or the number of right options is not one; a number is asked for, and none
            is given.
    """
    if within(source):
        numbers = [(chr(ord("A") + i), text, why.strip()) for i, (text, why) in enumerate(_NUMBER.findall(source))]
        if not numbers or _OPTION.search(source):
            raise ValueError("a number to predict needs the right one: <details><summary>0.5</summary> explanation</details>")
        return _NUMBER.sub("", source).strip(), numbers
    options = [(letter, " ".join(text.split()), why.strip()) for letter, text, why in _OPTION.findall(source)]
    if len(options) < 2:
        raise ValueError("a prediction needs two options or more: <details><summary>A. text</summary> explanation</details>")
    right = [letter for letter, _, why in options if is_right(why)]
    if len(right) != 1:
        raise ValueError(f'the explanation of exactly one option must start with "Yes" or "Right"; here: {right or "none"}')
    return _OPTION.sub("", source).strip(), options


def question(source: str) -> str:
    """Write the Markdown above the call: the question and its options without their explanations; no number."""
    asked, options = split_question(source)
    if within(source):
        return asked
    return "\n".join([asked, "", *(f"- **{letter}.** {text}" for letter, text, _ in options)])


def prediction_of(id: str, source: str) -> Prediction:
    """Return the prediction of a predict cell, texts as HTML; raises ValueError as `split_question` does."""
    _, options = split_question(source)
    shown = tuple(Option(letter, as_html(text), as_html(why)) for letter, text, why in options)
    return Prediction(id, shown, right_letter(source), within(source))


def predictions_json(root: Path) -> str:
    """Write the data of every prediction of the course as JSON, texts as HTML."""
    found = {}
    for lecture in lectures(root):
        cells = jupytext.reads(lecture.authoring.read_text(encoding="utf-8"), fmt="py:percent").cells
        asked = [cell.source for cell in cells if "predict" in cell.metadata.get("tags", ())]
        for number, source in enumerate(asked, start=1):
            asked_now = prediction_of(f"{lecture.number}.p{number}", source)
            found[asked_now.id] = {"options": asked_now.options, "right": asked_now.right}
            if asked_now.within:
                found[asked_now.id]["within"] = asked_now.within
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def as_html(markdown: str) -> str:
    """Convert Markdown to inline HTML; formulas keep their `$`, because Jupyter typesets them."""
    converter = MarkdownIt("commonmark").use(dollarmath_plugin)
    for kind, mark in (("math_inline", "$"), ("math_inline_double", "$$"), ("math_block", "$$")):
        converter.add_render_rule(kind, _formula(mark))
    html = converter.render(markdown).strip()
    return html.removeprefix("<p>").removesuffix("</p>") if html.count("<p>") == 1 else html


def _formula(mark: str) -> Callable[..., str]:
    def render(renderer: object, tokens: Sequence[Token], index: int, *settings: object) -> str:
        return f"{mark}{escape(tokens[index].content, quote=False)}{mark}"

    return render
