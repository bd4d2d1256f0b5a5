"""The delta rule: it replaces what stands under a key, and is one step of gradient descent."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import (
    chunked_delta_attention,
    delta_attention,
    delta_rule_step,
    gated_linear_attention,
    retention,
)

B, h, T, d, d_v = 2, 3, 7, 5, 11
each_form = pytest.mark.parametrize("form", [delta_attention, chunked_delta_attention])


def of_gates(form, *rest):
    """Keys of length 1, β between 0 and 1, and a decay, of tensors that require a gradient."""
    return lambda q, k, v, b, g: form(q, F.normalize(k, dim=-1), v, b.sigmoid(), F.logsigmoid(g + 1), *rest)


def inputs(normal, *batch, T=T):
    return normal(*batch, T, d), normal(*batch, T, d), normal(*batch, T, d_v), normal(*batch, T), normal(*batch, T)


def test_a_step_by_hand():
    """S = (3, 0) says 1.8 of the key (0.6, 0.8), where 5 should stand: the error 3.2 makes S (4.92, 2.56)."""
    S, k, v = torch.tensor([[3.0], [0.0]]), torch.tensor([0.6, 0.8]), torch.tensor([5.0])
    context, after = delta_rule_step(S, k, k, v, torch.tensor(1.0))
    torch.testing.assert_close((context, after), (v, torch.tensor([[4.92], [2.56]])))
    assert S.tolist() == [[3.0], [0.0]]
    half, _ = delta_rule_step(S, k, k, v, torch.tensor(0.5))
    torch.testing.assert_close(half, torch.tensor([1.8 + 1.6]))
    _, faded = delta_rule_step(S, k, k, v, torch.tensor(1.0), torch.tensor(0.5).log())
    torch.testing.assert_close(faded, torch.tensor([[1.5 + 4.1 * 0.6], [4.1 * 0.8]]))


def test_the_newest_value_under_a_key_is_read_back(normal):
    k, v = F.normalize(normal(B, T, d), dim=-1), normal(B, T, d_v)
    torch.testing.assert_close(delta_attention(k, k, v, torch.ones(B, T).double()), v)


def test_a_step_is_one_of_gradient_descent(normal):
    S, k, v, beta = normal(B, d, d_v), F.normalize(normal(B, d), dim=-1), normal(B, d_v), torch.rand(B).double()
    loss = (v - torch.einsum("bkv,bk->bv", S, k)).square().sum() / 2
    (gradient,) = torch.autograd.grad(loss, S)
    _, after = delta_rule_step(S, k, k, v, beta)
    torch.testing.assert_close(after, S - beta[:, None, None] * gradient)


@each_form
def test_with_orthonormal_keys_it_is_a_sum(normal, form):
    k = torch.linalg.qr(normal(B, T, T).detach())[0]
    q, v, one = normal(B, T, T), normal(B, T, d_v), torch.ones(B, T).double()
    torch.testing.assert_close(form(q, k, v, one), retention(q, k, v, 0 * one))


def test_the_state_is_multiplied_from_the_left(normal, agree):
    """An independent form: S_t = e^g (I - β k kᵀ) S_{t-1} + β k vᵀ, with the products of these matrices written out."""

    def by_products(q, k, v, beta, g):
        rows = []
        for i in range(T):
            read, left = 0, q[..., i, :]
            for j in range(i, -1, -1):
                read = read + (left * k[..., j, :]).sum(-1, keepdim=True) * beta[..., j, None] * v[..., j, :]
                shared = (left * k[..., j, :]).sum(-1, keepdim=True) * beta[..., j, None]
                left = g[..., j, None].exp() * (left - shared * k[..., j, :])
            rows.append(read)
        return torch.stack(rows, dim=-2)

    agree(of_gates(delta_attention), of_gates(by_products), *inputs(normal, B, h))


@each_form
def test_a_position_with_beta_0_is_left_out(normal, form):
    q, k, v, beta = normal(T, d), F.normalize(normal(T, d), dim=-1), normal(T, d_v), torch.rand(T).double()
    beta[2], there = 0, [t for t in range(T) if t != 2]
    torch.testing.assert_close(form(q, k, v, beta)[there], form(q[there], k[there], v[there], beta[there]))


@each_form
def test_no_positions(normal, form):
    assert of_gates(form)(*inputs(normal, B, T=0)).shape == (B, 0, d_v)


@each_form
def test_gradients(normal, form):
    assert torch.autograd.gradcheck(of_gates(form), inputs(normal, 2, T=3))


def test_a_decay_alone_is_gated_linear_attention(normal):
    """With keys that never meet, nothing is corrected, and what was written fades."""
    q, v, g = normal(T, T), normal(T, d_v), F.logsigmoid(normal(T))
    k, one = torch.eye(T).double(), torch.ones(T).double()
    torch.testing.assert_close(delta_attention(q, k, v, one, g), gated_linear_attention(q, k, v, g[:, None]))


def test_unfit_gates_are_refused(unchecked, normal):
    S, k, v = normal(B, d, d_v), normal(B, d), normal(B, d_v)
    with pytest.raises(ValueError, match="There is one β, and one decay, for a whole head"):
        delta_rule_step(S, k, k, v, torch.ones(B, 1).double())
    for form in (delta_attention, chunked_delta_attention):
        with pytest.raises(ValueError, match="Pass the logarithm of a gate"):
            form(normal(T, d), normal(T, d), normal(T, d_v), torch.ones(T).double(), torch.ones(T).double())
        with pytest.raises(ValueError, match="beta does not fit"):
            form(normal(T, d), normal(T, d), normal(T, d_v), torch.ones(T, 1).double())
