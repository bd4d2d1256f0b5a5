"""Points follow severity: a slip of packaging costs little and is named; an answer that ignores its inputs earns nothing."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.attention import attend, scaled_dot_product_attention, tiled_attention
from course_lib.primitives import causal_mask, lstm_step, rnn_step
from course_tools.bank import exercise, verdict
from course_tools.checks.comparisons import relative_error
from course_tools.checks.outcome import is_close
from tests.course_tools.judged import judged

CORRECT = scaled_dot_product_attention


def in_a_list(results):
    return [list(results)]


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (lambda r: (*r, r.weights.log()), "One result is too many: leave out result 3."),
        (lambda r: (r.context, r.weights.log(), r.weights), "One result is too many: leave out result 2."),
        (lambda r: (r.weights, r.context), "The results are in the wrong order: return them in the order (context, weights)."),
        (lambda r: tuple(t.detach().numpy() for t in r), "context should be a tensor, but it is a NumPy array."),
        (lambda r: tuple(t.detach().tolist() for t in r), "context should be a tensor, but it is a list."),
        (lambda r: r._asdict(), "It returns a dict: return only its values"),
        (lambda r: SimpleNamespace(**r._asdict()), "It returns an object of type SimpleNamespace: return what it holds"),
        (lambda r: (tuple(r),), "It returns a nested tuple"),
        (lambda r: tuple(t.half() for t in r), "context is correct up to rounding: it is torch.float16"),
        (lambda r: tuple(t.double() for t in r), "context is float64: return float32"),
        (lambda r: (r.context[..., None, :], r.weights), "context should have shape"),
    ],
    ids=["third", "between", "swapped", "numpy", "lists", "dict", "object", "nested", "half", "double", "extra axis"],
)
def test_a_slip_of_packaging_costs_a_point_or_two_and_is_named(package, words):
    found = verdict("04.1", lambda *inputs: package(CORRECT(*inputs)))
    assert not found.passed
    assert found.max_points - 2 <= found.points < found.max_points
    assert words in found.message


def test_a_wrong_result_beside_none_is_not_one_in_the_wrong_order():
    found = verdict("09.2", lambda theta, phi, g: (theta @ (phi.mT @ g) / theta.shape[-2], None))
    assert "You divide by the number of queries." in found.message
    assert "order" not in found.message


@pytest.mark.parametrize(("kept", "lost"), [("context", "weights"), ("weights", "context")])
def test_one_of_two_results_earns_at_most_half_and_the_missing_one_is_named(kept, lost):
    found = verdict("04.1", lambda *inputs: getattr(CORRECT(*inputs), kept))
    assert found.max_points / 3 <= found.points <= found.max_points / 2
    assert f"One result is missing: return {lost} too." in found.message
    assert "1 of 2 results earns at most 7 points." in found.message


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (lambda r: r.context, "One result is missing: return weights too, which is None."),
        (lambda r: (r.context, r.context), "weights should be None, but it is a tensor."),
    ],
)
def test_a_result_that_is_to_be_none_counts_little(package, words):
    found = verdict("19.2", lambda *inputs: package(tiled_attention(*inputs)))
    assert found.max_points - 2 <= found.points < found.max_points
    assert words in found.message


def test_a_result_that_is_none_is_a_missing_one():
    found = verdict("04.1", lambda *inputs: (CORRECT(*inputs).context, None))
    assert found.max_points / 3 <= found.points <= found.max_points / 2
    assert "weights is None: return it too." in found.message


def test_results_of_a_plain_tuple_are_named():
    found = verdict("01.4", lambda *inputs: lstm_step(*inputs)[::-1])
    assert "The results are in the wrong order: return them in the order (h, c)." in found.message


@pytest.mark.parametrize(("kept", "lost"), [(0, "c"), (1, "h")])
def test_of_two_results_of_one_shape_the_one_that_is_not_returned_is_missing(kept, lost):
    found = verdict("01.4", lambda *inputs: lstm_step(*inputs)[kept])
    assert f"One result is missing: return {lost} too." in found.message
    assert "is wrong" not in found.message


def test_a_list_of_tensors_is_stacked_along_the_axis_that_it_stands_for():
    found = verdict("04.4", lambda x, n_heads: list(x.chunk(n_heads, -1)))
    assert found.points == found.max_points - 2
    assert [f.name for f in found.findings if f.status != "holds"] == ["shape", "gradient"]
    assert "It returns a list: return one tensor (`torch.stack(…, -3)`)." in found.message


def test_a_slip_and_a_mistake_cost_both():
    slip = verdict("04.1", lambda *inputs: CORRECT(*inputs)[::-1])
    mistake = verdict("04.1", lambda q, k, v, mask=None: attend(q @ k.mT, v, mask))
    both = verdict("04.1", lambda q, k, v, mask=None: attend(q @ k.mT, v, mask)[::-1])
    assert 0 < both.points < min(slip.points, mistake.points)
    assert {"shape", "scale"} <= {f.name for f in both.findings if f.status == "fails"}


def test_a_float_mask_of_the_right_numbers_is_of_the_wrong_kind_only():
    found = verdict("04.2", lambda *inputs, **more: causal_mask(*inputs, **more).float())
    assert found.max_points - 2 <= found.points < found.max_points
    assert "should be bool, but it is torch.float32" in found.message


@pytest.mark.parametrize(
    ("id", "answer"),
    [
        (
            "04.1",
            lambda q, k, v, mask=None: (
                v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]),
                (q @ k.mT * 0).softmax(-1),
            ),
        ),
        ("01.1", lambda x, h, W, U, b: torch.zeros_like(h)),
        ("01.4", lambda x, h, c, W, U, b: (torch.zeros_like(h), torch.zeros_like(c))),
    ],
    ids=["plain average", "zeros", "two zeros"],
)
def test_an_answer_that_ignores_its_inputs_earns_nothing(id, answer):
    found = verdict(id, answer)
    assert found.points == 0
    assert "Its result does not depend on" in found.message


def test_the_order_of_severity():
    answers = (
        lambda *inputs: CORRECT(*inputs)[::-1],
        lambda q, k, v, mask=None: CORRECT(q, k, v),
        lambda q, k, v, mask=None: attend(q @ k.mT, v),
        lambda q, k, v, mask=None: (v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]), (q @ k.mT * 0).softmax(-1)),
    )
    points = [verdict("04.1", answer).points for answer in answers]
    assert points == sorted(points, reverse=True)
    assert len(set(points)) == len(points)


def test_no_right_answer_is_repaired(asked):
    assert judged(asked.id, asked.reference).points == asked.points


def test_integers_are_compared_by_value_and_not_by_width():
    assert is_close(torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32))
    assert not is_close(torch.tensor([1, 2]), torch.tensor([1, 3], dtype=torch.int32))
    assert not is_close(torch.tensor([1, 0]), torch.tensor([True, False]))


def test_a_small_error_is_called_rounding():
    def answer(*inputs):
        return rnn_step(*inputs) * (1 + 1e-3)

    found = verdict("01.1", answer)
    assert not found.passed
    assert "close to the expected values, but the difference is larger than rounding in float32" in found.message
    assert "is wrong" in verdict("01.1", lambda *inputs: rnn_step(*inputs) * 1.5).message


def test_the_relative_error_is_infinite_where_there_is_none():
    x = torch.tensor([1.0, torch.inf])
    assert relative_error(x, x.clone()) == 0
    assert relative_error(x, torch.tensor([1.0, 2.0])) == torch.inf
    assert relative_error(x, torch.tensor([1.0])) == torch.inf
    assert relative_error(torch.tensor([2.0, 4.0]), torch.tensor([2.0, 4.5])) == 0.125


def test_gradients_are_judged_in_float32_whatever_default_an_answer_sets():
    def answer(*inputs):
        result = lstm_step(*inputs)
        torch.set_default_dtype(torch.float64)
        return result

    assert verdict("01.4", answer).passed


def test_a_class_is_told_from_an_instance():
    class Step(torch.nn.Module):
        def forward(self, *inputs):
            return rnn_step(*inputs)

    assert "Expected a function, got the class `Step`. Pass an instance." in verdict("01.1", Step).message
    assert verdict("01.1", Step()).passed


def test_a_generator_is_told_by_its_type():
    def answer(*inputs):
        yield from lstm_step(*inputs)

    assert "it returned a generator: return a list, `[… for …]`, and no `yield`" in verdict("01.4", answer).message


def test_a_similar_mistake_is_only_suspected():
    """Two mistakes at once are not one that the bank knows."""

    def answer(q, k, v, mask=None):
        return attend(q @ k.mT, v)

    found = verdict("04.1", answer)
    assert found.misconception is None
    if found.suspected:
        assert f"Perhaps: {found.suspected}" in found.message
    known = {" ".join(wrong.__doc__.split()) for wrong in exercise("04.1").wrong}
    assert found.suspected in known | {None}
