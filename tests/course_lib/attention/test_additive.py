"""Additive attention: a small network scores each pair of query and key."""

import itertools
import math

import pytest
import torch

from course_lib.attention import AdditiveAttention, additive_scores, attend

B, H, T_q, T_k, d_q, d_k, d_v, d_a = 2, 3, 5, 7, 17, 11, 13, 19


def inputs(normal, *batch):
    return normal(*batch, T_q, d_q), normal(*batch, T_k, d_k), normal(d_a, d_q), normal(d_a, d_k), normal(d_a)


def by_loop(q, k, W, U, v):
    """vᵀ tanh(W q_i + U k_j), one pair at a time."""
    pairs = itertools.product(range(B), range(T_q), range(T_k))
    scores = [torch.dot(v, torch.tanh(torch.mv(W, q[b, i]) + torch.mv(U, k[b, j]))) for b, i, j in pairs]
    return torch.stack(scores).view(B, T_q, T_k)


def test_scores_by_hand():
    """tanh(½ ln 3) = ½ and tanh(ln 3) = ⅘; here W = 1, U = 2, v = 10."""
    half = 0.5 * math.log(3)
    q = torch.tensor([[half], [0.0]])
    k = torch.tensor([[0.0], [half / 2], [-half / 2]])
    scores = additive_scores(q, k, torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([10.0]))
    torch.testing.assert_close(scores, torch.tensor([[5.0, 8.0, 0.0], [0.0, 5.0, -5.0]]))


def test_it_is_the_equation_one_pair_at_a_time(normal, agree):
    agree(additive_scores, by_loop, *inputs(normal, B))


@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
def test_each_sentence_and_head_is_its_own(normal, batch):
    q, k, W, U, v = inputs(normal, *batch)
    scores = additive_scores(q, k, W, U, v)
    assert scores.shape == (*batch, T_q, T_k)
    for index in ((0,) * len(batch), (-1,) * len(batch)):
        torch.testing.assert_close(scores[index], additive_scores(q[index], k[index], W, U, v))


def test_no_score_exceeds_the_sum_of_the_weights_v(normal):
    """The hidden units saturate: however large queries and keys, |e_ij| ≤ Σ |v|."""
    q, k, W, U, v = inputs(normal, B)
    scores = additive_scores(1e6 * q, 1e6 * k, W, U, v)
    bound = v.abs().sum()
    assert (scores.abs() <= bound * (1 + 1e-12)).all()
    assert (scores.abs() > bound / 100).any()


def test_one_matrix_reads_the_query_and_the_other_the_key(normal):
    q, k, W, U, v = inputs(normal, B)
    without_query = additive_scores(q, k, torch.zeros_like(W), U, v)
    without_key = additive_scores(q, k, W, torch.zeros_like(U), v)
    torch.testing.assert_close(without_query, without_query[:, :1].expand_as(without_query))
    torch.testing.assert_close(without_key, without_key[..., :1].expand_as(without_key))
    assert (without_query.diff(dim=-1) != 0).all()
    assert (without_key.diff(dim=-2) != 0).all()


def test_swapping_queries_and_keys_with_their_matrices_transposes_the_scores(normal, agree):
    swapped = lambda q, k, W, U, v: additive_scores(k, q, U, W, v).mT  # noqa: E731
    agree(additive_scores, swapped, *inputs(normal, B))


def test_gradients_against_differences(normal):
    small = normal(2, 3, 2), normal(2, 5, 3), normal(7, 2), normal(7, 3), normal(7)
    assert torch.autograd.gradcheck(additive_scores, small)


def test_the_module_attends_by_these_scores(normal, agree):
    module = AdditiveAttention(d_q, d_k, d_a).double()
    q, k, _, _, _ = inputs(normal, B)
    mask = torch.ones(T_q, T_k, dtype=torch.bool).tril(1)
    mask[3] = False

    def spelled_out(q, k, values):
        return attend(additive_scores(q, k, module.W, module.U, module.v), values, mask)

    agree(lambda q, k, values: module(q, k, values, mask), spelled_out, q, k, normal(B, T_k, d_v))


def test_the_module_owns_three_parameters_and_trains_all_of_them(normal):
    module = AdditiveAttention(d_q, d_k, d_a).double()
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {"W": (d_a, d_q), "U": (d_a, d_k), "v": (d_a,)}
    module(normal(B, T_q, d_q), normal(B, T_k, d_k), normal(B, T_k, d_v)).context.square().sum().backward()
    assert all((p.grad != 0).all() for p in module.parameters())


def test_the_module_starts_with_weights_within_the_inverse_square_root_of_what_they_sum_over():
    torch.manual_seed(0)
    module = AdditiveAttention(400, 100, 900)
    for parameter, bound in ((module.W, 1 / 20), (module.U, 1 / 10), (module.v, 1 / 30)):
        assert parameter.min().item() == pytest.approx(-bound, rel=0.01)
        assert parameter.max().item() == pytest.approx(bound, rel=0.01)
