"""A claim holds or fails in the open, and what it shows is the same on every machine."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from nbval.plugin import get_sanitize_patterns

from course_tools.bank import exercise
from course_tools.bank.controls import ClaimScores, conclusion
from course_tools.notebook.claim import ClaimFailed, claim, ledger

claims = sys.modules[claim.__module__]


@pytest.fixture(autouse=True)
def empty_ledger(monkeypatch):
    monkeypatch.setattr(claims, "_made", {})


@pytest.mark.parametrize("value", [0.95, 1, torch.tensor(0.95), np.float32(0.95), torch.tensor([0.95]).sum()])
def test_a_claim_that_holds_shows_its_value_and_its_threshold(value, capsys):
    claim("04.a", "it finds the key", value, at_least=0.9)
    assert re.fullmatch(r"✓ 04\.a it finds the key: measured (0\.95|1), at least 0\.9\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("value", "threshold", "words"),
    [
        (0.89, {"at_least": 0.9}, "at least 0.9"),
        (1.1e-3, {"at_most": 1e-3}, "at most 0.001"),
        (0.61, {"between": (0.4, 0.6)}, "between 0.4 and 0.6"),
        (0.39, {"between": (0.4, 0.6)}, "between 0.4 and 0.6"),
        (3, {"equals": 4}, "equals 4"),
        (float("nan"), {"at_least": 0}, "at least 0"),
        (float("inf"), {"at_least": 0}, "at least 0"),
        (float("-inf"), {"at_most": 0}, "at most 0"),
        (float("nan"), {"equals": float("nan")}, "equals nan"),
    ],
)
def test_a_false_claim_is_shown_and_raises(value, threshold, words, capsys):
    with pytest.raises(ClaimFailed, match="measured"):
        claim("04.b", "it holds", value, **threshold)
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    assert capsys.readouterr().out == f"✗ 04.b it holds: measured {shown}, {words}\n"
    assert claims._made["04.b"].holds is False


def test_a_long_claim_breaks_between_words_and_at_the_same_place_for_every_value(capsys):
    text = "the encoder that reads both directions finds the key more often than the one that reads only forwards"
    shown = []
    for value in (0.5, 0.123456, 1e-12):
        claim("04.e", text, value, at_most=0.9)
        shown.append(capsys.readouterr().out)
    assert all(len(line) <= 94 for line in "".join(shown).splitlines())
    assert shown[0].splitlines()[-1].strip() == "measured 0.5, at most 0.9"
    assert " ".join(shown[0].split()) == f"✓ 04.e {text}: measured 0.5, at most 0.9"
    patterns = get_sanitize_patterns((Path(__file__).parents[2] / "nbval_sanitize.cfg").read_text())
    for pattern, replacement in patterns:
        shown = [re.sub(pattern, replacement, text) for text in shown]
    assert len(set(shown)) == 1


@pytest.mark.parametrize(("value", "bound"), [(0.9, {"at_least": 0.9}), (0.9, {"at_most": 0.9}), (4, {"between": (4, 5)})])
def test_the_threshold_itself_holds(value, bound):
    claim("04.c", "on the edge", value, **bound)
    assert claims._made["04.c"].holds is True


@pytest.mark.parametrize("value", [(2, 3), [2, 3], torch.Size([2, 3]), torch.tensor([2, 3]), np.array([2, 3])])
def test_equals_compares_shapes_of_any_kind(value):
    claim("04.d", "the shape", value, equals=(2, 3))
    assert claims._made["04.d"].value == [2, 3]


@pytest.mark.parametrize("thresholds", [{}, {"at_least": 0, "at_most": 1}, {"between": (0, 1), "equals": 1}])
def test_exactly_one_threshold_is_needed(thresholds):
    with pytest.raises(ValueError, match="exactly one"):
        claim("04.e", "text", 0.5, **thresholds)


@pytest.mark.parametrize("value", [[0.5], "high", None, torch.tensor([0.5, 0.6])])
def test_a_bound_needs_one_number(value):
    with pytest.raises(TypeError, match="needs a single number"):
        claim("04.e", "text", value, at_least=0)


@pytest.mark.parametrize(("id", "text"), [("04.e", " "), ("", "text")])
def test_a_claim_needs_an_id_and_a_text(id, text):
    with pytest.raises(ValueError, match="needs an id and a text"):
        claim(id, text, 0.5, at_least=0)


def test_an_id_belongs_to_one_text_and_a_second_run_replaces_the_value():
    claim("04.f", "the loss falls", 0.5, at_most=1)
    claim("04.f", "the loss falls", 0.25, at_most=1)
    assert claims._made["04.f"].value == 0.25
    with pytest.raises(ValueError, match="already belongs"):
        claim("04.f", "the loss rises", 0.5, at_least=0)


def test_the_ledger_lists_every_claim_with_its_measured_value(capsys):
    claim("04.a", "first & foremost", 0.98765, at_least=0.9)
    with pytest.raises(ClaimFailed):
        claim("04.b", "second", False, equals=True)
    capsys.readouterr()
    ledger()
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "claim", "measured", "threshold"]
    assert first.split("  ")[:2] == ["✓", "04.a"]
    assert "0.9877" in first
    assert "at least 0.9" in first
    assert second.startswith("✗  04.b")
    assert "False" in second


def test_nbval_compares_a_claim_without_its_measured_value(capsys):
    config = (Path(__file__).parents[2] / "nbval_sanitize.cfg").read_text(encoding="ascii")

    def compared(value, **threshold):
        claim("04.a", "as measured, at most once", value, **threshold)
        line = capsys.readouterr().out
        for pattern, replacement in get_sanitize_patterns(config):
            line = re.sub(pattern, replacement, line)
        return line

    for threshold in ({"at_least": 0.5}, {"at_most": 0.9}, {"between": (0.5, 0.9)}):
        assert compared(0.75, **threshold) == compared(0.625, **threshold)
    assert compared(0.75, at_least=0.5) != compared(0.75, at_least=0.25)
    assert compared([1, 2], equals=[1, 2]) != compared([1, 3], equals=[1, 3])


def test_nbval_compares_no_conclusion_of_a_control():
    config = (Path(__file__).parents[2] / "nbval_sanitize.cfg").read_text(encoding="ascii")
    claimed = exercise("13.7").training.conclusion.args[0]
    outputs = []
    for rival in (0.5, 0.9):
        scored = claimed._replace(score=lambda measured, truth, rival=rival: ClaimScores(rival, 1.0))
        text = f"Right. {conclusion(scored, None, {'scores': ClaimScores(0.9, 1.0), 'guess': 0.1})} And more."
        for pattern, replacement in get_sanitize_patterns(config):
            text = re.sub(pattern, replacement, text)
        outputs.append(text)
    assert outputs == ["Right. COMPARISON And more."] * 2
