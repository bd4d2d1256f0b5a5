"""What a reader sees: the same calls in a real kernel and outside one."""

import base64
from html.parser import HTMLParser

import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from course_tools.notebook import explore, plots, show
from course_tools.notebook.show import in_notebook, png
from tests.course_tools.conftest import ROOMS

CELLS = {
    "claim": "from pathlib import Path\n"
    "from course_tools.notebook import claim, claim_statements, explore, ledger, plots, progress, show\n"
    f"claim_statements.FOLDER = Path({str(ROOMS)!r})\n"
    "claim('04.positions', positions=[0.97, 0.96], zero=[0.07, 0.1])",
    "ledger": "ledger()",
    "show": "show(plots.curves({'a': ([0, 1], [0, 1])}, 'x', 'y'), alt='A line < that rises.')",
    "explore": "import os\n"
    "from functools import partial\n"
    "under_test = {name: os.environ.pop(name, None) for name in ('CI', 'PYTEST_VERSION')}\n"
    "def draw(weights, scale=2.0, masked=True, form='dot'):\n"
    "    show(plots.attention_map(weights), alt=f'{scale} {masked} {form}')\n"
    "explore(partial(draw, [[1.0]]), scale=(0.5, 4.0), masked=False, form=['sum', 'dot'])\n"
    "os.environ.update({name: value for name, value in under_test.items() if value})",
    "unwatched": "explore(partial(draw, [[1.0]]), scale=(0.5, 4.0), form=['sum', 'dot'])",
    "progress": "list(progress(range(3), 'three'))",
}


@pytest.fixture(scope="module")
def outputs():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    results = {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}
    results["state"] = (
        notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    )
    return results


def test_a_claim_is_one_output_with_its_measure_in_the_metadata(outputs):
    (output,) = outputs["claim"]
    assert output.output_type == "display_data"
    bounds = "min(positions) at least 0.85; min(positions) - max(zero) at least 0.4"
    sentence = "With `positions`, 0.96 to 0.97 are right; without, 0.07 to 0.1."
    assert output.data["text/plain"] == f"✓ 04.positions {sentence} | {bounds}"
    shown = output.data["text/html"]
    assert '<code>positions</code>, <b class="measured">0.96 to 0.97</b> are right' in shown
    assert f"2 seeds · {bounds} · 04.positions ✓" in shown
    assert output.metadata["course_claim"] == {
        "id": "04.positions",
        "text": sentence,
        "values": {"positions": [0.97, 0.96], "zero": [0.07, 0.1]},
        "holds": ["min(positions) >= 0.85", "min(positions) - max(zero) >= 0.4"],
        "held": True,
    }


def test_the_ledger_is_a_table(outputs):
    (output,) = outputs["ledger"]
    assert "<td" in output.data["text/html"]
    assert "0.97" in output.data["text/html"]
    assert "0.97" in output.data["text/plain"]


class Images(HTMLParser):
    """Collects the attributes of images, and the text of the page."""

    def __init__(self):
        super().__init__()
        self.images, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_data(self, data):
        self.text += data


def test_a_figure_is_an_image_with_a_real_alt_and_a_caption(outputs):
    picture, caption = outputs["show"]
    page = Images()
    page.feed(caption.data["text/html"])
    about = picture.metadata["image/png"]
    assert about["alt"] == page.text == picture.data["text/plain"] == "A line < that rises."
    data = base64.b64decode(picture.data["image/png"])
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 2 * about["width"]


def test_the_alt_text_is_in_exported_html(outputs):
    cell = nbformat.v4.new_code_cell("show(figure, alt=alt)", outputs=outputs["show"])
    page = Images()
    page.feed(HTMLExporter(template_name="classic").from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0])
    assert [image["alt"] for image in page.images] == ["A line < that rises."]


def test_a_photograph_keeps_its_colours():
    few, many = (
        plots.pictures({"a": np.zeros((8, 8, 3))}),
        plots.pictures({"a": np.random.default_rng(0).random((300, 300, 3))}),
    )
    assert png(few)[25] == 3  # a palette
    assert png(many)[25] in (2, 6)  # true colour


def test_sliders_buttons_and_boxes_start_at_the_defaults_of_the_drawing_and_have_descriptions(outputs):
    models = {m["state"]["description"]: m for m in outputs["state"].values() if m["state"].get("description")}
    assert {name: models[name]["model_name"] for name in models} == {
        "scale": "FloatSliderModel",
        "masked": "CheckboxModel",
        "form": "ToggleButtonsModel",
    }
    assert (models["scale"]["state"]["value"], models["masked"]["state"]["value"]) == (2.0, True)
    assert models["form"]["state"]["index"] == 1


def test_the_drawing_is_shown_beside_its_controls(outputs):
    (shown,) = [m["state"]["outputs"] for m in outputs["state"].values() if m["model_name"] == "OutputModel"]
    assert [output["data"]["text/plain"] for output in shown] == ["2.0 True dot"]


def test_a_batch_run_stores_frames_and_the_figure_without_a_widget(outputs):
    frames, picture, caption = outputs["unwatched"]
    assert '<div class="course-frames">' in frames.data["text/html"]
    assert picture.metadata["image/png"]["alt"] == "2.0 True dot"
    assert "figcaption" in caption.data["text/html"]


def test_a_progress_bar_is_silent_in_a_kernel_that_pytest_started(outputs):
    (output,) = outputs["progress"]
    assert output.data == {"text/plain": "[0, 1, 2]"}


def test_outside_a_notebook_a_figure_prints_its_sentence(capsys):
    assert not in_notebook()
    show(plots.attention_map([[1.0]]), alt="One cell.")
    assert capsys.readouterr().out == "One cell.\n"


def test_outside_a_notebook_an_interactive_draws_once(capsys):
    explore(lambda scale, n=3: print(scale, n), scale=(0.5, 4.0), n=(1, 5))
    assert capsys.readouterr().out == "0.5 3\n"


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_figure_without_words_is_refused(alt):
    with pytest.raises(ValueError, match="needs a text"):
        show(plots.attention_map([[1.0]]), alt=alt)


@pytest.mark.parametrize("size", [(6.5, 4), (6, 4.2)])
def test_a_figure_larger_than_the_page_is_refused(size):
    with pytest.raises(ValueError, match="at most 6 x 4 inches"):
        show(Figure(figsize=size), alt="Too large.")


@pytest.mark.parametrize("control", [3, (1,), (1, 2, 3, 4), [], [1, 2], "dot", None])
def test_a_control_of_an_unknown_kind_is_refused(control):
    with pytest.raises(TypeError, match=r"a bool, or a list of words|scale"):
        explore(lambda scale: None, scale=control)


@pytest.mark.parametrize(("draw", "control"), [(lambda x=0: None, (1, 2)), (lambda x="mean": None, ["sum", "dot"])])
def test_a_start_outside_its_control_is_refused(draw, control):
    with pytest.raises(ValueError, match="starts at"):
        explore(draw, x=control)
