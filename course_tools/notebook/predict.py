"""Predictions before running a cell: buttons that record a choice, then the explanation of every option."""

from html import escape

from course_tools.notebook.prediction_options import Prediction, prediction
from course_tools.notebook.progress_bar import watched
from course_tools.notebook.progress_record import progress_file, progress_of, read_events, remember
from course_tools.notebook.reopened import stand_in
from course_tools.notebook.show import in_notebook, publish

_KEEP_FOCUS = """
document.addEventListener("click", (event) => {
    const output = element.closest(".jp-OutputArea");
    if (output?.contains(event.target) && event.target.closest("button")) output.closest(".jp-Cell")?.focus();
});
"""
"""The buttons disappear once one is chosen, and with them the focus: without it, no key reaches the notebook any more."""


def predict(id: str) -> None:
    """Ask for a prediction; the first choice counts and is stored in the progress file.

    In an interactive notebook, the options are buttons, and the explanations follow the choice. Elsewhere, such as in an
    exported page, the explanations are folded.

    Raises:
        UnknownPrediction: there is no prediction with this id.
    """
    asked = prediction(id)
    if not (in_notebook() and watched()):
        publish(folded(asked))
        return
    chosen = progress_of(read_events(progress_file())).predictions.get(id)
    if chosen:
        publish(_answered(asked, chosen))
    else:
        _ask(asked)


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
    """Write the explanation of every option, folded, as HTML; as plain text, only the letters.

    Args:
        asked: the prediction.
        texts: write the text of each option too. The question above a call of `predict` has them already.
    """
    options = (
        f"<details><summary>{option.letter}{f'. {option.text}' if texts else ': right or wrong?'}</summary>"
        f"<p>{option.explanation}</p></details>"
        for option in asked.options
    )
    letters = ", ".join(option.letter for option in asked.options)
    return {"text/html": "".join(options), "text/plain": f"Prediction {asked.id}: {letters}?"}
