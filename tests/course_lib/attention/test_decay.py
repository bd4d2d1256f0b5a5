"""Decay: a step fades, writes and reads; a mask holds products of gates; one gate is attention under the mask."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import decay_mask, gated_linear_attention, gated_step, retention

B, h, T, d, d_v = 2, 3, 7, 5, 11


def log_decays(x):
    return F.logsigmoid(x + 1)


def test_a_step_by_hand():
    """S = (8, 4)ᵀ: gates ½ and ¼ leave (4, 1); the key (1, 2) writes 3, so (7, 7); (1, 10) reads 77."""
    S, gates = torch.tensor([[8.0], [4.0]]), torch.tensor([0.5, 0.25])
    context, after = gated_step(S, torch.tensor([1.0, 10.0]), torch.tensor([1.0, 2.0]), torch.tensor([3.0]), gates.log())
    torch.testing.assert_close((context, after), (torch.tensor([77.0]), torch.tensor([[7.0], [7.0]])))
    assert S.tolist() == [[8.0], [4.0]]


def test_a_mask_by_hand():
    """Three gates: the first has nothing to forget, ½ and ¼ multiply to ⅛."""
    mask = decay_mask(torch.tensor([0.9, 0.5, 0.25]).log())
    torch.testing.assert_close(mask, torch.tensor([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.125, 0.25, 1.0]]))


def test_a_mask_holds_products_of_gates(normal, agree):
    def product(x):
        gates = log_decays(x).exp()
        rows = [[gates[:, j + 1 : i + 1].prod(-1) if j <= i else 0 * gates[:, 0] for j in range(T)] for i in range(T)]
        return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)

    agree(lambda x: decay_mask(log_decays(x)), product, normal(B, T))


def test_gates_that_forget_almost_all_give_numbers_and_gradients():
    """Above the diagonal the exponent would be +200 a position, and its exponential infinite."""
    log_decay = torch.full((T,), -200.0, requires_grad=True)
    mask = decay_mask(log_decay)
    assert torch.equal(mask, torch.eye(T))
    mask.sum().backward()
    assert torch.equal(log_decay.grad, torch.zeros(T))


@pytest.mark.parametrize("batch", [(), (B,), (B, h)])
def test_a_gate_for_each_channel_in_loops(normal, agree, batch):
    """An independent form: every past value, weighted channel by channel."""

    def by_loop(q, k, v, x):
        gates, rows = log_decays(x).exp(), []
        for i in range(T):
            weights = [(q[..., i, :] * k[..., j, :] * gates[..., j + 1 : i + 1, :].prod(-2)).sum(-1) for j in range(i + 1)]
            rows.append(sum(w[..., None] * v[..., j, :] for j, w in enumerate(weights)))
        return torch.stack(rows, dim=-2)

    inputs = normal(*batch, T, d), normal(*batch, T, d), normal(*batch, T, d_v), normal(*batch, T, d)
    agree(lambda q, k, v, x: gated_linear_attention(q, k, v, log_decays(x)), by_loop, *inputs)


def test_retention_is_gated_linear_attention_with_one_gate(normal, agree):
    def in_turn(q, k, v, x):
        return gated_linear_attention(q, k, v, log_decays(x)[..., None])

    inputs = normal(B, h, T, d), normal(B, h, T, d), normal(B, h, T, d_v), normal(B, h, T)
    agree(lambda q, k, v, x: retention(q, k, v, log_decays(x)), in_turn, *inputs)


@pytest.mark.parametrize("form", [retention, lambda q, k, v, g: gated_linear_attention(q, k, v, g[..., None])])
def test_without_decay_it_is_causal_linear_attention_before_its_division(normal, form):
    q, k, v = normal(B, T, d), normal(B, T, d), normal(B, T, d_v)
    S = (k[..., None] * v[..., None, :]).cumsum(1)
    torch.testing.assert_close(form(q, k, v, torch.zeros(B, T).double()), torch.einsum("btf,btfd->btd", q, S))


def test_a_position_without_value_and_decay_is_left_out(normal):
    q, k, v, g = normal(T, d), normal(T, d), normal(T, d_v), log_decays(normal(T))
    v.data[2], there = 0, [t for t in range(T) if t != 2]
    g = g.detach().index_fill(0, torch.tensor([2]), 0.0)
    torch.testing.assert_close(retention(q, k, v, g)[there], retention(q[there], k[there], v[there], g[there]))


def test_gradients(normal):
    inputs = normal(3, d), normal(3, d), normal(3, 2)
    assert torch.autograd.gradcheck(lambda q, k, v, x: gated_linear_attention(q, k, v, log_decays(x)), (*inputs, normal(3, d)))
    assert torch.autograd.gradcheck(lambda q, k, v, x: retention(q, k, v, log_decays(x)), (*inputs, normal(3)))


def test_a_half_state_is_returned_in_float32_and_beyond_float16():
    ones = torch.ones(3, dtype=torch.float16)
    context, S = gated_step(torch.full((3, 3), 6e4).half(), ones / 1024, ones, 1e4 * ones, 0 * ones)
    assert (context.dtype, S.dtype, S[0, 0].item()) == (torch.float16, torch.float32, 7e4)


def test_gates_in_place_of_their_logarithms_are_refused(normal):
    q, k, v = (normal(T, n) for n in (d, d, d_v))
    for gate in (torch.full((T,), 0.9), torch.full((T,), -torch.inf), torch.full((T,), torch.nan)):
        for form in (decay_mask, lambda g: retention(q, k, v, g), lambda g: gated_linear_attention(q, k, v, g[:, None])):
            with pytest.raises(ValueError, match=r"Pass the logarithm of a gate between 0 and 1"):
                form(gate.double())


def test_gates_of_another_shape_are_refused(unchecked, normal):
    S, k, v = normal(B, d, d_v), normal(B, d), normal(B, d_v)
    with pytest.raises(ValueError, match=r"log_decay does not fit: gated_step .* One gate for all channels is \(\*batch, 1\)"):
        gated_step(S, k, k, v, torch.zeros(B).double())
    with pytest.raises(ValueError, match="One gate for all channels is"):
        gated_linear_attention(normal(B, T, d), normal(B, T, d), normal(B, T, d_v), torch.zeros(B, T).double())
    with pytest.raises(ValueError, match="needs gated_linear_attention"):
        retention(normal(B, T, d), normal(B, T, d), normal(B, T, d_v), torch.zeros(B, T, d).double())


def test_retention_is_the_lightning_attention_of_minimax():
    """Its heads fade at fixed rates; it computes blocks of three positions. What its norm receives are the contexts."""
    reason = "transformers is not installed: pip install -e '.[peers]'"
    transformers = pytest.importorskip("transformers", reason=reason)
    published = pytest.importorskip("transformers.models.minimax.modeling_minimax", reason=reason)
    config = transformers.MiniMaxConfig(
        hidden_size=12,
        num_attention_heads=3,
        head_dim=6,
        num_hidden_layers=2,
        block_size=3,
        layer_types=["linear_attention"] * 2,
    )
    torch.manual_seed(0)
    layer, seen = published.MiniMaxLightningAttention(config, 0), []
    layer.norm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = torch.randn(B, T, 12)
    layer(x, None, None)
    q, k, v = F.silu(layer.qkv_proj(x)).unflatten(-1, (3, 18)).transpose(1, 2).split(6, dim=-1)
    ours = retention(q, k, v, -layer.slope_rate[:, 0].expand(B, 3, T))
    torch.testing.assert_close(ours.transpose(1, 2).flatten(2), seen[0], atol=1e-5, rtol=1e-4)
