"""What a student meets in JupyterLab, in a real browser: checks, figures with alternative text, sliders with names."""

from collections.abc import Iterator

import pytest

from tests.course_tools.conftest import ROOMS
from tests.course_tools.jupyterlab_page import Notebook, browser, jupyterlab, small_course, violations

SET_UP = """from matplotlib.figure import Figure
import torch
from course_tools.notebook import check, claim, explore, ledger, my_progress, predict, progress, show"""
RIGHT = "def rnn_step(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)"
WRONG = RIGHT.replace(" + b)", ")")
BROKEN = RIGHT.replace("b):", "b)")
CHECK = 'rnn_step = check("01.1", rnn_step)'
ALT = 'A line from 0 to 1; it is < 2 & "straight".'
FIGURE = f"figure = Figure(figsize=(3, 2))\nfigure.subplots().plot([0, 1])\nshow(figure, alt={ALT!r})"
EXPLORE = """def draw(number_of_steps=3, share=0.5, gated=True, kind="LSTM"):
    print("drawn", number_of_steps, share, gated, kind)

explore(draw, number_of_steps=(1, 9), share=(0.0, 1.0), gated=True, kind=["LSTM", "GRU"])"""
THE_REST = f"""from pathlib import Path
from course_tools.notebook import claim_statements
claim_statements.FOLDER = Path({str(ROOMS)!r})
claim("04.a", total=1)
"""
THE_REST += 'ledger()\npredict("01.p1")\nmy_progress("01")'
CELLS = (SET_UP, WRONG, CHECK, FIGURE, EXPLORE, THE_REST)
DEFINED, CHECKED, DRAWN, EXPLORED = 1, 2, 3, 4
OF_LECTURES = (".jp-OutputArea-output", ".jp-MarkdownOutput")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory) -> Iterator[Notebook]:
    """One notebook in one browser, for all tests of this file."""
    root = small_course(tmp_path_factory.mktemp("course"), *CELLS)
    with browser() as chromium, jupyterlab(root) as address:
        opened = Notebook(chromium.new_page(viewport={"width": 1280, "height": 1600}, bypass_csp=True), address)
        opened.run(0)
        yield opened


def test_a_wrong_answer_stays_wrong_until_a_right_one_is_run(notebook):
    def checked(source=None):
        if source is not None:
            notebook.write(DEFINED, source)
            notebook.run(DEFINED)
        return notebook.run(CHECKED)

    first = checked(WRONG)
    again = checked()
    assert "✗ bias" in first
    assert "✗ bias" in again
    assert "run its cell again" in again
    assert "The cell of rnn_step ended with an error" in checked(BROKEN)
    assert "The cell of rnn_step ended with an error" in checked()
    notebook.restart()
    notebook.run(0)
    assert "rnn_step is not defined: run the cell above" in checked()
    assert "Right. The lecture continues with your function." in checked(RIGHT)
    assert "Right. The lecture continues with your function." in checked()
    assert "✗ bias" in checked(WRONG)


def test_the_image_of_a_figure_has_its_alternative_text(notebook):
    notebook.run(DRAWN)
    image = notebook.output(DRAWN).locator("img")
    assert image.get_attribute("alt") == ALT
    assert notebook.output(DRAWN).locator("figcaption").text_content() == ALT


def test_every_control_has_a_name_and_obeys_the_keyboard(notebook):
    notebook.run(EXPLORED)
    output = notebook.output(EXPLORED)
    slider = output.get_by_role("slider", name="number of steps")
    slider.press("ArrowRight")
    output.get_by_text("drawn 4 0.5 True LSTM").wait_for()
    output.get_by_role("checkbox", name="gated").press("Space")
    output.get_by_text("drawn 4 0.5 False LSTM").wait_for()
    output.get_by_role("button", name="GRU").press("Enter")
    output.get_by_text("drawn 4 0.5 False GRU").wait_for()
    assert output.get_by_role("slider").count() == output.get_by_role("slider", name="share").count() + 1 == 2


def test_a_notebook_opened_again_shows_no_missing_widget(notebook):
    notebook.write(DEFINED, 'predict("01.p2")\nfor _ in progress(range(3), "counting"): pass')
    notebook.run(DEFINED)
    output = notebook.output(DEFINED)
    output.get_by_role("button", name="I predict A").click()
    output.get_by_text("your prediction").wait_for()
    assert output.get_by_role("button").count() == 0
    assert output.locator(".jupyter-widgets").count() == 0


@pytest.mark.parametrize("choose", ["click", "Enter"])
def test_keys_still_reach_the_notebook_after_a_choice(notebook, choose):
    notebook.write(DEFINED, f'predict("{"01.p4" if choose == "click" else "01.p5"}")')
    notebook.run(DEFINED)
    button = notebook.output(DEFINED).get_by_role("button", name="I predict A")
    button.click() if choose == "click" else button.press("Enter")
    notebook.output(DEFINED).get_by_text("your prediction").wait_for()
    notebook.page.keyboard.press("ArrowDown")
    active = "() => jupyterapp.shell.currentWidget.content.activeCellIndex"
    assert notebook.page.evaluate(active) == DEFINED + 1


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_no_violation_in_what_a_lecture_shows(notebook, theme):
    notebook.write(DEFINED, WRONG)
    for cell in range(1, len(CELLS)):
        notebook.run(cell)
    notebook.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    notebook.page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    assert violations(notebook.page, include=OF_LECTURES) == []


def test_a_slider_is_still_there_when_the_page_is_loaded_again(notebook):
    """Although a diagram that came with the lecture was not drawn again."""
    notebook.run(EXPLORED)
    notebook.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    notebook.page.reload()
    notebook.output(EXPLORED).get_by_role("slider", name="number of steps").wait_for()


def test_what_was_not_used_is_still_readable_when_the_notebook_is_opened_again_without_its_kernel(notebook):
    notebook.write(DEFINED, 'predict("01.p6")')
    figure = FIGURE.replace("[0, 1]", "[0, steps]").replace("\n", "\n    ")
    notebook.write(EXPLORED, f"def draw(steps=3):\n    {figure}\n\nexplore(draw, steps=(1, 9))")
    for cell in (DEFINED, EXPLORED):
        notebook.run(cell)
    notebook.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    notebook.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.page.reload()
    notebook.output(DEFINED).get_by_text("To choose, run this cell again.").wait_for()
    assert "Over one step the batch is too small." in notebook.output(DEFINED).text_content()
    notebook.output(EXPLORED).get_by_text("To move the sliders, run this cell again.").wait_for()
    assert notebook.output(EXPLORED).locator("img").get_attribute("alt") == ALT
    assert notebook.page.get_by_text("Error displaying widget").count() == 0
