"""`check`: what a notebook gets back from it, and what it prints outside a kernel."""

import importlib
import inspect
import re
from inspect import unwrap
from pathlib import Path
from typing import get_type_hints

import pytest
import torch

from course_lib.attention import LocalAttention, scaled_dot_product_attention, split_heads
from course_lib.primitives import rnn_step
from course_tools.bank import UnknownExercise, exercise, exercises
from course_tools.notebook import check, failing
from course_tools.notebook.answer_lookup import NamedAnswer
from tests.course_tools.bank.answers.unusual import raises

check_module = importlib.import_module("course_tools.notebook.check")


def test_a_right_answer_comes_back_itself(sample, capsys):
    for right in sample.right:
        assert unwrap(check(sample.id, right)) is unwrap(right)
    assert capsys.readouterr().out == f"{sample.id} {sample.title}: {sample.points} of {sample.points} points. Right.\n" * len(
        sample.right
    )


@pytest.mark.parametrize("kind", [tuple, list])
def test_results_without_names_get_those_of_the_library(kind, capsys):
    """A layer of the library, and the cells of a lecture, read `.context` of a mechanism."""
    right = exercise("10.4").right[0]
    mine = check("10.4", lambda *inputs, **options: kind(right(*inputs, **options)))
    layer = LocalAttention(3, 8, n_heads=2, size=3, mechanism=mine)
    assert layer(torch.randn(2, 3, 5, 7)).context.shape == (2, 8, 5, 7)
    assert check("10.4", mine) is mine
    assert capsys.readouterr().out.count("10.4 Local attention: 12 of 12 points. Right.") == 2


def test_the_kind_of_each_result_with_names_is_found_in_the_annotation():
    for each in (each for each in exercises() if each.training is None):
        results = each.reference(*each.calls(each.properties[0], 0)[0])
        if hasattr(results, "_fields"):
            assert get_type_hints(unwrap(each.reference))["return"] is type(results), each.id


def test_for_a_wrong_answer_the_reference_comes_back_and_its_misconception_is_printed(sample, capsys):
    for wrong in sample.wrong:
        assert unwrap(check(sample.id, wrong)) is unwrap(sample.reference)
        printed = capsys.readouterr()
        assert " ".join(wrong.__doc__.split()) in printed.out
        assert printed.err == ""


@pytest.mark.parametrize("answer", [raises(NotImplementedError()), raises(SystemExit()), None, 3])
def test_no_wrong_answer_raises(answer, capsys):
    assert check("01.1", answer).__wrapped__ is rnn_step
    assert capsys.readouterr().err == ""


def test_an_empty_exercise_says_how_to_begin(capsys):
    check("01.1", raises(NotImplementedError()))
    assert "Not started yet: replace `raise NotImplementedError()` with your own code." in capsys.readouterr().out


def test_an_unknown_exercise_raises_and_names_those_that_come_near(capsys):
    with pytest.raises(UnknownExercise, match=r"there is no exercise '04\.9'; did you mean 04\."):
        check("04.9", rnn_step)
    assert capsys.readouterr().out == ""


def test_one_exercise_is_found_by_its_id(sample):
    assert exercise(sample.id) is sample
    assert sample.lecture == sample.id[:2]


def test_a_check_repeats_its_verdict_and_never_judges_its_own_stand_in(capsys):
    name = check("01.1", lambda x, h, W, U, b: torch.tanh(x @ W.mT + h @ U.mT))
    first = capsys.readouterr().out
    for _ in range(3):
        name = check("01.1", name)
        again = capsys.readouterr().out
        assert again.startswith(first)
        assert "run its cell again" in again
        assert "Right." not in again


def test_an_imported_function_of_the_library_is_not_taken_for_an_answer(capsys):
    """A restart leaves the library's function under the name of an exercise whose cell has not run again."""
    stand_in = check("01.1", NamedAnswer("rnn_step", lambda: rnn_step))
    printed = capsys.readouterr().out
    assert "0 of 7 points" in printed
    assert "`rnn_step` is still the library's: run the cell above, which defines your own." in printed
    assert unwrap(stand_in) is unwrap(rnn_step)


def without_bias(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT)


def with_bias(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT + b)


def corners_in_thousandths(boxes):
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return 1000 * torch.cat([centre - half, centre + half], dim=-1)


def test_a_right_answer_that_calls_the_librarys_function_earns_nothing(capsys):
    """Graded, it could not call it."""
    wrappers = [
        ("04.4", lambda x, n_heads: split_heads(x, n_heads)),
        ("01.1", lambda *inputs: rnn_step(*inputs)),
        ("12.1", lambda boxes: exercise("12.1").reference(boxes)),
    ]
    for id, answer in wrappers:
        stand_in = check(id, answer)
        printed = capsys.readouterr().out
        assert f"0 of {exercise(id).points} points" in printed
        assert f"It calls {exercise(id).reference.__name__}: it is the library's own answer" in printed
        assert unwrap(stand_in) is unwrap(exercise(id).reference)


def test_a_stand_in_works_as_the_librarys_function_but_not_inside_an_answer_to_its_exercise(capsys):
    stand_in = check("01.1", raises(ValueError("wrong")))
    inputs = [torch.ones(*shape) for shape in ((2, 3), (2, 5), (5, 3), (5, 5), (5,))]
    assert torch.equal(stand_in(*inputs), rnn_step(*inputs))
    capsys.readouterr()
    check("01.1", lambda *inputs: stand_in(*inputs))
    assert "run the cell with your own function again" in capsys.readouterr().out


def test_the_failing_input_comes_back(capsys):
    def answer(x, h, W, U, b):
        return torch.tanh(x @ W.mT + h @ U.mT)

    check("01.1", answer)
    found = failing("01.1")
    torch.testing.assert_close(answer(*found.inputs), found.result)
    torch.testing.assert_close(rnn_step(*found.inputs), found.expected)
    assert not torch.allclose(found.result, found.expected)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("id", "answer"),
    [
        ("01.1", lambda x, h, W, U, b: torch.tanh(x @ W.mT + h @ U.mT)),
        ("01.5", lambda forget_gates: forget_gates.sum(0)),
        ("04.1", lambda q, k, v, mask=None: scaled_dot_product_attention(q, k, v)),
        ("04.5", exercise("04.5").wrong[0]),
    ],
)
def test_three_lines_rebuild_the_failing_input(id, answer, capsys):
    check(id, answer)
    capsys.readouterr()
    found = failing(id)
    found.code()
    lines = capsys.readouterr().out
    assert len(lines.splitlines()) == 3
    names = {}
    exec(lines, names)
    parameters = list(inspect.signature(exercise(id).reference).parameters)[: len(found.inputs)]
    for name, given in zip(parameters, found.inputs, strict=True):
        assert torch.equal(torch.as_tensor(names[name]), torch.as_tensor(given))


def test_the_inputs_of_a_variant_are_not_said_to_be_those_of_the_usual_convention(capsys):
    check("01.5", lambda forget_gates: forget_gates.sum(0), variant="time last")
    failing("01.5").code()
    assert "exercise(" not in capsys.readouterr().out.splitlines()[-1]


def test_without_a_failing_input_there_is_none_to_give(capsys):
    check("01.1", rnn_step)
    capsys.readouterr()
    with pytest.raises(ValueError, match="run its check first"):
        failing("01.1")


def test_what_an_answer_prints_is_shown_and_capped(capsys):
    def answer(*inputs):
        print("shape", tuple(inputs[0].shape))
        return with_bias(*inputs)

    assert check("01.1", answer) is answer
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Your function printed:"
    assert lines[2].startswith("shape (")
    assert len(lines) <= 23
    check("01.1", rnn_step)
    assert "printed" not in capsys.readouterr().out


def hints_offered(answers, capsys):
    """The numbers of the hints that a new student is offered, None where it is none, answer by answer."""
    for state in (check_module._failures, check_module._n_hints):
        state.clear()
    found = []
    for answer in answers:
        check("01.1", answer)
        offered = re.search(r"^It fails in the same way as before\. Hint (\d): (.*)$", capsys.readouterr().out, re.MULTILINE)
        assert offered is None or offered[2] == exercise("01.1").hints[int(offered[1]) - 1]
        found.append(offered and int(offered[1]))
    return found


def test_the_third_answer_that_fails_in_the_same_way_is_offered_the_next_hint(capsys):
    assert hints_offered([without_bias] * 12, capsys) == [None, None, 1, None, None, 2, None, None, 3, None, None, None]


def test_answers_that_fail_in_different_ways_get_no_hint(capsys):
    assert (
        hints_offered([without_bias, without_bias, raises(ValueError("no")), without_bias, without_bias], capsys) == [None] * 5
    )


def test_a_right_answer_an_empty_one_and_a_check_repeated_do_not_count(capsys):
    empty = raises(NotImplementedError())
    assert hints_offered([without_bias, without_bias, rnn_step, without_bias, without_bias], capsys) == [None] * 5
    assert hints_offered([empty] * 4, capsys) == [None] * 4
    stand_in = check("01.1", without_bias)
    assert hints_offered([stand_in] * 4, capsys) == [None] * 4


def test_a_right_answer_in_a_variant_comes_back_in_the_usual_convention_and_keeps_its_verdict(capsys):
    usual = exercise("12.1").reference
    name = check("12.1", corners_in_thousandths, variant="thousandths")
    first = capsys.readouterr().out
    assert "points. Right." in first
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.4]])
    torch.testing.assert_close(name(boxes), usual(boxes))
    assert check("12.1", name, variant="thousandths") is name
    assert capsys.readouterr().out == first
    stand_in = check("12.1", usual, variant="thousandths")
    assert unwrap(stand_in) is unwrap(usual)
    said = capsys.readouterr().out
    assert "points. Right." not in said
    note = "Judged in your variant: The corners are returned in thousandths of the image"
    assert note in said
    check("12.1", stand_in, variant="thousandths")
    assert note in (again := capsys.readouterr().out)
    assert "run its cell again" in again


def test_the_suspect_of_a_bug_hunt_is_not_judged_as_the_students_answer(capsys, monkeypatch):
    def suspect(x, h, W, U, b):
        return without_bias(x, h, W, U, b)

    remembered = []
    monkeypatch.setattr(check_module, "remember", lambda *event, **facts: remembered.append(event))
    assert hints_offered([without_bias, without_bias], capsys) == [None, None]
    stand_in = check("01.1", suspect)
    assert stand_in.__wrapped__ is rnn_step
    out = capsys.readouterr().out
    assert out.endswith("This version was made wrong on purpose. Your own function is checked in another cell.\n")
    check("01.1", NamedAnswer("suspect", lambda: stand_in))
    assert capsys.readouterr().out == out
    assert len(remembered) == 2  # those of the student's own two answers


def test_every_bug_hunt_defines_its_wrong_answer_under_the_name_that_a_check_knows():
    sources = sorted((Path(check_module.__file__).parents[2] / "authoring").glob("[0-9][0-9]_*.py"))
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    hunts = re.findall(r' bug="\w+"\n(.+?)\n# %%', text, re.DOTALL)
    assert len(hunts) >= len(sources)
    assert [hunt for hunt in hunts if f" as {check_module._SUSPECT}" not in hunt] == []
