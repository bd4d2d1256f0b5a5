"""A claim is a sentence with its measured values; it holds or fails in the open."""

import contextlib
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from nbval.plugin import get_sanitize_patterns

from course_tools.bank import exercise
from course_tools.bank.controls import ClaimScores, conclusion
from course_tools.notebook import claim_statements, progress_record
from course_tools.notebook.claim import STRICT, ClaimFailed, claim, in_words, ledger, measured, output_of
from course_tools.notebook.own_functions import _names_behind
from tests.course_tools.conftest import ROOMS

claims = sys.modules[claim.__module__]
SANITIZE = (Path(__file__).parents[2] / "nbval_sanitize.cfg").read_text(encoding="ascii")


@pytest.fixture(autouse=True)
def own_statements(monkeypatch):
    monkeypatch.setattr(claims, "_made", {})
    monkeypatch.setattr(claim_statements, "FOLDER", ROOMS)


def test_a_claim_shows_its_sentence_with_ranges_of_the_seeds_and_its_bounds(capsys):
    claim("04.positions", positions=[0.96, 0.983, 0.97], zero=[0.07])
    assert capsys.readouterr().out == (
        "✓ 04.positions With `positions`, 0.96 to 0.983 are right; without, 0.07. "
        "| min(positions) at least 0.85; min(positions) - max(zero) at least 0.4\n"
    )


def test_what_was_repeated_is_named(monkeypatch):
    shown = []
    monkeypatch.setattr(claims, "publish", lambda bundle, metadata: shown.append(bundle["text/html"]))
    of_draws = claim_statements.ClaimStatement("04.draws", "{right} are right.", ("min(right) > 0",), "draws of labels")
    monkeypatch.setattr(claims, "statement", lambda id: of_draws)
    claim("04.draws", right=[0.5, 0.6, 0.7])
    assert "3 draws of labels" in shown[0]
    assert "seeds" not in shown[0]


def test_the_numbers_of_repetitions_are_named_in_one_order(monkeypatch):
    shown = []
    monkeypatch.setattr(claims, "publish", lambda bundle, metadata: shown.append(bundle["text/html"]))
    of_two = claim_statements.ClaimStatement("04.two", "{few} and {many} are right.", ("min(few) > 0", "min(many) > 0"))
    monkeypatch.setattr(claims, "statement", lambda id: of_two)
    few, many = [0.5, 0.6], [0.5, 0.6, 0.7]
    claim("04.two", many=many, few=few)
    claims._made.clear()
    claim("04.two", few=few, many=many)
    assert "2 and 3 seeds" in shown[0]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(("answer", "said"), [("0.3", " You said 0.3."), (None, "")])
@pytest.mark.parametrize("live", [True, False])
def test_a_student_who_predicted_the_number_reads_it_in_a_live_notebook_only(answer, said, live, monkeypatch, tmp_path):
    shown = []
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.jsonl"))
    monkeypatch.setattr(progress_record, "in_notebook", lambda: True)
    monkeypatch.setattr(progress_record, "watched", lambda: True)
    if answer:
        progress_record.remember("prediction", "01.p3", choice=answer, right=True)
    monkeypatch.setattr(progress_record, "watched", lambda: live)
    monkeypatch.setattr(claims, "publish", lambda bundle, metadata: shown.append((bundle, metadata["course_claim"])))
    kept = claim_statements.ClaimStatement("01.kept", "It keeps {kept}.", ("kept > 0",), predicted="01.p3")
    monkeypatch.setattr(claims, "statement", lambda id: kept)
    claim("01.kept", kept=0.5)
    said *= live
    assert shown[0][0]["text/plain"].startswith(f"✓ 01.kept It keeps 0.5.{said} | ")
    assert f'<b class="measured">0.5</b>.{said}</div>' in shown[0][0]["text/html"]
    assert "You said" not in shown[0][1]["text"]


@pytest.mark.parametrize("value", [0.995, 1, torch.tensor(0.995), np.float32(0.995), torch.tensor([0.995])])
def test_numbers_of_any_kind_are_measured_values(value, capsys):
    claim("04.a", total=value)
    assert re.fullmatch(r"✓ 04\.a The rows \| of weights sum to (0\.995|1)\. \| at least 0\.99\n", capsys.readouterr().out)


@pytest.mark.parametrize("value", [(2, 3), [2, 3], torch.Size([2, 3]), torch.tensor([2, 3]), np.array([2, 3])])
def test_a_shape_equals_a_list(value):
    claim("04.shape", shape=value)
    with pytest.raises(ClaimFailed):
        claim("04.shape", shape=(3, 2))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (0.123456, "0.123"),
        (3.2e-7, "3.2e-07"),
        (9_834_496, "9,834,496"),
        (1234.56, "1,235"),
        ([2, 3], "2 to 3"),
        ([0.5, 0.5001], "0.5"),
        ([True, False], "(yes, no)"),
        ("key", "key"),
        (float("nan"), "nan"),
    ],
)
def test_values_in_words(value, words):
    assert in_words(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "100 %"), (0.99988, "100 %"), (0.0042, "0.42 %"), ([0.12, 0.131], "12 to 13.1 %"), ([1.0, 1.0], "100 %")],
)
def test_a_share_is_shown_in_per_cent(value, words):
    assert in_words(value, "%") == words.replace(" %", "\N{NO-BREAK SPACE}%")
    stated = claim_statements.ClaimStatement("04.share", "{right:%} are right, with {n} heads.", ("right > 0",))
    assert stated.filled({"right": "1", "n": "2"}) == "1 are right, with 2 heads."
    assert stated.forms == {"right": "%", "n": ""}


def test_each_number_of_a_list_is_shown_where_the_sentence_asks_for_it():
    assert in_words([2, 3], "each") == "(2, 3)"


@pytest.mark.parametrize("share", [0.39, 0.61, float("nan"), float("inf"), -float("inf")])
def test_a_claim_that_does_not_hold_is_shown_and_raises(share, capsys):
    with pytest.raises(ClaimFailed, match=r"between 0\.4 and 0\.6"):
        claim("04.between", share=share)
    assert capsys.readouterr().out == f"✗ 04.between Share {in_words(share)}. | between 0.4 and 0.6\n"
    assert claims._made["04.between"]["held"] is False


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_the_bound_itself_holds(share):
    claim("04.between", share=share)
    assert claims._made["04.between"]["held"] is True


def test_words_and_truth_values():
    claim("04.word", word="key", same=True)
    with pytest.raises(ClaimFailed):
        claim("04.word", word="key", same=False)
    with pytest.raises(ClaimFailed):
        claim("04.word", word="value", same=True)


@pytest.mark.parametrize(
    ("id", "values", "message"),
    [
        ("04.a", {}, "needs total=…"),
        ("04.a", {"total": 1, "more": 2}, "is given more, which neither `says` nor `holds` names"),
        ("04.between", {"share": [0.5, 0.5]}, "does not fit its values .* compare min or max"),
        ("04.nowhere", {}, r"lecture_04/claims.toml has no \[nowhere\]"),
        ("04.betwen", {}, "similar names there: between"),
        ("4.a", {}, "such as \"05.m\"; got '4.a'"),
        ("99.a", {}, "there is no course_tools/lectures/lecture_99/claims.toml"),
    ],
)
def test_what_does_not_fit_its_statement_is_refused_with_what_to_do(id, values, message):
    with pytest.raises(ValueError, match=message):
        claim(id, **values)


def test_running_a_cell_again_replaces_its_claim_and_the_ledger_lists_each(capsys):
    claim("04.a", total=1.0)
    claim("04.a", total=0.9912)
    with pytest.raises(ClaimFailed):
        claim("04.between", share=0.98765)
    capsys.readouterr()
    ledger()
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.endswith(" must hold")
    assert first.split("  ")[:2] == ["✓", "04.a"]
    assert "0.991" in first
    assert first.endswith("at least 0.99")
    assert second.startswith("✗  04.between")


def test_nbval_compares_id_sign_and_bounds_of_a_claim_and_not_its_values(capsys):
    def compared(id, **values):
        with contextlib.suppress(ClaimFailed):
            claim(id, **values)
        shown = capsys.readouterr().out
        shown += output_of(measured(id, values))["text/html"]
        for pattern, replacement in get_sanitize_patterns(SANITIZE):
            shown = re.sub(pattern, replacement, shown)
        return shown

    assert compared("04.a", total=1.0) == compared("04.a", total=0.9912)
    assert compared("04.a", total=1.0) != compared("04.a", total=0.5)
    assert "04.a" in compared("04.a", total=1.0)


def test_nbval_compares_no_conclusion_of_a_control():
    claimed = exercise("09.7").training.conclusion.args[0]
    outputs = []
    for rival in (0.5, 0.9):
        scored = claimed._replace(score=lambda measured, truth, rival=rival: ClaimScores(rival, 1.0))
        text = f"Right. {conclusion(scored, None, {'scores': ClaimScores(0.9, 1.0), 'guess': 0.1})} And more."
        for pattern, replacement in get_sanitize_patterns(SANITIZE):
            text = re.sub(pattern, replacement, text)
        outputs.append(text)
    assert outputs == ["Right. COMPARISON And more."] * 2


STUDENT = [
    f"from pathlib import Path\nfrom course_tools.notebook import claim, claim_statements\n"
    f"claim_statements.FOLDER = Path({str(ROOMS)!r})\n"
    "from course_tools.notebook.own_functions import accept\n"
    "def double(x):\n    return 2 * x\n"
    "accept('04.1', double)",
    "class Model:\n    def __call__(self):\n        return double(0.1)\nmodel = Model()",
    "found = []\nfor _ in range(2):\n    found.append(model())",
    "share = max(found)",
]


def test_a_name_that_is_local_to_a_function_leads_to_no_function_of_the_student():
    cells = [
        "def double(x):\n    return 2 * x",
        "def show(rows):\n    share = [double(row) for row in rows]\n    return share",
        "class Model:\n    def step(self):\n        share = double(1)\n        self.share = share",
        "share = 0.1",
        "def read():\n    return share",
    ]
    assert "double" not in _names_behind("claim('04.between', share=share)", cells, set())
    assert "double" in _names_behind("claim('04.between', share=show(rows)[0])", cells, set())
    assert "share" in _names_behind("claim('04.between', share=read())", cells, set())


@pytest.mark.parametrize(
    ("last", "strict", "raises"),
    [
        ("claim('04.between', share=share)", False, False),
        ("claim('04.between', share=share)", True, True),
        ("claim('04.between', share=0.1)", False, True),
    ],
)
def test_a_claim_that_fails_by_the_students_function_names_it_and_the_notebook_goes_on(last, strict, raises, monkeypatch):
    monkeypatch.delenv(STRICT, raising=False)
    if strict:
        monkeypatch.setenv(STRICT, "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (*STUDENT, last)])
    NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True).execute()
    shown, *errors = notebook.cells[-1].outputs
    assert [error.ename for error in errors] == ["ClaimFailed"] * raises
    assert ("your <code>double</code> of exercise 04.1" in shown.data["text/html"]) is not raises
    assert shown.metadata["course_claim"]["held"] is False
