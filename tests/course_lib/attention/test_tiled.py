"""Tiles of any size, in any order, merge to the exact softmax; `test_fast_forms.py` compares with the equation once more."""

import itertools
import math

import pytest
import torch

from course_lib.attention import (
    Partial,
    merge,
    partial_attention,
    scaled_dot_product_attention,
    tiled_attention,
    tiled_gradients,
)
from course_lib.primitives import causal_mask

B, h, T_q, T_k, d, d_v = 2, 3, 5, 131, 7, 11


def test_three_scores_in_two_tiles_by_hand():
    """Weights 1/8, 3/8 and 4/8 of the values 1, 5 and 2 give 3; the first tile alone gives (1 + 15) / 4 = 4."""
    one = torch.ones(1, 1).double()
    scores, values = torch.tensor([1.0, 3, 4]).double().log()[:, None], torch.tensor([1.0, 5, 2]).double()[:, None]
    first, second = partial_attention(one, scores[:2], values[:2]), partial_attention(one, scores[2:], values[2:])
    assert first.context.item() == pytest.approx(4)
    assert first.total.item() == pytest.approx(1 + 1 / 3)
    both = merge(first, second)
    assert [x.item() for x in both] == pytest.approx([3, math.log(4), 2])


@pytest.mark.parametrize("tile", [1, 2, 64, 131, 200])
@pytest.mark.parametrize("masked", [False, True])
def test_tiles_are_the_equation(normal, agree, tile, masked):
    mask = causal_mask(T_q, T_k) & (torch.rand(B, 1, T_q, T_k) < 0.5) if masked else None
    if masked:
        mask[0, 0, 1] = False
    inputs = normal(B, h, T_q, d), normal(B, h, T_k, d), normal(B, h, T_k, d_v)
    agree(
        lambda *x: tiled_attention(*x, mask, tile).context, lambda *x: scaled_dot_product_attention(*x, mask).context, *inputs
    )


def test_tiles_merge_in_any_order_and_any_grouping(normal):
    q, k, v = normal(B, T_q, d), normal(B, 12, d, scale=9.0), normal(B, 12, d_v)
    whole = partial_attention(q, k, v)
    tiles = [partial_attention(q, k[:, a:b], v[:, a:b]) for a, b in itertools.pairwise([0, 2, 3, 12])]
    for a, b, c in itertools.permutations(tiles):
        torch.testing.assert_close(merge(merge(a, b), c), whole)
        torch.testing.assert_close(merge(a, merge(b, c)), whole)


def test_a_tile_without_keys_changes_nothing(normal):
    q, k, v = normal(T_q, d), normal(T_k, d), normal(T_k, d_v)
    one, none = partial_attention(q, k, v), partial_attention(q, k[:0], v[:0])
    torch.testing.assert_close(merge(one, none), one)
    torch.testing.assert_close(merge(none, one), one)
    assert none.maximum.eq(-torch.inf).all()
    assert not merge(none, none).context.any()
    assert isinstance(merge(none, none), Partial)
    assert not tiled_attention(q, k[:0], v[:0]).context.any()


def test_scores_of_any_size_neither_overflow_nor_vanish():
    q, k = torch.full((1, 1), 1e3), torch.tensor([[1e3], [-1e3], [1e3]])
    assert tiled_attention(q, k, torch.tensor([[2.0], [9], [4]]), tile=1).context.item() == 3.0


def test_hidden_keys_may_hold_anything(normal):
    q, k, v = normal(T_q, d), normal(T_k, d).detach(), normal(T_k, d_v).detach()
    k[9], v[9], mask = torch.nan, torch.inf, torch.arange(T_k) != 9
    found, wanted = (form(q, k, v, mask).context for form in (tiled_attention, scaled_dot_product_attention))
    torch.testing.assert_close(found, wanted)


def test_first_and_second_derivatives(normal):
    inputs = normal(3, 2), normal(5, 2), normal(5, 3)
    assert torch.autograd.gradcheck(lambda *x: tiled_attention(*x, tile=2).context, inputs)
    assert torch.autograd.gradgradcheck(lambda *x: tiled_attention(*x, tile=2).context, inputs)


def test_gradients_of_two_tiles_by_hand():
    """Weights 1/9, 2/9, 6/9 of the values 12, 3, 9 give 8. G = 9: dV = (1, 2, 6), and dE = P ⊙ 9 (v - 8) = (4, -10, 6)."""
    one, scores = torch.ones(1, 1).double(), torch.tensor([1.0, 2, 6]).double().log()[:, None]
    values = torch.tensor([12.0, 3, 9]).double()[:, None]
    kept = partial_attention(one, scores, values)
    assert kept.context.item() == pytest.approx(8)
    dq, dk, dv = tiled_gradients(one, scores, values, kept, 9 * one, tile=2)
    assert dv.flatten().tolist() == pytest.approx([1, 2, 6])
    assert dk.flatten().tolist() == pytest.approx([4, -10, 6])
    assert dq.item() == pytest.approx(-10 * math.log(2) + 6 * math.log(6))


@pytest.mark.parametrize("tile", [1, 64, 131, 200])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_in_tiles_are_those_of_autograd(normal, tile, masked):
    inputs, gradient = (normal(B, h, T_q, d), normal(B, h, T_k, d), normal(B, h, T_k, d_v)), normal(B, h, T_q, d_v)
    mask = (causal_mask(T_q, T_k) & (torch.rand(B, h, T_q, T_k) < 0.5)) if masked else None
    if masked:
        mask[0, 0, 1] = False
    wanted = torch.autograd.grad(scaled_dot_product_attention(*inputs, mask).context, inputs, gradient)
    found = tiled_gradients(*inputs, partial_attention(*inputs, mask), gradient, mask, tile)
    torch.testing.assert_close(found, wanted)


def test_no_tensor_grows_with_the_square_of_the_length():
    T = 300
    q, k, v = (torch.randn(T, 4, requires_grad=True) for _ in range(3))
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            largest = max(largest, result.numel() if isinstance(result, torch.Tensor) else 0)
            return result

    with Largest():
        tiled_attention(q, k, v, tile=8).context.sum().backward()
    assert largest == T * 8


@pytest.mark.parametrize(
    ("change", "words"),
    [({"tile": 0}, "a tile has at least one key"), ({"mask": torch.ones(4, dtype=torch.bool)}, "does not broadcast")],
)
def test_bad_arguments_are_refused(normal, change, words):
    with pytest.raises(ValueError, match=words):
        tiled_attention(normal(T_q, d), normal(T_k, d), normal(T_k, d_v), **change)


@pytest.mark.parametrize("tile", [0, -1])
def test_gradients_in_tiles_without_keys_are_refused(normal, tile):
    inputs = normal(T_q, d), normal(T_k, d), normal(T_k, d_v)
    with pytest.raises(ValueError, match="a tile has at least one key"):
        tiled_gradients(*inputs, partial_attention(*inputs), normal(T_q, d_v), tile=tile)
