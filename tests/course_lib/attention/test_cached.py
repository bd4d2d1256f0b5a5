"""Decoding token by token gives the results of the whole sequence; earlier results do not change."""

import pytest
import torch

from course_lib.attention import MultiHead, cached_step, causal_attention, multi_head_attention
from course_lib.primitives import causal_mask

B, T, H, d_k, d_v, d_in, d_model = 2, 5, 3, 7, 11, 13, 17


def weights(normal):
    sizes = ((H * d_k, d_in), (H * d_k, d_in), (H * d_v, d_in), (d_model, H * d_v))
    return tuple(normal(*size, scale=0.3) for size in sizes)


def empty(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


def step_by_step(x, *W):
    keys, values, outputs = empty(B, H, 0, d_k), empty(B, H, 0, d_v), []
    for x_t in x.unbind(1):
        output, keys, values = cached_step(x_t, keys, values, *W)
        outputs.append(output)
    return torch.stack(outputs, 1)


def test_all_steps_are_causal_attention_over_the_whole_sequence(normal, agree):
    agree(
        step_by_step,
        lambda x, *W: multi_head_attention(x, x, x, *W, n_heads=H, mask=causal_mask(T)).context,
        normal(B, T, d_in),
        *weights(normal),
    )


def test_it_is_the_last_row_of_the_module():
    """Without biases, MultiHead over the causal mechanism is the independent form."""
    torch.manual_seed(0)
    module = MultiHead(12, 3, causal_attention, bias=False)
    x = torch.randn(B, T, 12)
    keys, values = torch.empty(B, 3, 0, 4), torch.empty(B, 3, 0, 4)
    W = [getattr(module, name).weight for name in ("W_q", "W_k", "W_v", "W_o")]
    for t in range(T):
        output, keys, values = cached_step(x[:, t], keys, values, *W)
    torch.testing.assert_close(output, module(x, x, x).context[:, -1])


def test_the_past_is_kept_as_it_was_and_the_new_token_stands_after_it(normal):
    keys, values, W = normal(B, H, T, d_k), normal(B, H, T, d_v), weights(normal)
    before = keys.clone(), values.clone()
    x = normal(B, d_in)
    output, new_keys, new_values = cached_step(x, keys, values, *W)
    assert output.shape == (B, d_model)
    assert torch.equal(new_keys[:, :, :T], keys)
    assert torch.equal(new_values[:, :, :T], values)
    assert torch.equal(keys, before[0])
    assert torch.equal(values, before[1])
    torch.testing.assert_close(new_keys[1, 2, T], W[1][2 * d_k :] @ x[1])
    torch.testing.assert_close(new_values[1, 2, T], W[2][2 * d_v :] @ x[1])


def test_the_first_token_sees_itself_alone(normal):
    """Its weight is 1, so that queries and keys do not matter."""
    x, (W_q, W_k, W_v, W_o) = normal(B, d_in), weights(normal)
    output, _, _ = cached_step(x, empty(B, H, 0, d_k), empty(B, H, 0, d_v), W_q, W_k, W_v, W_o)
    torch.testing.assert_close(output, x @ W_v.mT @ W_o.mT)


def test_a_step_by_hand():
    """One head of size 1: the past has key ln 3 and value 4, the new token 1 has key 0 and value 8; ¾ · 4 + ¼ · 8."""
    one = torch.ones(1, 1)
    past = torch.full((1, 1, 1, 1), 1.0986123), torch.full((1, 1, 1, 1), 4.0)
    output, keys, values = cached_step(one, *past, one, 0 * one, 8 * one, one)
    torch.testing.assert_close(output, torch.tensor([[5.0]]))
    assert keys.flatten().tolist() == [pytest.approx(1.0986123), 0.0]
    assert values.flatten().tolist() == [4.0, 8.0]


@pytest.mark.parametrize("autocast", [False, True])
def test_in_float16_it_is_the_step_of_the_module_where_scores_pass_65504(autocast):
    """With one head of 64 features, each projected by the identity; the module's mechanism computes in float32."""
    generator = torch.Generator().manual_seed(0)
    x, eye = 300 * torch.randn(3, T, 64, generator=generator), torch.eye(64)
    assert (x @ x.mT / 8).amax() > 2 * 65_504
    module = MultiHead(64, 1, causal_attention, bias=False)
    for W in module.parameters():
        torch.nn.init.eye_(W)
    dtype = torch.float32 if autocast else torch.float16
    x, eye, module = x.to(dtype), eye.to(dtype), module.to(dtype)
    keys = values = x.new_zeros(3, 1, 0, 64)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        _, state = module.read(x[:, :0])
        for t in range(T):
            output, keys, values = cached_step(x[:, t], keys, values, *[eye] * 4)
            expected, state = module.step(x[:, t, None], state)
    assert output.dtype == keys.dtype == values.dtype == dtype
    assert expected.isfinite().all()
    torch.testing.assert_close(output.double(), expected[:, 0].double(), rtol=0.002, atol=0.2)


def test_gradients_against_differences(normal):
    inputs = normal(2, 3), normal(2, 2, 3, 5), normal(2, 2, 3, 7), normal(10, 3), normal(10, 3), normal(14, 3), normal(5, 14)
    assert torch.autograd.gradcheck(lambda *x: tuple(cached_step(*x)), inputs)
