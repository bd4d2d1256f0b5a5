"""The report of a check: its HTML, and what a real kernel shows of it."""

import re
from dataclasses import replace
from html import escape as html_of
from html.parser import HTMLParser

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.primitives import rnn_step
from course_tools.bank import exercise, exercises, verdict
from course_tools.checks.verdict_display import Hint, VerdictDisplay
from course_tools.notebook import check
from course_tools.publishing.source import FunctionSource
from tests.course_tools.bank.answers.unusual import raises
from tests.course_tools.conftest import SAMPLE
from tests.course_tools.judged import judged, misconception

VOID = {"br"}
NOT_STARTED = "def answer(*inputs):\n    raise NotImplementedError()"
NOISY = """
import sys, torch, warnings
from course_lib.primitives import rnn_step
def answer(x, h, W, U, b):
    print("seen"); print("seen", file=sys.stderr); warnings.warn("seen")
    return torch.tanh(x @ W.mT + h @ U.mT + b)
"""


def typed(wrong):
    """Return the source of a wrong answer, as a student would type it, below what its file imports and defines."""
    beside = (
        f"import {wrong.__module__} as bank\nglobals().update((k, v) for k, v in vars(bank).items() if not k.startswith('__'))"
    )
    return f"{beside}\n\n{FunctionSource.of(wrong).text()}\nanswer = {wrong.__name__}"


def html(id, answer):
    return VerdictDisplay(id, "A title", judged(id, answer))._repr_html_()


class Balanced(HTMLParser):
    """Reads HTML and notes tags that are closed out of order."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def outputs():
    """Run checks of typed answers in one real kernel: a wrong one of three exercises, then some others."""
    sources = {id: (id, typed(exercise(id).wrong[0])) for id in SAMPLE}
    sources |= {
        "right": ("01.1", "import torch\ndef answer(x, h, W, U, b):\n    return torch.tanh(x @ W.mT + h @ U.mT + b)"),
        "not started": ("01.1", NOT_STARTED),
        "noisy": ("01.1", NOISY),
    }
    cells = [
        f"{source}\nfrom course_tools.notebook import check\nanswer = check('{id}', answer)" for id, source in sources.values()
    ]
    cells += ["answer is rnn_step", "check('04.99', rnn_step)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True).execute()
    return dict(zip([*sources, "same", "unknown"], [cell.outputs for cell in notebook.cells], strict=True))


def test_in_a_kernel_a_wrong_answer_shows_its_misconception_and_its_points(sample, outputs):
    (output,) = outputs[sample.id]
    found = verdict(sample.id, sample.wrong[0])
    assert output.output_type == "execute_result"
    assert output.data["text/plain"] == f"{found.points}.0"
    shown = re.sub(r"<[^>]+>", "", output.data["text/html"])
    assert misconception(sample.wrong[0]).replace("`", "")[:40] in shown.replace("&quot;", '"').replace("&#x27;", "'")


def test_in_a_kernel_a_right_answer_shows_all_points_and_goes_on(outputs):
    (output,) = outputs["right"]
    assert output.data["text/plain"] == f"{exercises()[0].points}.0"
    assert "The lecture continues with your function." in output.data["text/html"]


def test_in_a_kernel_an_empty_exercise_is_not_started(outputs):
    (output,) = outputs["not started"]
    assert output.data["text/plain"] == "0.0"
    assert "not started" in output.data["text/html"]


def test_in_a_kernel_prints_of_an_answer_are_part_of_the_report(outputs):
    (output,) = outputs["noisy"]
    assert "Your function printed:" in output.data["text/html"]
    assert output.output_type == "execute_result"
    assert output.data["text/plain"] == f"{exercises()[0].points}.0"


def test_in_a_kernel_the_students_own_function_is_used_once_it_is_right(outputs):
    (output,) = outputs["same"]
    assert output.data["text/plain"] == "False"


def test_in_a_kernel_an_unknown_exercise_is_an_error_with_a_plain_text(outputs):
    (output,) = outputs["unknown"]
    assert (output.output_type, output.ename) == ("error", "UnknownExercise")
    assert output.evalue.startswith("there is no exercise '04.99'; did you mean 04.")


def test_the_html_of_every_report_is_well_formed(asked):
    for answer in (*asked.wrong, asked.reference, raises(NotImplementedError()), raises(ValueError("<b>&"))):
        parser = Balanced()
        parser.feed(html(asked.id, answer))
        assert (parser.open, parser.wrong) == ([], [])


def test_what_an_answer_says_is_escaped():
    shown = html("01.1", raises(ValueError("<script>alert('no & `no`')</script>")))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_report_names_each_property_with_its_points(asked):
    shown = html(asked.id, asked.wrong[0])
    for prop in asked.properties:
        assert re.search(rf"(</span> |: |, ){re.escape(html_of(prop.name))}(</td>|, |\.)", shown), prop.name
    found = judged(asked.id, asked.wrong[0])
    earned = re.findall(r">(\d+)/(\d+)<", shown)
    held = sum(int(points) for points, _ in earned)
    change = sum(finding.points for finding in found.findings if finding.status == "adjusts")
    assert found.points == held + change
    assert all(int(told) == found.points for told in re.findall(r"<div>(\d+) points, because [^<]*\.</div>", shown))
    assert sum(int(most) for _, most in earned) == found.max_points


def test_the_plain_text_of_a_report_is_the_points_as_a_float():
    assert repr(VerdictDisplay("01.1", "A title", verdict("01.1", rnn_step))) == f"{float(exercises()[0].points)}"


def test_outside_a_kernel_a_report_is_text(capsys):
    check("01.1", rnn_step)
    assert "<" not in capsys.readouterr().out


def test_properties_that_are_not_judged_share_one_row():
    shown = html("04.1", raises(NameError("name 'sofmax' is not defined")))
    assert shown.count("<tr>") == 2
    assert "10 more" in shown


def test_a_hint_is_folded_and_keeps_its_marks():
    hint = Hint(2, "Reduce the **first** axis, *and only* that one: `a * b` < 1, or `c * d`.")
    shown = VerdictDisplay("04.1", "t", verdict("04.1", raises(ValueError("no"))), hint=hint)._repr_html_()
    text = "Reduce the <b>first</b> axis, <em>and only</em> that one: <code>a * b</code> &lt; 1, or <code>c * d</code>."
    assert f"Open hint 2.</summary><p>{text}</p></details>" in shown


def test_a_diagnosis_shows_emphasis_and_code():
    named = "Not the *last* axis: `a * b`, and no *gradient*."
    shown = VerdictDisplay("04.1", "t", replace(verdict("04.1", raises(ValueError("no"))), misconception=named))._repr_html_()
    assert "Not the <em>last</em> axis: <code>a * b</code>, and no <em>gradient</em>." in shown


def test_of_a_planted_version_a_report_does_not_ask_for_a_right_one():
    wrong = exercises()[0].wrong[0]
    assert "the lecture uses the library's function" in html("01.1", wrong)
    shown = VerdictDisplay("01.1", "t", verdict("01.1", wrong), planted=True)._repr_html_()
    assert "the lecture uses the library's function" not in shown
    assert "This version was made wrong on purpose." in shown
    repaired = VerdictDisplay("01.1", "t", verdict("01.1", rnn_step), planted=True)._repr_html_()
    assert "Right. This version is repaired." in repaired
    assert "continues with your function" not in repaired
