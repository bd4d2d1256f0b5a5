"""Luong's three scores: dot, general and concat; each reduces to a known score under a condition."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import (
    ConcatAttention,
    GeneralAttention,
    additive_scores,
    attend,
    concat_scores,
    dot_attention,
    dot_scores,
    general_scores,
)
from course_lib.fast import fused_dot_attention

B, H, T_q, T_k, d_q, d_k, d_v, d_a = 2, 3, 5, 7, 17, 11, 13, 19


def pairs_of(q, k):
    """Every query paired with every key, (B, T_q, T_k, d) each."""
    return q[:, :, None].expand(B, T_q, T_k, -1), k[:, None].expand(B, T_q, T_k, -1)


def general_by_torch(q, k, W):
    every_q, every_k = pairs_of(q, k)
    return F.bilinear(every_q.contiguous(), every_k.contiguous(), W[None]).squeeze(-1)


def concat_by_torch(q, k, W, v):
    return F.linear(F.linear(torch.cat(pairs_of(q, k), dim=-1), W).tanh(), v[None]).squeeze(-1)


def test_dot_scores_by_hand():
    q = torch.tensor([[1.0, 2.0]])
    k = torch.tensor([[3.0, 4.0], [-2.0, 1.0]])
    assert dot_scores(q, k).tolist() == [[11.0, 0.0]]


def test_general_scores_by_hand():
    """[1 2] [[1 0 0], [0 10 100]] = [1 20 200]."""
    q = torch.tensor([[1.0, 2.0]])
    k = torch.tensor([[3.0, 4.0, 0.0], [1.0, 1.0, 1.0]])
    W = torch.tensor([[1.0, 0.0, 0.0], [0.0, 10.0, 100.0]])
    assert general_scores(q, k, W).tolist() == [[83.0, 221.0]]


def test_concat_scores_by_hand():
    """tanh(½ ln 3) = ½ and tanh(ln 3) = ⅘; W multiplies the query by 1 and the key by 2, v = 10."""
    half = 0.5 * math.log(3)
    q = torch.tensor([[half], [0.0]])
    k = torch.tensor([[0.0], [half / 2]])
    scores = concat_scores(q, k, torch.tensor([[1.0, 2.0]]), torch.tensor([10.0]))
    torch.testing.assert_close(scores, torch.tensor([[5.0, 8.0], [0.0, 5.0]]))


def test_dot_is_the_sum_of_products_one_pair_at_a_time(normal, agree):
    def by_loop(q, k):
        pairs = itertools.product(range(B), range(T_q), range(T_k))
        return torch.stack([torch.dot(q[b, i], k[b, j]) for b, i, j in pairs]).view(B, T_q, T_k)

    agree(dot_scores, by_loop, normal(B, T_q, d_k), normal(B, T_k, d_k))


def test_general_is_the_bilinear_form(normal, agree):
    agree(general_scores, general_by_torch, normal(B, T_q, d_q), normal(B, T_k, d_k), normal(d_q, d_k))


def test_concat_is_a_network_over_the_joined_pair(normal, agree):
    agree(concat_scores, concat_by_torch, normal(B, T_q, d_q), normal(B, T_k, d_k), normal(d_a, d_q + d_k), normal(d_a))


def test_dot_is_symmetric(normal):
    q, k = normal(B, T_q, d_k), normal(B, T_k, d_k)
    torch.testing.assert_close(dot_scores(q, k), dot_scores(k, q).mT)


def test_general_is_linear_in_the_query_and_in_the_key(normal):
    q, other, k, W = normal(B, T_q, d_q), normal(B, T_q, d_q), normal(B, T_k, d_k), normal(d_q, d_k)
    torch.testing.assert_close(
        general_scores(2 * q - 3 * other, k, W), 2 * general_scores(q, k, W) - 3 * general_scores(other, k, W)
    )
    torch.testing.assert_close(general_scores(q, -5 * k, W), -5 * general_scores(q, k, W))


def test_general_with_the_identity_is_dot(normal, agree):
    eye = torch.eye(d_k, dtype=torch.float64)
    agree(lambda q, k: general_scores(q, k, eye), dot_scores, normal(B, T_q, d_k), normal(B, T_k, d_k))


def test_concat_is_additive_with_its_two_matrices_side_by_side(normal, agree):
    def additive(q, k, W, v):
        return additive_scores(q, k, W[:, :d_q], W[:, d_q:], v)

    agree(concat_scores, additive, normal(B, T_q, d_q), normal(B, T_k, d_k), normal(d_a, d_q + d_k), normal(d_a))


@pytest.mark.parametrize("batch", [(), (B,), (B, H)])
def test_each_sentence_and_head_is_its_own(normal, batch):
    q, k, W, W_ab, v = normal(*batch, T_q, d_k), normal(*batch, T_k, d_k), normal(d_k, d_k), normal(d_a, 2 * d_k), normal(d_a)
    for scores in (dot_scores, lambda q, k: general_scores(q, k, W), lambda q, k: concat_scores(q, k, W_ab, v)):
        whole = scores(q, k)
        assert whole.shape == (*batch, T_q, T_k)
        first = (0,) * len(batch)
        last = (-1,) * len(batch)
        torch.testing.assert_close(whole[first], scores(q[first], k[first]))
        torch.testing.assert_close(whole[last], scores(q[last], k[last]))


def test_gradients_against_differences(normal):
    q, k = normal(2, 3, 2), normal(2, 5, 7)
    assert torch.autograd.gradcheck(dot_scores, (normal(2, 3, 7), k))
    assert torch.autograd.gradcheck(general_scores, (q, k, normal(2, 7)))
    assert torch.autograd.gradcheck(concat_scores, (q, k, normal(3, 9), normal(3)))


def test_the_mechanisms_attend_by_their_scores(normal, agree):
    mask = torch.ones(T_q, T_k, dtype=torch.bool).triu(-1)
    mask[2] = False
    general, concat = GeneralAttention(d_k, d_k).double(), ConcatAttention(d_k, d_k, d_a).double()
    inputs = normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v)
    spelled_out = {
        dot_attention: dot_scores,
        general: lambda q, k: general_scores(q, k, general.W),
        concat: lambda q, k: concat_scores(q, k, concat.W, concat.v),
    }
    for mechanism, scores in spelled_out.items():
        agree(
            lambda q, k, v, mechanism=mechanism: mechanism(q, k, v, mask),
            lambda q, k, v, scores=scores: attend(scores(q, k), v, mask),
            *inputs,
        )


def blind_in_row_2(*shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[..., 0], mask[..., 2, :] = True, False
    return mask


MASKS = {
    "no mask": None,
    "one for each head": blind_in_row_2(B, H, T_q, T_k),
    "one for each sentence": blind_in_row_2(B, 1, T_q, T_k),
    "one for each head of all": blind_in_row_2(H, T_q, T_k),
    "shared": blind_in_row_2(T_q, T_k),
    "over keys": torch.arange(T_k) < 5,
    "all blind": torch.zeros(1, 1, 1, 1, dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_the_fused_twin_computes_the_same_values_and_gradients(normal, agree, mask):
    inputs = normal(B, H, T_q, d_k), normal(B, H, T_k, d_k), normal(B, H, T_k, d_v)
    agree(lambda *x: fused_dot_attention(*x, mask).context, lambda *x: dot_attention(*x, mask).context, *inputs)
    assert fused_dot_attention(*inputs, mask).weights is None


@pytest.mark.parametrize("batch", [(), (B,), (B, H, 2)])
def test_the_fused_twin_takes_any_batch(normal, agree, batch):
    inputs = normal(*batch, T_q, d_k), normal(*batch, T_k, d_k), normal(*batch, T_k, d_v)
    mask = blind_in_row_2(*batch, T_q, T_k)
    agree(lambda *x: fused_dot_attention(*x, mask).context, lambda *x: dot_attention(*x, mask).context, *inputs)
    agree(lambda *x: fused_dot_attention(*x).context, lambda *x: dot_attention(*x).context, *inputs)


@pytest.mark.parametrize("mechanism", [dot_attention, fused_dot_attention])
def test_what_does_not_fit_is_refused(normal, mechanism):
    q, k, v = normal(B, T_q, d_k), normal(B, T_k, d_k), normal(B, T_k, d_v)
    with pytest.raises(RuntimeError, match=r"11.*10"):
        mechanism(q, k[..., 1:], v)
    with pytest.raises(ValueError, match="does not broadcast"):
        mechanism(q, k, v, torch.ones(B, T_k, dtype=torch.bool)[:, None].expand(B, 2, T_k))


def test_the_modules_own_what_their_equations_name(normal):
    general, concat = GeneralAttention(d_q, d_k).double(), ConcatAttention(d_q, d_k, d_a).double()
    assert {name: tuple(p.shape) for name, p in general.named_parameters()} == {"W": (d_q, d_k)}
    assert {name: tuple(p.shape) for name, p in concat.named_parameters()} == {"W": (d_a, d_q + d_k), "v": (d_a,)}
    for module in (general, concat):
        module(normal(B, T_q, d_q), normal(B, T_k, d_k), normal(B, T_k, d_v)).context.square().sum().backward()
        assert all((p.grad != 0).all() for p in module.parameters())


def test_the_modules_start_with_weights_within_the_inverse_square_root_of_what_they_sum_over():
    torch.manual_seed(0)
    general, concat = GeneralAttention(400, 100), ConcatAttention(300, 100, 900)
    for parameter, bound in ((general.W, 1 / 10), (concat.W, 1 / 20), (concat.v, 1 / 30)):
        assert parameter.min().item() == pytest.approx(-bound, rel=0.01)
        assert parameter.max().item() == pytest.approx(bound, rel=0.01)
