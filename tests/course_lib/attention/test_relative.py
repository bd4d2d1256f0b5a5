"""Relative attention: scores depend only on distances, and the shift moves each product to its place in the equation."""

import math

import pytest
import torch

from course_lib.attention import MultiHead, RelativeAttention, causal_attention, relative_attention, shifted_relative_attention
from course_lib.attention.relative import relative_shift
from course_lib.blocks import Sizes, encoder_stack
from course_lib.primitives import sinusoids

B, H, T_q, T_k, d, d_v = 2, 3, 5, 7, 11, 13
each_form = pytest.mark.parametrize("form", [relative_attention, shifted_relative_attention])


@pytest.fixture
def inputs(normal):
    """q, k, v, r, u, v of the paper, each head with its own distances."""
    tensors = normal(B, H, T_q, d), normal(B, H, T_k, d), normal(B, H, T_k, d_v)
    return *tensors, normal(H, T_k, d), normal(H, d), normal(H, d)


def by_the_paper(q, k, v, r, u, w):
    """The four terms (a) to (d), pair by pair."""
    contexts, rows = [], []
    for b in range(B):
        for h in range(H):
            for i in range(T_q):
                at = T_k - T_q + i
                scores = [
                    q[b, h, i] @ k[b, h, j] + q[b, h, i] @ r[h, at - j] + u[h] @ k[b, h, j] + w[h] @ r[h, at - j]
                    for j in range(at + 1)
                ]
                powers = torch.exp(torch.stack(scores) / math.sqrt(d))
                weights = powers / powers.sum()
                rows.append(torch.cat([weights, weights.new_zeros(T_k - at - 1)]))
                contexts.append(weights @ v[b, h, : at + 1])
    return torch.stack(contexts).view(B, H, T_q, -1), torch.stack(rows).view(B, H, T_q, -1)


@each_form
def test_it_is_the_papers_four_terms_pair_by_pair(inputs, agree, form):
    agree(form, by_the_paper, *inputs)


@each_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_scores_are_formed_in_float32(form, dtype):
    """Without distances and biases it is `causal_attention`, whose scores of up to 10⁶ exceed float16."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (300 * torch.randn(3, 7, 64, generator=generator).to(dtype) for _ in range(3))
    found = form(q, k, v, q.new_zeros(7, 64), q.new_zeros(64), q.new_zeros(64))
    assert {x.dtype for x in found} == {dtype}
    torch.testing.assert_close(found, causal_attention(q, k, v))


@each_form
def test_by_hand(form):
    """Only the distances 0 and 1 with scores 0 and ln 3: the second position has weight ¾ on the first and ¼ on itself."""
    zero, one = torch.zeros(2, 1), torch.ones(1)
    r = torch.tensor([[0.0], [math.log(3)]])
    context, weights = form(zero, zero, torch.tensor([[4.0], [8.0]]), r, 0 * one, one)
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.0], [0.75, 0.25]]))
    torch.testing.assert_close(context, torch.tensor([[4.0], [5.0]]))


def test_the_shift_by_hand():
    """Three keys; input columns for the distances 2, 1, 0. Two queries, the last two positions: the first is shifted by 1."""
    shifted = relative_shift(torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]]))
    assert shifted[0, :2].tolist() == [1.0, 0.0]
    assert shifted[1].tolist() == [2.0, 1.0, 0.0]


@each_form
def test_without_distances_and_biases_it_is_causal_attention(inputs, agree, form):
    r, u, w = (torch.zeros_like(x) for x in inputs[3:])
    agree(lambda *x: form(*x, r, u, w), causal_attention, *inputs[:3])


@each_form
def test_where_a_text_stands_does_not_matter(normal, form):
    """The same tokens, three positions later, after a memory that may not be attended to: the same contexts."""
    q, k, v = normal(B, T_q, d), normal(B, T_q, d), normal(B, T_q, d_v)
    r, u, w = normal(8, d), normal(d), normal(d)
    memory = normal(B, 3, d), normal(B, 3, d_v)
    mask = torch.arange(8) >= 3
    later = form(q, torch.cat([memory[0], k], 1), torch.cat([memory[1], v], 1), r, u, w, mask)
    torch.testing.assert_close(later.context, form(q, k, v, r[:T_q], u, w).context)


@each_form
def test_how_far_away_a_key_is_matters(inputs, form):
    q, k, v, r, u, w = inputs
    same = k[:, :, :1].expand_as(k)
    weights = form(q, same, v, r, u, w).weights[0, 0, -1]
    assert len(weights.unique()) == T_k


@each_form
def test_no_query_attends_to_a_later_key(inputs, form):
    weights = form(*inputs).weights
    later = torch.ones(T_q, T_k, dtype=torch.bool).triu(T_k - T_q + 1)
    assert not weights[..., later].any()
    assert (weights[..., ~later] > 0).all()


@each_form
def test_queries_one_at_a_time_are_the_rows_of_all(inputs, form):
    q, k, v, r, u, w = inputs
    whole = form(*inputs).context
    for i in range(T_q):
        n = T_k - T_q + i + 1
        alone = form(q[..., i : i + 1, :], k[..., :n, :], v[..., :n, :], r[..., :n, :], u, w)
        torch.testing.assert_close(alone.context[..., 0, :], whole[..., i, :])


@pytest.mark.parametrize("masked", [False, True])
def test_the_shifted_form_has_the_values_and_gradients_of_the_equation(inputs, agree, masked):
    mask = torch.rand(B, 1, T_q, T_k, generator=torch.Generator().manual_seed(1)) < 0.6 if masked else None
    agree(lambda *x: shifted_relative_attention(*x, mask), lambda *x: relative_attention(*x, mask), *inputs)


@pytest.mark.parametrize("lengths", [(0, 0), (0, 3), (1, 1), (1, 6), (6, 6), (2, 6)])
def test_both_forms_at_each_length(normal, lengths):
    T_q, T_k = lengths
    x = normal(T_q, d), normal(T_k, d), normal(T_k, d_v), normal(T_k, d), normal(d), normal(d)
    torch.testing.assert_close(shifted_relative_attention(*x), relative_attention(*x))


@each_form
def test_gradients_against_differences(normal, form):
    x = normal(2, 2, 3), normal(2, 4, 3), normal(2, 4, 2), normal(2, 4, 3), normal(2, 3), normal(2, 3)
    assert torch.autograd.gradcheck(form, x)


@each_form
def test_what_does_not_fit_is_refused(normal, form, unchecked):
    q, k, v, r, u = normal(B, T_q, d), normal(B, T_k, d), normal(B, T_k, d_v), normal(T_k, d), normal(d)
    with pytest.raises(ValueError, match="got 7 queries and 5 keys"):
        form(k, q, v[:, :T_q], r[:T_q], u, u)
    with pytest.raises(ValueError, match="r needs 7 rows, got 6"):
        form(q, k, v, r[1:], u, u)
    with pytest.raises(ValueError, match="does not broadcast"):
        form(q, k, v, r, u, u, torch.ones(T_q, T_q, dtype=torch.bool))
    with pytest.raises(TypeError, match="must be bool"):
        form(q, k, v, r, u, u, torch.ones(T_q, T_k))
    with pytest.raises(ValueError, match=r"values are \(2, 6, 13\)"):
        form(q, k, v[:, 1:], r, u, u)


D_MODEL = H * d


def heads(form=shifted_relative_attention):
    torch.manual_seed(0)
    attention = MultiHead(D_MODEL, H, RelativeAttention(D_MODEL, H, form), bias=False).double()
    for bias in (attention.mechanism.bias_u, attention.mechanism.bias_v):
        bias.data = torch.randn(H, d).double()
    return attention


@each_form
def test_the_module_owns_the_papers_parameters_and_attends_by_its_sinusoids(normal, form):
    attention, x, memory = heads(form), normal(B, T_q, D_MODEL), normal(B, T_k, D_MODEL)
    owned = {name: tuple(p.shape) for name, p in attention.mechanism.named_parameters()}
    assert owned == {"W_r.weight": (D_MODEL, D_MODEL), "bias_u": (H, d), "bias_v": (H, d)}
    context, weights = attention(x, memory, memory)
    mechanism = attention.mechanism
    R = sinusoids(0, T_k, D_MODEL).double()

    def head(y, h):
        return y[..., h * d : (h + 1) * d]

    for h in range(H):
        q, k, v, r = (head(y, h) for y in (attention.W_q(x), attention.W_k(memory), attention.W_v(memory), mechanism.W_r(R)))
        exact = relative_attention(q, k, v, r, mechanism.bias_u[h], mechanism.bias_v[h])
        torch.testing.assert_close(weights[:, h], exact.weights)
    context.square().sum().backward()
    assert all((p.grad != 0).any() for p in attention.parameters())


def test_it_is_a_mechanism_for_every_model_and_each_layer_owns_its_copy(normal):
    stack = encoder_stack(Sizes(D_MODEL, H, 17, 2), RelativeAttention(D_MODEL, H)).double()
    first, second = (block.mixer.attention.mechanism for block in stack.blocks)
    assert first.W_r is not second.W_r
    x = normal(B, T_k, D_MODEL)
    torch.testing.assert_close(stack(x[:, :T_q]), stack(x)[:, :T_q])


def test_heads_must_divide_the_model():
    with pytest.raises(ValueError, match="does not divide into 2 heads"):
        RelativeAttention(7, 2)
    assert RelativeAttention(7, 2, d_k=3).bias_u.shape == (2, 3)
