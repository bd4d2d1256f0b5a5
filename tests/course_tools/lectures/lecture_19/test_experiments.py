"""Numbers are counted as the lecture says, and the test of a law tells a right rule from a wrong one."""

import pytest
import torch

from course_lib.attention import scaled_dot_product_attention, tiled_attention
from course_lib.generation import accept, speculative
from course_lib.generation.known_language import known_draft, known_model
from course_tools.lectures.lecture_19 import experiments


def test_the_largest_tensor_at_once_is_the_table_of_weights():
    q, k, v = torch.randn(3, 67, 5)
    context, n = experiments.largest_tensor(scaled_dot_product_attention, q, k, v)
    in_tiles, less = experiments.largest_tensor(tiled_attention, q, k, v, None, 8)
    torch.testing.assert_close(context, in_tiles)
    assert (n, less) == (67 * 67, 67 * 8)


def test_numbers_moved_by_hand():
    """Two blocks of two queries: Q and C pass once, K and V twice."""
    assert experiments.moved_at_once(4, 1).numbers == 4 * 16 + 4 * 4
    assert experiments.moved_in_tiles(4, 1, rows=2).numbers == 2 * 4 + 2 * 2 * 4


def test_a_right_rule_passes_and_a_wrong_one_does_not():
    torch.manual_seed(0)
    p, q = torch.randn(2, 7).softmax(-1)
    tokens, accepted = experiments.first_tokens(accept, p, q, 50_000)
    found, freedom = experiments.chi_squared(tokens, p)
    assert freedom == 6
    assert found < 25
    assert accepted == pytest.approx(1 - (p - q).abs().sum().item() / 2, abs=0.01)
    assert experiments.chi_squared(torch.multinomial(q, 50_000, replacement=True), p)[0] > 500


def test_a_recorded_generator_says_what_the_model_wrote():
    torch.manual_seed(0)
    recorded = experiments.Recorded(known_model, known_draft)
    text, calls = speculative(recorded.model, recorded.draft, torch.tensor([[0, 1]]), 30, 3)
    own = recorded.of_the_model(text.shape[-1])
    assert recorded.calls == calls == len(own)
    assert own[-1] == 31
    assert all(1 <= b - a <= 4 for a, b in zip([1, *own], own, strict=False))


def test_forms_are_timed_as_they_are_and_threads_are_left_as_they_were():
    q, k, v = torch.randn(3, 67, 5)
    before, called = torch.get_num_threads(), []

    def form(*inputs):
        called.append((inputs, torch.is_grad_enabled(), torch.get_num_threads()))
        return scaled_dot_product_attention(*inputs)

    assert experiments.seconds(form, q, k, v) >= 0
    assert called == [((q, k, v), False, 1)] * 5
    assert torch.get_num_threads() == before
