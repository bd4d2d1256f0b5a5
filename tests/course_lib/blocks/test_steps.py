"""Steps: every causal layer, block and stack computes position by position what `forward` computes for all of them at once."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib.attention import (
    AttentionDropout,
    ContextOnly,
    LinearAttention,
    LocalPredictive,
    MultiHead,
    PerformerAttention,
    RelativeAttention,
    StepwiseMechanism,
    causal_attention,
    causal_linear_attention,
    causal_performer_attention,
    linear_attention,
    scaled_dot_product_attention,
)
from course_lib.blocks import (
    Block,
    CrossAttention,
    FeedForward,
    SelfAttention,
    Sizes,
    Stack,
    TokenMixing,
    decoder_stack,
    encoder_stack,
    post_norm,
    pre_norm,
)
from course_lib.blocks.block import StepwiseMixer
from course_lib.fast import (
    chunked_linear_attention,
    fused_causal_attention,
    fused_scaled_dot_product_attention,
    inplace_linear_attention_step,
)
from course_lib.primitives import padding_mask
from tests.course_lib.attention.other_forms import recurrent_linear_attention

B, T, T_K = 2, 11, 7
SIZES = Sizes(d_model=15, n_heads=3, d_ff=13, n_layers=2)
MEMORY_MASK = padding_mask(torch.tensor([7, 4]), T_K)
CAUSAL = {
    "softmax": causal_attention,
    "softmax, fused": fused_causal_attention,
    "linear, chunks": LinearAttention(mix=partial(chunked_linear_attention, chunk=3)),
    "linear, prefix sums": LinearAttention(mix=causal_linear_attention),
    "linear, one by one": LinearAttention(mix=recurrent_linear_attention),
    "linear, learned features": LinearAttention(nn.Sequential(nn.Linear(5, 19), nn.Softplus()), chunked_linear_attention),
}
each_kind = pytest.mark.parametrize("kind", ["encoder", "decoder"])
each_mechanism = pytest.mark.parametrize("name", CAUSAL)
each_residual = pytest.mark.parametrize("residual", [post_norm, pre_norm])


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def made(kind, name, residual=post_norm, dropout=0.0):
    """A stack of causal blocks, its inputs other than x, and the context of each of its steps."""
    torch.manual_seed(0)
    if kind == "encoder":
        stack, memory, of_a_step = encoder_stack(SIZES, CAUSAL[name], residual=residual, dropout=dropout), (), ()
    else:
        stack = decoder_stack(SIZES, own=CAUSAL[name], residual=residual, dropout=dropout)
        memory, of_a_step = (drawn(B, T_K, SIZES.d_model, seed=1), MEMORY_MASK), (MEMORY_MASK,)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return stack.double(), memory, of_a_step


def forward(stack, x, memory):
    """All positions at once; a decoder block takes the mask of its own sequence before that of the memory."""
    return stack(x, memory[0], None, memory[1]) if memory else stack(x)


def stepped(layer, x, n_read, memory=(), of_a_step=()):
    """The first n_read positions at once, then the others one by one."""
    y, state = layer.read(x[:, :n_read], *memory)
    rows = [y]
    for t in range(n_read, x.shape[1]):
        y, state = layer.step(x[:, t : t + 1], state, *of_a_step)
        rows.append(y)
    return torch.cat(rows, dim=1)


def copied(state):
    return state.clone() if isinstance(state, torch.Tensor) else tuple(map(copied, state))


@each_residual
@each_mechanism
@each_kind
@pytest.mark.parametrize("n_read", [0, 1, 6, T])
def test_a_prefix_read_and_the_rest_in_steps_give_the_rows_of_the_whole_sequence(kind, name, residual, n_read):
    stack, memory, of_a_step = made(kind, name, residual)
    x = drawn(B, T, SIZES.d_model)
    torch.testing.assert_close(stepped(stack, x, n_read, memory, of_a_step), forward(stack, x, memory), atol=1e-10, rtol=1e-10)


@each_residual
@each_mechanism
@each_kind
def test_in_bfloat16_they_agree_to_its_precision(kind, name, residual):
    stack, memory, of_a_step = made(kind, name, residual)
    x = drawn(B, T, SIZES.d_model)
    exact = forward(stack, x, memory)
    memory = (memory[0].bfloat16(), memory[1]) if memory else ()
    found = stepped(stack.bfloat16(), x.bfloat16(), 4, memory, of_a_step)
    assert found.dtype == torch.bfloat16
    assert (found.double() - exact).abs().max() < 0.05 * exact.abs().max()


@each_mechanism
@each_kind
def test_stepping_twice_from_one_state_gives_the_same_twice(kind, name):
    stack, memory, of_a_step = made(kind, name)
    x = drawn(B, T, SIZES.d_model)
    _, states = stack.read(x[:, :5], *memory)
    before = copied(states)
    first, after = stack.step(x[:, 5:6], states, *of_a_step)
    other, _ = stack.step(x[:, 6:7], states, *of_a_step)
    again, after_again = stack.step(x[:, 5:6], states, *of_a_step)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.testing.assert_close((copied(states), copied(after)), (before, copied(after_again)), atol=0, rtol=0)


@each_mechanism
@each_kind
def test_gradients_flow_through_the_steps(kind, name):
    stack, memory, of_a_step = made(kind, name, pre_norm)
    x = drawn(B, T, SIZES.d_model)
    weights = list(stack.parameters())
    at_once = torch.autograd.grad(forward(stack, x, memory).sin().sum(), weights)
    in_steps = torch.autograd.grad(stepped(stack, x, 4, memory, of_a_step).sin().sum(), weights)
    torch.testing.assert_close(in_steps, at_once, atol=1e-9, rtol=1e-9)


@each_kind
def test_dropout_is_not_applied(kind):
    stack, memory, of_a_step = made(kind, "softmax", dropout=0.5)
    x = drawn(B, T, SIZES.d_model)
    found = stepped(stack.train(), x, 4, memory, of_a_step)
    torch.testing.assert_close(found, forward(stack.eval(), x, memory))


@each_mechanism
def test_a_mixer_and_its_attention_step_as_a_stack_does(name):
    stack, _, _ = made("encoder", name)
    block, x = stack.blocks[0], drawn(B, T, SIZES.d_model)
    for layer in (block, block.mixer, block.mixer.attention):
        assert isinstance(layer, StepwiseMixer)
        whole = layer(x, x, x).context if layer is block.mixer.attention else layer(x)
        torch.testing.assert_close(stepped(layer, x, 4), whole)


def test_the_mechanism_decides_what_is_kept():
    x, d_k = drawn(B, T, SIZES.d_model), 5
    keys, values = encoder_stack(SIZES, causal_attention).double().read(x)[1][1]
    assert keys.shape == values.shape == (B, 3, T, d_k)
    S, z = encoder_stack(SIZES, CAUSAL["linear, chunks"]).bfloat16().read(x.bfloat16())[1][1]
    assert (S.shape, z.shape, S.dtype, z.dtype) == ((B, 3, d_k, d_k), (B, 3, d_k), torch.float32, torch.float32)


def test_a_step_has_the_form_that_it_is_given():
    stack, _, _ = made("encoder", "linear, chunks")
    x = drawn(B, T, SIZES.d_model)
    with torch.no_grad():
        _, states = stack.read(x[:, :5])
        expected, new = stack.step(x[:, 5:6], states)
        found, same = stack.step(x[:, 5:6], states, inplace_linear_attention_step)
    torch.testing.assert_close(found, expected)
    assert all(a is b for old, kept in zip(states, same, strict=True) for a, b in zip(old, kept, strict=True))
    torch.testing.assert_close(same, new)


def test_a_mechanism_of_ones_own_keeps_what_it_likes():
    """A causal average over the positions so far: the state is their sum and their number."""

    class RunningMean(nn.Module):
        def forward(self, q, k, v, mask=None):
            n = torch.arange(1, v.shape[-2] + 1, dtype=v.dtype)[:, None]
            return ContextOnly(v.cumsum(-2) / n)

        def start(self, k, v):
            return v.sum(-2, keepdim=True), v.shape[-2]

        def step(self, q, k, v, state):
            total, n = state[0] + v, state[1] + 1
            return ContextOnly(total / n), (total, n)

    assert isinstance(RunningMean(), StepwiseMechanism)
    stack, x = encoder_stack(SIZES, RunningMean()).double(), drawn(B, T, SIZES.d_model)
    torch.testing.assert_close(stepped(stack, x, 4), stack(x))


@pytest.mark.parametrize(
    "mechanism",
    [
        scaled_dot_product_attention,
        fused_scaled_dot_product_attention,
        LinearAttention(mix=linear_attention),
        PerformerAttention(5, 11, causal_performer_attention),
        LocalPredictive(5, 5),
        RelativeAttention(15, 3),
    ],
)
def test_a_mechanism_without_steps_is_refused(mechanism):
    stack = encoder_stack(SIZES, mechanism)
    with pytest.raises(ValueError, match="steps compute causal"):
        stack.read(torch.zeros(B, 1, SIZES.d_model))


def test_a_mixer_without_steps_is_refused():
    d, x = SIZES.d_model, torch.zeros(B, T, SIZES.d_model)
    for mixer in (TokenMixing(T, 5), nn.Identity()):
        with pytest.raises(ValueError, match="`read` and `step`"):
            Block(mixer, FeedForward(d, 3), d).read(x)
    with pytest.raises(ValueError, match="`read` and `step`"):
        SelfAttention(nn.Identity()).read(x)
    with pytest.raises(ValueError, match="`read` and `step`"):
        Stack([nn.Linear(d, d)], nn.Identity()).read(x)
    with pytest.raises(ValueError, match="need MultiHead"):
        CrossAttention(nn.Identity()).read(x, x)


def test_each_block_needs_a_state():
    stack, _, _ = made("encoder", "softmax")
    _, states = stack.read(drawn(B, T, SIZES.d_model))
    with pytest.raises(ValueError, match="shorter"):
        stack.step(drawn(B, 1, SIZES.d_model), states[:1])


def test_a_causal_form_of_ones_own_steps_too():
    mix = LinearAttention(mix=lambda *inputs: chunked_linear_attention(*inputs))
    stack, x = encoder_stack(SIZES, mix).double(), drawn(B, T, SIZES.d_model)
    torch.testing.assert_close(stepped(stack, x, 4), stack(x))


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention, AttentionDropout(causal_attention, 0.0)])
def test_steps_to_a_memory_of_which_each_query_sees_a_part_are_refused(mechanism):
    x = torch.zeros(B, 0, SIZES.d_model)
    with pytest.raises(ValueError, match="all of the memory"):
        CrossAttention(MultiHead(SIZES.d_model, 3, mechanism)).read(x, torch.zeros(B, T_K, SIZES.d_model))
