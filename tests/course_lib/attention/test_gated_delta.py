"""Gated delta attention: by its formulas, in constant memory, without the future, and by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import GatedDeltaAttention, delta_attention

B, T, D, H, D_K, D_V = 2, 11, 7, 3, 5, 2


def layer(width=4, chunk=64, seed=0):
    torch.manual_seed(seed)
    made = GatedDeltaAttention(D, H, D_K, D_V, width, chunk).double()
    nn.init.normal_(made.norm.weight, 1.0, 0.2)
    return made


def drawn(n=T, seed=1):
    return torch.randn(B, n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("width", [1, 2, 4])
def test_it_computes_its_formulas(width):
    """With a convolution of torch, and each head by itself."""
    made, x = layer(width), drawn()
    u = F.conv1d(F.pad((x @ made.W_qkv.weight.mT).mT, (width - 1, 0)), made.taps.mT[:, None], groups=made.taps.shape[1]).mT
    u = u * torch.sigmoid(u)
    outputs = []
    for h in range(H):
        q, k = (u[..., start : start + D_K] for start in (h * D_K, H * D_K + h * D_K))
        v = u[..., 2 * H * D_K + h * D_V :][..., :D_V]
        q, k = (part / part.square().sum(-1, keepdim=True).sqrt() for part in (q, k))
        beta = torch.sigmoid(x @ made.W_beta.weight[h])
        steps = torch.log1p(torch.exp(x @ made.W_decay.weight[h] + made.step_offset[h]))
        context = delta_attention(q, k, v, beta, -made.log_rate[h].exp() * steps)
        normed = context / (context.square().mean(-1, keepdim=True) + 1e-6).sqrt() * made.norm.weight
        gate = x @ made.W_gate.weight[h * D_V : (h + 1) * D_V].mT
        outputs.append(normed * gate * torch.sigmoid(gate))
    torch.testing.assert_close(made(x), torch.cat(outputs, -1) @ made.W_o.weight.mT)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("n_read", [0, 1, 3, T])
def test_step_by_step_it_gives_what_it_gives_at_once_and_its_state_has_one_size(width, n_read):
    made, x = layer(width, chunk=4), drawn()
    at_once = made(x)
    y, state = made.read(x[:, :n_read])
    torch.testing.assert_close(y, at_once[:, :n_read])
    for t in range(n_read, T):
        before = [part.clone() for part in state]
        y, later = made.step(x[:, t : t + 1], state)
        assert all(map(torch.equal, before, state))
        assert [part.shape for part in later] == [(B, H, D_K, D_V), (B, width - 1, H * (2 * D_K + D_V))]
        torch.testing.assert_close(y[:, 0], at_once[:, t])
        state = later


def test_a_state_that_was_read_is_the_state_of_as_many_steps():
    made, x = layer(), drawn()
    state = made.read(x[:, :0])[1]
    for x_t in x.split(1, dim=1):
        state = made.step(x_t, state)[1]
    for one, other in zip(state, made.read(x)[1], strict=True):
        torch.testing.assert_close(one, other)


def test_no_position_reads_a_later_one():
    made, x = layer(), drawn()
    other = x.clone()
    other[:, 6:] = drawn(T - 6, seed=2)
    torch.testing.assert_close(made(x)[:, :6], made(other)[:, :6])
    assert not torch.allclose(made(x)[:, 6:], made(other)[:, 6:])


def test_two_positions_by_hand():
    """Keys of one feature have length 1: with β = gate = ½, v, v leaves v/2, then v/4 + ½ (v - v/4) = 5/8 v."""
    made = GatedDeltaAttention(1, 1, width=1).double()
    made.norm = nn.Identity()
    with torch.no_grad():
        for weights in made.parameters():
            weights.fill_(1.0)
        for weights in (made.W_beta.weight, made.W_decay.weight, made.log_rate, made.step_offset):
            weights.zero_()  # so β = σ(0), and the gate exp(-softplus(0)) = exp(-ln 2)
        v = 2 / (1 + math.exp(-2))  # SiLU(2), which is the output gate too
        y = made(torch.full((1, 2, 1), 2.0, dtype=torch.float64))
    torch.testing.assert_close(y[0, :, 0], torch.tensor([v * v / 2, v * v * 5 / 8], dtype=torch.float64))


def test_the_decay_of_a_head_starts_between_a_fifth_and_almost_one():
    torch.manual_seed(3)
    made = GatedDeltaAttention(256, 256, 1)
    gate = (-made.log_rate.exp() * F.softplus(made.step_offset)).exp()
    assert gate.min() > 0.2
    assert gate.max() > 0.99
    assert gate.max() < 1


def test_gradients():
    made = layer(width=2, chunk=2)
    names, weights = zip(*made.named_parameters(), strict=True)

    def run(x, *weights):
        return torch.func.functional_call(made, dict(zip(names, weights, strict=True)), x)

    assert torch.autograd.gradcheck(run, (drawn(5).requires_grad_(), *weights))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((7, 2), "does not divide into 2 heads"), ((7, 0), "0 heads"), ((8, 2, 3, 3, 0), "width must be at least 1")],
)
def test_sizes_that_make_no_layer_are_refused(sizes, said):
    with pytest.raises(ValueError, match=said):
        GatedDeltaAttention(*sizes)


def test_it_is_the_layer_of_qwen3_next():
    """The same weights in the reference implementation, whose queries are divided by √d_k: there, its ε counts d_k times.

    The tap weights are large, as its unit vectors have an ε of their own.
    """
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install -e '.[peers]'")
    published = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    config = transformers.Qwen3NextConfig(
        hidden_size=D,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        linear_num_key_heads=H,
        linear_num_value_heads=H,
        linear_key_head_dim=D_K,
        linear_value_head_dim=D_V,
        linear_conv_kernel_dim=4,
        rms_norm_eps=1e-6,
    )
    ours, theirs = layer().float(), published.Qwen3NextGatedDeltaNet(config, 0)
    ours.norm.eps = 1e-6 * D_K
    ours.taps.data *= 8
    q, k, v = (rows.unflatten(0, (H, -1)) for rows in ours.W_qkv.weight.split(ours.sizes))
    gate = ours.W_gate.weight.unflatten(0, (H, D_V))
    weights = {
        "in_proj_qkvz.weight": torch.cat([q, k, v, gate], dim=1).flatten(0, 1),  # head after head
        "in_proj_ba.weight": torch.stack([ours.W_beta.weight, ours.W_decay.weight], dim=1).flatten(0, 1),
        "conv1d.weight": ours.taps.mT[:, None],
        "A_log": ours.log_rate,
        "dt_bias": ours.step_offset,
        "norm.weight": ours.norm.weight,
        "out_proj.weight": ours.W_o.weight,
    }
    theirs.load_state_dict(weights)
    x = drawn(70).float()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
