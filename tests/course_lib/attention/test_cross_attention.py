"""Cross-attention: queries from one sequence, keys and values from the other."""

import torch
from torch import nn

from course_lib.attention import cross_attention

B, H, T_q, T_k, d_x, d_m = 2, 3, 5, 7, 12, 11


def weights(normal):
    return normal(d_x, d_x, scale=0.4), normal(d_x, d_m, scale=0.4), normal(d_x, d_m, scale=0.4), normal(d_x, d_x, scale=0.4)


def test_it_is_torchs_own(normal):
    """torch.nn.MultiheadAttention with keys and values of another size, and no biases."""
    W_q, W_k, W_v, W_o = weights(normal)
    theirs = nn.MultiheadAttention(d_x, H, bias=False, kdim=d_m, vdim=d_m, batch_first=True).double()
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight")
    theirs.load_state_dict({name: W.detach() for name, W in zip(names, (W_q, W_k, W_v, W_o), strict=True)})
    x, memory = normal(B, T_q, d_x), normal(B, T_k, d_m)
    mask = torch.arange(T_k) < torch.tensor([7, 4])[:, None, None]
    context, rows = cross_attention(x, memory, W_q, W_k, W_v, W_o, H, mask)
    expected = theirs(x, memory, memory, key_padding_mask=~mask[:, 0], average_attn_weights=False)
    torch.testing.assert_close((context, rows), expected)


def test_the_memory_answers_and_the_sequence_asks(normal):
    """With one memory token, every context is its value, for any query; order and number of memory tokens are free."""
    W = weights(normal)
    x, memory = normal(B, T_q, d_x), normal(B, T_k, d_m)
    one = cross_attention(x, memory[:, :1], *W, H).context
    torch.testing.assert_close(one, (memory[:, :1] @ W[2].mT @ W[3].mT).expand(-1, T_q, -1))
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    torch.testing.assert_close(cross_attention(x, memory[:, order], *W, H).context, cross_attention(x, memory, *W, H).context)


def test_gradients_against_differences(normal):
    inputs = normal(2, 3, 4), normal(2, 5, 6), normal(4, 4), normal(4, 6), normal(4, 6), normal(4, 4)
    assert torch.autograd.gradcheck(lambda *x: tuple(cross_attention(*x, n_heads=2)), inputs, fast_mode=True)


def test_a_memory_that_may_not_be_looked_at_gives_nothing(normal):
    nowhere = torch.zeros(1, 1, T_k, dtype=torch.bool)
    context, rows = cross_attention(normal(B, T_q, d_x), normal(B, T_k, d_m), *weights(normal), H, nowhere)
    assert not context.any()
    assert not rows.any()
