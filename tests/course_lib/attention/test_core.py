"""Attention is score, normalise, mix: weights sum to 1, forbidden keys get 0, and fully masked rows are 0."""

import math

import pytest
import torch

from course_lib.attention import attend

B, H, T_q, T_k, d_v = 2, 3, 5, 7, 13


def some_mask(*shape):
    """Every row allows its first key, and about half of the others."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[..., 0] = True
    return mask


def by_loop(scores, values, mask):
    """The two sums of the paper, one pair at a time."""
    contexts, rows = [], []
    for b in range(len(scores)):
        for i in range(scores.shape[1]):
            allowed = [j for j in range(scores.shape[2]) if mask[b, i, j]]
            total = sum(scores[b, i, j].exp() for j in allowed)
            row = [scores[b, i, j].exp() / total if j in allowed else scores.new_zeros(()) for j in range(scores.shape[2])]
            contexts.append(sum((row[j] * values[b, j] for j in allowed), torch.zeros_like(values[b, 0])))
            rows.append(torch.stack(row))
    shape = scores.shape[:2]
    return torch.stack(contexts).unflatten(0, shape), torch.stack(rows).unflatten(0, shape)


def test_weights_by_hand():
    """exp(0) : exp(ln 3) = 1 : 3."""
    scores = torch.tensor([[0.0, math.log(3)]])
    values = torch.tensor([[4.0], [8.0]])
    context, weights = attend(scores, values)
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(context, torch.tensor([[7.0]]))


def test_a_mask_by_hand():
    """With the last key forbidden, the weights of the others are 1 : 3."""
    scores = torch.tensor([[0.0, math.log(3), 100.0]])
    values = torch.tensor([[4.0], [8.0], [1000.0]])
    context, weights = attend(scores, values, torch.tensor([True, True, False]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75, 0.0]]))
    torch.testing.assert_close(context, torch.tensor([[7.0]]))


@pytest.mark.parametrize("blind", [False, True])
def test_it_is_the_sums_of_the_paper(normal, agree, blind):
    mask = some_mask(B, T_q, T_k)
    mask[1, 2] &= not blind
    scores, values = normal(B, T_q, T_k, scale=3), normal(B, T_k, d_v)
    agree(lambda s, v: attend(s, v, mask), lambda s, v: by_loop(s, v, mask), scores, values)


def test_each_row_of_weights_is_shared_out_whole_among_the_allowed_keys(normal):
    mask = some_mask(B, H, T_q, T_k)
    _, weights = attend(normal(B, H, T_q, T_k), normal(B, H, T_k, d_v), mask)
    assert (weights[mask] > 0).all()
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T_q, dtype=torch.float64))


def test_true_in_a_mask_means_may_look(normal):
    """A mask with one True in each row selects one value, unchanged."""
    values = normal(B, T_k, d_v)
    key = torch.tensor([3, 0, 6, 6, 2])
    context, weights = attend(normal(B, T_q, T_k), values, torch.nn.functional.one_hot(key, T_k).bool())
    torch.testing.assert_close(context, values[:, key], atol=0, rtol=0)
    assert (weights.argmax(-1) == key).all()


def test_forbidden_keys_get_no_weight_and_no_gradient(normal):
    mask = some_mask(B, T_q, T_k)
    mask[..., 4] = False
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    context, _ = attend(scores, values, mask)
    context.square().sum().backward()
    assert (scores.grad[~mask] == 0).all()
    assert (values.grad[:, 4] == 0).all()
    assert (scores.grad[mask] != 0).any()


def test_a_query_that_may_look_nowhere_gets_zeros_and_no_nan(normal):
    mask = some_mask(B, T_q, T_k)
    mask[0, 1] = mask[1, 4] = False
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    context, weights = attend(scores, values, mask)
    for row in ((0, 1), (1, 4)):
        assert (weights[row] == 0).all()
        assert (context[row] == 0).all()
    (context.exp().sum() + weights.exp().sum()).backward()
    assert scores.grad.isfinite().all()
    assert values.grad.isfinite().all()
    assert (scores.grad[0, 1] == 0).all()


def test_no_query_may_look_anywhere(normal):
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    context, weights = attend(scores, values, torch.zeros(1, 1, dtype=torch.bool))
    context.exp().sum().backward()
    assert not context.any()
    assert not weights.any()
    assert not scores.grad.any()
    assert not values.grad.any()


def test_a_blind_row_leaves_the_other_rows_alone(normal):
    mask = some_mask(B, T_q, T_k)
    closed = mask.clone()
    closed[:, 2] = False
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    others = torch.arange(T_q) != 2
    for one, other in zip(attend(scores, values, mask), attend(scores, values, closed), strict=True):
        torch.testing.assert_close(one[:, others], other[:, others], atol=0, rtol=0)


@pytest.mark.parametrize("shape", [(T_q, T_k), (B, 1, 1, T_k), (H, 1, T_k), (B, 1, T_q, 1), (T_k,), (1, 1, 1, 1), ()])
def test_a_mask_may_be_of_any_shape_that_broadcasts(normal, shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.6
    scores, values = normal(B, H, T_q, T_k), normal(B, H, T_k, d_v)
    small, whole = attend(scores, values, mask), attend(scores, values, mask.expand(B, H, T_q, T_k))
    torch.testing.assert_close(tuple(small), tuple(whole), atol=0, rtol=0)


def test_adding_one_number_to_a_row_of_scores_changes_nothing(normal, agree):
    values, shift = normal(B, T_k, d_v).detach(), normal(B, T_q, 1, scale=20).detach()
    agree(lambda s: attend(s + shift, values), lambda s: attend(s, values), normal(B, T_q, T_k))


def test_the_order_of_the_keys_does_not_matter(normal, agree):
    order = torch.tensor([3, 6, 0, 1, 5, 2, 4])
    reordered = lambda s, v: attend(s[..., order], v[..., order, :]).context  # noqa: E731
    agree(reordered, lambda s, v: attend(s, v).context, normal(B, T_q, T_k), normal(B, T_k, d_v))


def test_scores_of_ten_thousand_do_not_overflow():
    scores = torch.tensor([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4]])
    context, weights = attend(scores, torch.eye(3))
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]))
    torch.testing.assert_close(context, weights)


def test_inputs_are_left_as_they_are(normal):
    scores, values, mask = normal(B, T_q, T_k), normal(B, T_k, d_v), some_mask(B, T_q, T_k)
    before = [t.detach().clone() for t in (scores, values, mask)]
    attend(scores, values, mask)
    for now, then in zip((scores, values, mask), before, strict=True):
        assert (now == then).all()


def test_gradients_against_differences(normal):
    mask = some_mask(2, 3, 5)
    mask[1, 0] = False
    assert torch.autograd.gradcheck(lambda s, v: tuple(attend(s, v, mask)), (normal(2, 3, 5), normal(2, 5, 2)))


@pytest.mark.parametrize(("B", "T_q", "T_k"), [(0, 5, 7), (2, 0, 7), (2, 5, 0)])
@pytest.mark.parametrize("masked", [False, True])
def test_no_sentence_no_query_or_no_key_gives_what_there_is(normal, B, T_q, T_k, masked):
    mask = torch.ones(T_q, T_k, dtype=torch.bool) if masked else None
    scores, values = normal(B, T_q, T_k), normal(B, T_k, d_v)
    context, weights = attend(scores, values, mask)
    assert weights.shape == (B, T_q, T_k)
    assert context.shape == (B, T_q, d_v)
    assert not context.any()
    context.sum().backward()
    assert values.grad.isfinite().all()
