"""Masks: True = may attend; the future, what a window leaves and padding are hidden, and together they hide what any hides."""

import pytest
import torch

from course_lib.attention import attend
from course_lib.primitives import causal_mask, padding_first, padding_mask, window_of_tokens, window_with_sinks

B, T_q, T_k, d_v = 3, 5, 7, 13


def test_a_causal_mask_by_hand():
    assert causal_mask(3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_last_queries_of_a_longer_sequence_by_hand():
    assert causal_mask(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_queries_before_the_first_key_are_refused():
    for T_q, T_k in ((5, 3), (7, 1), (3, 0)):
        with pytest.raises(ValueError, match=f"got {T_q} queries and {T_k} keys"):
            causal_mask(T_q, T_k)
    assert causal_mask(3, 3).equal(causal_mask(3))


def test_a_window_of_two_tokens_by_hand():
    assert window_of_tokens(4, 2).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
def test_a_window_lists_the_last_tokens_of_each_query(size):
    """An independent form: the positions of a list that is cut off at its front."""
    mask = window_of_tokens(T_k, size)
    assert mask.dtype == torch.bool
    for i in range(T_k):
        assert mask[i].nonzero().flatten().tolist() == list(range(i + 1))[-size:]


def test_layers_of_windows_reach_further_than_one():
    """After n layers a query has seen n (size - 1) positions before its own."""
    size, n_layers = 3, 3
    reached = torch.linalg.matrix_power(window_of_tokens(11, size).double(), n_layers) > 0
    assert reached.equal(window_of_tokens(11, n_layers * (size - 1) + 1))


def test_a_window_as_long_as_the_text_is_the_causal_mask():
    for size in (T_k, T_k + 1):
        assert window_of_tokens(T_k, size).equal(causal_mask(T_k))


@pytest.mark.parametrize("size", [0, -3])
def test_a_window_without_the_token_itself_is_refused(size):
    with pytest.raises(ValueError, match=f"size must be 1 or more, got {size}"):
        window_of_tokens(T_k, size)


def test_a_window_of_two_tokens_with_a_sink_by_hand():
    wanted = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 0, 1, 1]]
    assert window_with_sinks(5, 2, 1).int().tolist() == wanted


@pytest.mark.parametrize(("size", "sinks"), [(1, 0), (2, 3), (3, 2), (7, 1), (2, 11)])
def test_a_window_with_sinks_lists_the_first_and_the_last_tokens(size, sinks):
    """An independent form: the first and the last positions of a list."""
    mask = window_with_sinks(T_k, size, sinks)
    for i in range(T_k):
        seen = list(range(i + 1))
        assert mask[i].nonzero().flatten().tolist() == sorted({*seen[:sinks], *seen[-size:]})


def test_a_window_without_sinks_is_a_plain_window():
    assert window_with_sinks(T_k, 3, 0).equal(window_of_tokens(T_k, 3))
    with pytest.raises(ValueError, match="cannot be negative, got -1"):
        window_with_sinks(T_k, 3, -1)
    with pytest.raises(ValueError, match="size must be 1 or more, got 0"):
        window_with_sinks(T_k, 0, 2)


def test_a_padding_mask_by_hand():
    mask = padding_mask(torch.tensor([3, 0, 1]), 3)
    assert mask.int().tolist() == [[[1, 1, 1]], [[0, 0, 0]], [[1, 0, 0]]]


def test_causal_mask_hides_the_future(normal):
    """No query has a gradient from a later key: it is exactly 0."""
    scores, values = normal(T_k, T_k), normal(T_k, d_v)
    context = attend(scores, values, causal_mask(T_k)).context
    for t in range(T_k):
        from_values, from_scores = torch.autograd.grad(context[t].square().sum(), (values, scores), retain_graph=True)
        assert not from_values[t + 1 :].any()
        assert from_values[: t + 1].all()
        assert not from_scores[t, t + 1 :].any()


def test_padding_mask_hides_what_stands_after_the_end(normal):
    lengths = torch.tensor([7, 3, 0])
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    attend(scores, values, padding_mask(lengths, T_k)).context.square().sum().backward()
    for b, length in enumerate(lengths.tolist()):
        assert not values.grad[b, length:].any()
        assert values.grad[b, :length].all()


@pytest.mark.parametrize(("T_q", "T_k"), [(5, 5), (5, 7), (1, 7), (0, 3), (0, 0)])
def test_a_causal_mask_compares_positions_one_pair_at_a_time(T_q, T_k):
    mask = causal_mask(T_q, T_k)
    assert mask.dtype == torch.bool
    assert mask.shape == (T_q, T_k)
    for i in range(T_q):
        for j in range(T_k):
            assert mask[i, j].item() == (j <= i + T_k - T_q)


@pytest.mark.parametrize("T", [1, 2, 7])
def test_a_causal_mask_is_a_lower_triangle(T):
    assert (causal_mask(T) == torch.ones(T, T).tril().bool()).all()


def test_the_last_rows_are_the_mask_of_the_last_queries():
    assert (causal_mask(T_q, T_k) == causal_mask(T_k)[-T_q:]).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_padding_mask_counts_each_sequence(dtype):
    lengths = torch.tensor([7, 0, 3], dtype=dtype)
    mask = padding_mask(lengths, T_k)
    assert mask.dtype == torch.bool
    assert mask.shape == (B, 1, T_k)
    for b, length in enumerate(lengths.tolist()):
        assert mask[b, 0].tolist() == [True] * length + [False] * (T_k - length)


def test_together_they_hide_what_either_hides():
    lengths = torch.tensor([7, 3, 0])
    both = causal_mask(T_k) & padding_mask(lengths, T_k)
    assert both.shape == (B, T_k, T_k)
    for b, length in enumerate(lengths.tolist()):
        for i in range(T_k):
            assert both[b, i].tolist() == [j <= i and j < length for j in range(T_k)]


def test_no_sequence_and_no_place_make_an_empty_mask():
    assert padding_mask(torch.tensor([], dtype=torch.int64), T_k).shape == (0, 1, T_k)
    assert padding_mask(torch.tensor([0, 0]), 0).shape == (2, 1, 0)


def test_the_lengths_are_left_as_they_are():
    lengths = torch.tensor([3, 1])
    padding_mask(lengths, T_k)
    assert lengths.tolist() == [3, 1]


def test_masks_live_where_they_are_asked_to():
    assert causal_mask(3, device="meta").device.type == "meta"
    assert window_of_tokens(3, 2, device="meta").device.type == "meta"


def test_padding_moves_before_the_tokens_by_hand():
    tokens, real = padding_first(torch.tensor([[5, 6, 0, 0], [7, 8, 9, 4], [0, 0, 0, 0]]), torch.tensor([2, 4, 0]))
    assert tokens.tolist() == [[0, 0, 5, 6], [7, 8, 9, 4], [0, 0, 0, 0]]
    assert real[:, 0].int().tolist() == [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert padding_first(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))[1].shape == (2, 1, 0)
