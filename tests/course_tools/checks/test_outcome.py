"""Answers that raise, return odd things or change their arguments: what is observed of them, and what a student reads."""

import re
from collections import namedtuple

import numpy as np
import pytest
import torch

from course_lib.attention import Attended, attend, attention_over_image, scaled_dot_product_attention
from course_lib.primitives import bptt_step, carousel_gradient, clip_gradients, lstm_step, rnn_step
from course_tools.bank import exercise, verdict
from course_tools.checks.outcome import observe
from tests.course_tools.bank.answers.unusual import failing, raises


@pytest.mark.parametrize(
    "error", [ValueError("no luck"), SystemExit(3), RuntimeError(), GeneratorExit("no luck"), StopIteration(), MemoryError()]
)
def test_an_answer_that_raises_is_refused_with_its_error_and_line(sample, error):
    found = verdict(sample.id, raises(error))
    assert (found.passed, found.points, found.misconception) == (False, 0, None)
    assert failing(found) == ["runs"]
    assert f"It raised {type(error).__name__} in the line `raise error`: {str(error) or 'without a message'}." in found.message


def test_an_error_is_placed_in_the_students_own_line_not_in_the_library():
    def answer(q, k, v, mask=None):
        return attend(q @ k.mT, v.mT, mask)

    message = verdict("04.1", answer).message
    assert "in the line `return attend(q @ k.mT, v.mT, mask)`" in message


def test_endless_recursion_is_an_error_like_any_other():
    def answer(forget_gates):
        return answer(forget_gates)

    assert "RecursionError" in verdict("01.5", answer).message


@pytest.mark.parametrize(
    "result",
    [None, "tensor", np.ones(3), 1.5, {"result": torch.ones(3)}, object(), torch.float32, torch.nn.Linear(2, 2), (), []],
)
def test_a_result_of_another_type_is_refused_in_words(sample, result):
    found = verdict(sample.id, lambda *inputs: result)
    assert (found.passed, found.misconception) == (False, None)
    if sample.id == "07.6" and isinstance(result, str):  # a text is asked for, but not this one
        assert failing(found)[0] == "zero-shot"
        return
    assert failing(found)[0] in ("runs", "shape")
    assert re.search(r"It returned None\.|should be (a tensor|of type)|It should return|should have shape", found.message)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.to_sparse(),
        lambda t: t.to("meta"),
        lambda t: t + 0j,
        lambda t: t.numpy(),
        lambda t: t.half(),
        torch.nn.Parameter,
    ],
)
def test_a_tensor_of_another_kind_is_judged_without_an_error(change):
    found = verdict("01.1", lambda *inputs: change(rnn_step(*inputs).detach()))
    assert not found.passed


@pytest.mark.parametrize(
    "broken",
    [
        lambda: torch.sparse_coo_tensor([[9], [9]], [1.0], (2, 3), check_invariants=False),
        lambda: torch.sparse_csr_tensor([0, 9, 1], [70000], [1.0], (2, 3), check_invariants=False),
        lambda: torch.sparse_csc_tensor([0, 9, 1, 1], [70000], [1.0], (2, 3), check_invariants=False),
    ],
    ids=["coo", "csr", "csc"],
)
def test_a_sparse_tensor_with_indices_outside_of_it_is_an_error_and_ends_no_process(broken):
    found = verdict("01.1", lambda *inputs: broken())
    assert failing(found) == ["runs"]
    assert "It raised RuntimeError" in found.message


def test_numbers_in_a_list_are_no_tensor():
    found = verdict("01.1", lambda *inputs: rnn_step(*inputs).tolist())
    assert failing(found)[0] == "shape"


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
        lambda t: torch.stack([t, t], dim=-1)[..., 0],
        lambda t: t.expand(2, *t.shape)[1],
    ],
    ids=["transposed", "strided", "expanded"],
)
def test_a_right_result_may_lie_anyhow_in_memory(change):
    for id, step in (("01.1", rnn_step), ("04.6", attention_over_image), ("01.5", carousel_gradient)):
        assert verdict(id, lambda *inputs, step=step: change(step(*inputs))).passed


def test_a_result_in_double_precision_loses_the_points_for_its_form_only():
    """Else the next cell, which multiplies it by the weights of a layer, fails deep in torch."""
    found = verdict("01.1", lambda *inputs: rnn_step(*inputs).double())
    assert (found.points, found.max_points) == (6, 7)
    assert "Your result is float64: return float32" in found.message


def test_several_results_may_come_in_any_tuple():
    Pair = namedtuple("Pair", "new_state new_cell")
    for kind in (tuple, list, lambda pair: Pair(*pair)):
        assert verdict("01.4", lambda *inputs, kind=kind: kind(lstm_step(*inputs))).passed
    assert verdict("04.1", lambda *inputs: tuple(scaled_dot_product_attention(*inputs))).passed
    assert verdict("01.2", lambda *inputs: list(bptt_step(*inputs))).passed
    assert verdict("01.3", lambda *inputs: tuple(clip_gradients(*inputs))).passed


def test_too_many_or_too_few_results_are_counted():
    found = verdict("04.1", lambda *inputs: scaled_dot_product_attention(*inputs).context)
    assert "One result is missing: return weights too." in found.message
    assert found.points < found.max_points
    found = verdict("04.1", lambda *inputs: ())
    assert "It should return 2 results (context, weights), but it returned 0 results" in found.message
    assert found.points == 0
    found = verdict("01.4", lambda *inputs: (*lstm_step(*inputs), None))
    assert "One result is too many: leave out result 3." in found.message
    found = verdict("01.4", lambda *inputs: (*lstm_step(*inputs), None, None))
    assert "It should return 2 results (h, c), but it returned 4 results" in found.message


def test_one_result_in_a_tuple_of_one_is_the_result():
    assert verdict("01.1", lambda *inputs: (rnn_step(*inputs),)).passed


@pytest.mark.parametrize("fields", [3, ("a", 3), ["a"]])
def test_a_list_with_odd_fields_is_a_list(fields):
    odd = type("Odd", (list,), {"_fields": fields})
    assert observe(lambda: odd([torch.ones(2)]), ()).names == ("result[0]",)


def test_a_nested_result_is_refused():
    assert not verdict("01.4", lambda *inputs: (lstm_step(*inputs),)).passed


def test_an_argument_changed_in_place_is_named_and_costs_a_point():
    def answer(x, h, W, U, b):
        b += 1
        return rnn_step(x, h, W, U, b - 1)

    found = verdict("01.1", answer)
    assert "inputs" in failing(found)
    assert "The call changes `b`" in found.message


def test_the_argument_whose_gradient_is_wrong_is_named():
    found = verdict("01.1", lambda x, h, W, U, b: rnn_step(x, h, W, U.detach(), b))
    assert failing(found) == ["gradient"]
    assert "The gradient with respect to `U` is wrong" in found.message


def test_arguments_have_the_names_of_the_function_or_numbers():
    x, y = torch.ones(2), [torch.ones(2), torch.ones(3)]
    named = observe(lambda first, rest: first.sum() + rest[1].sum(), (x, y), gradients=True)
    assert named.arguments == (("first", ("first",)), ("rest", ("rest[0]", "rest[1]")))
    assert [name for name, _ in observe(torch.relu, (x,)).arguments] == ["argument 1"]
    assert [name for name, _ in observe(lambda first, *rest: first, (x, x, x)).arguments] == [
        "first",
        "argument 2",
        "argument 3",
    ]


@pytest.mark.parametrize("change", [list.clear, list.reverse, lambda g: g.append(g[0]), lambda g: g.__setitem__(0, None)])
def test_a_list_of_arguments_changed_in_place_is_noticed(change):
    def answer(gradients, max_norm):
        clipped = clip_gradients(gradients, max_norm)
        if gradients:
            change(gradients)
        return clipped

    assert failing(verdict("01.3", answer)) == ["inputs"]


@pytest.mark.parametrize("cut", [lambda t: t.detach(), lambda t: t.data, lambda t: torch.tensor(t.tolist())])
def test_a_result_cut_from_its_inputs_earns_all_but_the_gradient(cut):
    found = verdict("02.2", lambda q, k, W: cut(q @ W @ k.mT))
    assert failing(found) == ["gradient"]
    assert found.points == found.max_points - 1
    assert "No gradient reaches the inputs" in found.message


def test_a_result_without_gradient_mode_is_cut_too():
    def answer(q, k, W):
        with torch.no_grad():
            return q @ W @ k.mT

    assert failing(verdict("02.2", answer)) == ["gradient"]


def test_an_answer_cannot_change_results_it_has_returned():
    buffer = {}

    def answer(*inputs):
        result = rnn_step(*inputs)
        buffer.setdefault(result.shape, torch.zeros_like(result)).copy_(result)
        return buffer[result.shape]

    assert "shape" not in failing(verdict("01.1", answer))


@pytest.mark.parametrize("answer", [None, 3, "rnn_step", torch.ones(2), Attended(torch.ones(1), None), [rnn_step]])
def test_what_is_no_function_is_refused_with_a_word_on_its_type(answer):
    found = verdict("01.1", answer)
    assert (found.passed, found.points, found.misconception) == (False, 0, None)
    assert f"Expected a function (its name, without parentheses), got a value of type {type(answer).__name__}." in found.message


@pytest.mark.parametrize("answer", [lambda: 1, lambda x, h: x, lambda x, h, W, U, b, c: x])
def test_a_wrong_number_of_parameters_is_named(answer):
    found = verdict("01.1", answer)
    assert failing(found) == ["runs"]
    assert "TypeError" in found.message
    assert "positional argument" in found.message
    assert found.misconception is None


@pytest.mark.parametrize(
    ("answer", "shared"),
    [
        (lambda x, pair: (x, x.clone(), pair[1].T), (0, 2)),
        (lambda x, pair: x + 1, ()),
        (lambda x, pair: [pair[0][1:], torch.empty(0), 3], (0,)),
    ],
)
def test_results_that_are_the_callers_own_are_known(answer, shared):
    assert observe(answer, (torch.ones(3), [torch.ones(2), torch.ones(2, 3)])).shared == shared


@pytest.mark.parametrize("id", ["01.3", "16.5"])
def test_a_promise_of_new_tensors_is_graded(id):
    (own,) = [wrong for wrong in exercise(id).wrong if wrong.__name__.startswith("hands_")]
    assert failing(verdict(id, own)) == ["inputs"]
