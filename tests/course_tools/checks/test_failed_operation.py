"""Answers that crash are named by the operation that fails and its operands, not by the words of torch."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import scaled_dot_product_attention
from course_tools.bank import exercise, verdict
from course_tools.checks.common_crash import KINDS
from course_tools.checks.failed_operation import failed_operation
from tests.course_tools.judged import misconception


def failed(call):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
        call()
    return failed_operation(call, caught.value)


def told(id, answer):
    found = verdict(id, answer)
    return found.misconception or found.suspected


def named(id, name):
    return misconception(next(wrong for wrong in exercise(id).wrong if wrong.__name__ == name))


X, W = torch.randn(5, 3), torch.randn(7, 5)


def test_a_product_is_one_operation_however_it_is_written():
    written = [lambda: X @ W, lambda: torch.mm(X, W), lambda: X.matmul(W), lambda: F.linear(X, W.mT)]
    first, *others = map(failed, written)
    assert first.name == "matmul"
    assert all(first.is_same(other, same_words=True) for other in others)


def test_the_order_of_a_sum_does_not_matter_and_that_of_a_product_of_matrices_does():
    assert failed(lambda: X + W).is_same(failed(lambda: W + X), same_words=False)
    assert not failed(lambda: X @ W).is_same(failed(lambda: W.mT @ X.mT @ X @ X), same_words=False)


def test_other_numbers_of_the_same_sizes_are_other_operands():
    assert not failed(lambda: X + W).is_same(failed(lambda: X.square() + W), same_words=True)


def test_an_error_in_unpacking_belongs_to_what_is_unpacked():
    def unpack(tensor):
        a, b, c = tensor.shape
        return a, b, c

    assert failed(lambda: unpack(X)).name == "shape"
    assert failed(lambda: unpack(X)).is_same(failed(lambda: unpack(W)), same_words=True)
    assert not failed(lambda: unpack(X)).is_same(failed(lambda: unpack(X[0])), same_words=True)


def test_what_is_written_over_counts_and_not_by_which_operation():
    def writes(h, into):
        h = h.clone().requires_grad_()
        into(h)

    by_slice = failed(lambda: writes(X, lambda h: h[..., 0::2].copy_(h[..., 1:2])))
    assert by_slice.is_same(failed(lambda: writes(X, lambda h: h.mul_(2))), same_words=False)
    assert not by_slice.is_same(failed(lambda: writes(W, lambda h: h.mul_(2))), same_words=False)


def test_an_operand_that_cannot_be_read_costs_no_verdict():
    """Inside `torch.vmap`, a tensor has values only until the error is raised."""

    def answer(x, h, W, U, b):
        return torch.vmap(lambda x, h: torch.tanh(x @ W + h @ U + b))(x, h)

    assert told("01.1", answer) == KINDS["not transposed"].text


def test_an_error_of_python_has_no_operation():
    assert failed(lambda: [X.sum()][3]) is None


def test_a_crash_in_another_operation_with_the_same_words_is_not_named_alike():
    """18.3: the words are those of a β without an axis, and of a key that is multiplied with an error."""

    def compares_with_the_key(S, q, k, v, beta, log_decay=None):
        S = S if log_decay is None else log_decay.exp()[..., None, None] * S
        S = S + k[..., :, None] * (beta[..., None] * (v - k))[..., None, :]
        return (q[..., None, :] @ S)[..., 0, :], S

    assert told("18.3", compares_with_the_key) is None


def test_the_same_slip_in_another_line_is_named():
    def answer(x, h, W, U, b):
        return torch.tanh(b + x.matmul(W) + h.mm(U))

    assert told("01.1", answer) == named("01.1", "does_not_transpose_the_matrices")


def test_an_error_in_a_special_case_is_compared_too():
    """01.1: another input is written over; 01.5: the product of no gates fails elsewhere."""

    def writes_over_x(x, h, W, U, b):
        x *= 1.0
        x += 1e-9
        return torch.tanh(x @ W.mT + h @ U.mT + b)

    def concatenates_the_gates(forget_gates):
        return torch.stack(list(forget_gates)).prod(0)

    assert told("01.1", writes_over_x) != named("01.1", "overwrites_the_state")
    assert told("01.5", concatenates_the_gates) == KINDS["empty"].text  # what fails is named, and not that of the bank


def test_an_answer_that_counts_on_a_number_of_axes_is_told_how_many_there_are():
    def answer(q, k, v, mask=None):
        B, T, d = q.shape
        return scaled_dot_product_attention(q.reshape(B, T, d), k, v, mask)

    assert "to unpack (expected 3). The tensor has 4 axes here" in verdict("04.1", answer).message


def test_what_a_repeated_call_prints_is_not_shown_twice():
    def answer(x, h, W, U, b):
        print("shapes", x.shape)
        return x @ W

    assert verdict("01.1", answer).printed.count("shapes") == 1
