"""Predictions before running a cell: buttons that record a choice, or a letter or number to write; then the explanation."""

import math
import re
from html import escape

from course_tools.notebook.prediction_options import Prediction, as_number, prediction
from course_tools.notebook.progress_bar import watched
from course_tools.notebook.progress_record import answer_to, remember
from course_tools.notebook.reopened import stand_in
from course_tools.notebook.show import in_notebook, publish

_KEEP_FOCUS = """
document.addEventListener("click", (event) => {
    const output = element.closest(".jp-OutputArea");
    if (output?.contains(event.target) && event.target.closest("button")) output.closest(".jp-Cell")?.focus();
});
"""
"""The buttons disappear once one is chosen, and with them the focus: without it, no key reaches the notebook any more."""


def predict(id: str, answer: object = ..., *decimals: object) -> None:
    """Ask for a prediction; the first choice counts and is stored in the progress file.

    In an interactive notebook, the options are buttons, and the explanations follow the choice. Elsewhere, such as in an
    exported page, the explanations are folded.

    Args:
        id: such as "01.p1".
        answer: the student's: a number, in place of `...`, where one is asked for; a letter is as good as its button. Anything
            else is answered by a sentence.
        decimals: what a decimal comma makes of a number.

    Raises:
        UnknownPrediction: there is no prediction with this id.
    """
    asked = prediction(id)
    live = in_notebook() and watched()
    chosen = answer_to(id)
    if asked.within and (answer is not ... or chosen):
        publish(_number_answered(asked, answer, decimals, chosen))
    elif answer is not ... and not asked.within:
        publish(_letter_answered(asked, answer, chosen))
    elif not live:
        publish(folded(asked))
    elif asked.within:
        publish(_said("Write your number in place of <code>...</code> and run this cell again."))
    elif chosen:
        publish(_answered(asked, chosen))
    else:
        _ask(asked)


def _letter_answered(asked: Prediction, letter: object, chosen: str | None) -> dict[str, str]:
    """Remember the letter of an option if it is the first, and explain the first."""
    said = str(letter).strip().upper()
    if asked.option_of(said) is None:
        letters = ", ".join(option.letter for option in asked.options)
        return _said(f'This prediction is one of {letters}, such as <code>predict("{asked.id}", "A")</code>.')
    if chosen is None:
        remember("prediction", asked.id, choice=said, right=asked.accepts(said))
    return _answered(asked, chosen or said)


def _number_answered(asked: Prediction, number: object, decimals: tuple, chosen: str | None) -> dict[str, str]:
    """Compare a number with the right one, and remember it if it is the first."""
    said = float(chosen) if number is ... and chosen else _finite(number)
    if said is None or decimals:
        got = ", ".join(map(repr, (number, *decimals)))
        return _said(f"This prediction is one number, with a decimal point, such as 0.5 or 2e-3. You wrote {escape(got)}.")
    if chosen is None:
        remember("prediction", asked.id, choice=f"{said:g}", right=asked.accepts(f"{said:g}"))
    return compared(asked, said)


def _finite(number: object) -> float | None:
    """Return a number as a float, also if it is a tensor of one; None if it is not one, or not finite."""
    try:
        said = float(number)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return None if isinstance(number, str | bool) or not math.isfinite(said) else said


def compared(asked: Prediction, said: float) -> dict[str, str]:
    """Write how near a number is to the right one, what a known wrong one overlooks, and why the right one is right."""
    right, means = asked.right_option, asked.option_of(f"{said:g}")
    if means == right:
        verdict = "✓ " + (f"within {asked.within}" if asked.within != "exactly" else "exactly")
    else:
        verdict = f"✗ {_off(said, as_number(right.text), asked.within)}"
    overlooked = f"<div>{means.text}: {means.explanation}</div>" if means and means != right else ""
    html = (
        f'<div role="group" aria-label="Prediction {escape(asked.id)}"><div>You said <b>{said:g}</b>; it is '
        f"<b>{right.text}</b>: {verdict}.</div>{overlooked}<div>{right.explanation}</div></div>"
    )
    return {"text/html": html, "text/plain": f"Prediction {asked.id}: you said {said:g}; it is {right.text}: {verdict}."}


def _off(said: float, value: float, within: str) -> str:
    """Say by how much a number is too large or too small, as a factor where a factor is allowed."""
    size = "large" if said > value else "small"
    if not within.startswith("a factor of "):
        return f"too {size} by {abs(said - value):.3g}"
    if said * value <= 0:
        return f"too {size}"
    return f"too {size} by a factor of {max(said / value, value / said):.3g}"


def _said(sentence: str) -> dict[str, str]:
    return {"text/html": f"<div>{sentence}</div>", "text/plain": re.sub(r"<[^>]*>", "", sentence)}


def _ask(asked: Prediction) -> None:
    import ipywidgets
    from IPython.display import display

    buttons = [ipywidgets.Button(description=f"I predict {option.letter}") for option in asked.options]

    def choose(button: ipywidgets.Button) -> None:
        letter = button.description[-1]
        remember("prediction", asked.id, choice=letter, right=letter == asked.right)
        shown.update(_answered(asked, letter), raw=True)

    for button in buttons:
        button.on_click(choose)
    shown = display(ipywidgets.HBox(buttons), display_id=True)
    publish({"application/javascript": _KEEP_FOCUS, "text/plain": ""})
    stand_in(still(asked))


def _answered(asked: Prediction, chosen: str) -> dict[str, str]:
    """What takes the place of the buttons: a notebook that is opened again has no widgets."""
    return {"text/html": explained(asked, chosen), "text/plain": f"Prediction {asked.id}: you chose {chosen}."}


def still(asked: Prediction) -> str:
    """Write the options without their explanations: what stands in place of buttons that were not used."""
    options = "".join(f"<div><b>{option.letter}.</b> {option.text}</div>" for option in asked.options)
    return f"<div>{options}<em>To choose, run this cell again.</em></div>"


def explained(asked: Prediction, chosen: str) -> str:
    """Write every option with its explanation; the right one and the chosen one are marked in words."""
    rows = []
    for option in asked.options:
        sign = "✓ right" if option.letter == asked.right else "✗"
        yours = ", your prediction" if option.letter == chosen else ""
        head = f"<b>{option.letter}</b> {sign}{yours}: {option.text}"
        rows.append(f'<div style="margin:.4em 0">{head}<div style="margin-left:1.5em">{option.explanation}</div></div>')
    return f'<div role="group" aria-label="Prediction {escape(asked.id)}">{"".join(rows)}</div>'


def folded(asked: Prediction, texts: bool = False) -> dict[str, str]:
    """Write the explanation of every option, folded, as HTML; as plain text, only the letters. A number is folded as well.

    Args:
        asked: the prediction.
        texts: write the text of each option too. The question above a call of `predict` has them already.
    """
    if asked.within:
        rows = "".join(f"<p><b>{option.text}</b> {option.explanation}</p>" for option in asked.options)
        html = f"<details><summary>The number, and why</summary>{rows}</details>"
        return {"text/html": html, "text/plain": f"Prediction {asked.id}: a number?"}
    options = (
        f"<details><summary>{option.letter}{f'. {option.text}' if texts else ': right or wrong?'}</summary>"
        f"<p>{option.explanation}</p></details>"
        for option in asked.options
    )
    letters = ", ".join(option.letter for option in asked.options)
    return {"text/html": "".join(options), "text/plain": f"Prediction {asked.id}: {letters}?"}
