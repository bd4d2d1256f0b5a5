"""What a verdict says: unknown exercises, beginnings, partial credit, misconceptions, seeds."""

import importlib
import re

import pytest
import torch

from course_lib.attention import attend, multi_head_attention, scaled_dot_product_attention
from course_lib.generation import top_k
from course_lib.primitives import bptt_step, causal_mask, encode, lstm_step, rnn_step
from course_tools.bank import UnknownExercise, exercise, verdict
from course_tools.checks.judge_answer import is_same, with_values
from course_tools.checks.outcome import Outcome
from tests.course_tools.bank.answers.unusual import failing, raises
from tests.course_tools.judged import judged


@pytest.mark.parametrize(
    ("id", "near"), [("05.99", "05.9"), ("4.1", "04.1"), ("01-3", "01.3"), ("", "01.1"), ("attention", "01.1")]
)
def test_an_unknown_exercise_is_refused_with_ids_that_come_near(id, near):
    with pytest.raises(UnknownExercise, match=rf"^there is no exercise '{re.escape(id)}'; did you mean .*{near}"):
        verdict(id, rnn_step)
    assert issubclass(UnknownExercise, KeyError)


@pytest.mark.parametrize("id", ["04.9", "4.9", "04.11"])
def test_ids_of_the_same_lecture_are_suggested_before_others(id):
    with pytest.raises(UnknownExercise, match=r"did you mean 04\.\d, 04\.\d, 04\.\d\?$"):
        exercise(id)


@pytest.mark.parametrize("kind", [RuntimeError, IndexError, TypeError, ValueError])
def test_an_error_of_the_same_kind_alone_is_no_misconception(sample, kind):
    assert verdict(sample.id, raises(kind("of another cause"))).misconception is None


def test_an_empty_exercise_is_not_started(sample):
    found = verdict(sample.id, raises(NotImplementedError()))
    assert (found.passed, found.started, found.points, found.misconception) == (False, False, 0, None)
    assert "Not started yet" in found.message


def test_a_kernel_that_torch_lacks_is_an_error_of_an_answer_that_is_started():
    found = verdict("01.1", raises(NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")))
    assert found.started
    assert failing(found) == ["runs"]
    assert "not implemented for 'Bool'" in found.message


def test_a_mask_left_for_later_is_a_beginning():
    def answer(q, k, v, mask=None):
        if mask is not None:
            raise NotImplementedError
        return scaled_dot_product_attention(q, k, v)

    found = verdict("04.1", answer)
    assert found.started
    assert "mask" in failing(found)
    assert found.points == 8


@pytest.mark.parametrize(
    ("id", "answer", "points", "fails"),
    [
        ("04.1", lambda q, k, v, mask=None: scaled_dot_product_attention(q, k, v), 7, ["mask"]),
        ("02.4", lambda scores, values, mask=None: attend(scores, values), 5, ["mask"]),
        ("04.5", lambda *inputs: multi_head_attention(*inputs[:8]), 6, ["mask", "mask of heads"]),
        ("04.2", lambda T_q, T_k=None, device=None: causal_mask(T_q, T_q, device), 5, ["cached"]),
        ("01.4", lambda *inputs: (inputs[1], lstm_step(*inputs)[1]), 4, ["output", "input"]),
        ("01.2", lambda *inputs: (*bptt_step(*inputs)[:4], inputs[0].mean(0)), 5, ["bias"]),
        ("02.5", lambda *inputs: (encode(*inputs)[0], inputs[2]), 2, ["one step"]),
    ],
)
def test_an_answer_that_is_half_right_earns_the_points_of_that_half(id, answer, points, fails):
    found = verdict(id, answer)
    assert failing(found) == fails
    assert found.points == points < found.max_points


def test_what_needs_a_failing_property_is_skipped_and_earns_nothing():
    found = verdict("04.1", lambda q, k, v, mask=None: attend(q @ k.mT, v, mask))
    status = {finding.name: finding.status for finding in found.findings}
    assert status["scale"] == "fails"
    assert status["mask"] == "holds"
    assert status["large scores"] == status["batch"] == status["gradient"] == "skipped"
    assert found.points == sum(f.points for f in found.findings if f.status == "holds")


def test_a_failing_property_shows_its_smallest_input(asked):
    for wrong in asked.wrong:
        failed = [finding for finding in judged(asked.id, wrong).findings if finding.status == "fails"]
        assert all(finding.detail for finding in failed)
        failed = [finding for finding in failed if finding.name != "inputs used"]  # it is about all inputs together
        assert all(re.search(r"\w+ (\(|= )", finding.example) for finding in failed)


def test_where_both_are_infinite_there_is_no_difference_to_show():
    found = verdict("07.2", lambda logits, k: top_k(logits, k) + 1)
    shown = [finding.numbers for finding in found.findings if finding.numbers]
    assert shown
    assert not any("inf" in numbers for numbers in shown)


def test_the_same_seed_gives_the_same_verdict_even_of_a_random_answer():
    def answer(x, h, W, U, b):
        return torch.tanh(x @ W.mT + h @ U.mT + b) + torch.randn(h.shape)

    assert verdict("01.1", answer, 3) == verdict("01.1", answer, 3)


def test_another_seed_draws_other_inputs():
    def inputs_of(seed):
        seen = []

        def answer(*inputs):
            seen.append(inputs[0].flatten()[0].item())
            return rnn_step(*inputs)

        verdict("01.1", answer, seed)
        return seen

    assert inputs_of(0) == inputs_of(0)
    assert not set(inputs_of(0)) & set(inputs_of(1))


def test_a_reference_that_fails_is_reported_as_ours_and_not_as_the_students():
    asked = exercise("01.1")
    broken = type(asked)(**{**vars(asked), "reference": raises(ValueError("ours"))})
    judge = importlib.import_module("course_tools.checks.judge_answer").judge
    with pytest.raises(RuntimeError, match=r"the reference of 01\.1 fails its own property 'runs'"):
        judge(broken, rnn_step)


def test_a_function_among_the_arguments_is_called_by_its_name():
    """Not by where it lies in memory."""
    asked = exercise("15.4")
    messages = {verdict("15.4", wrong).message for wrong in asked.wrong}
    assert any("combine = average_heads" in message or "combine = merge_heads" in message for message in messages)
    assert not any("0x" in message for message in messages)


def test_an_input_is_written_out_only_if_it_is_short():
    assert with_values(torch.tensor([[1, 2], [3, 4]])) == "= [[1, 2], [3, 4]]"
    assert with_values(torch.zeros(0, dtype=torch.int64)) == "= []"
    assert with_values(torch.tensor(3)) == "= 3"
    assert with_values(torch.zeros(8_000, 0, dtype=torch.int64)) == "(8000, 0)"
    assert with_values(torch.zeros(2)) == "(2,)"


def test_the_order_of_a_set_in_the_words_of_an_error_does_not_count():
    """It is another one in the process of the sandbox."""

    def raised(words):
        return Outcome(None, error=ValueError(words))

    assert is_same(raised("Could not infer sizes for {'h', 'd'}"), raised("Could not infer sizes for {'d', 'h'}"))
    assert not is_same(raised("Could not infer sizes for {'h', 'd'}"), raised("Could not infer sizes for {'h', 'w'}"))
    assert not is_same(raised("expected 3, 4"), raised("expected 4, 3"))
