"""The linear transformer: steps agree with the parallel form, in constant memory for any length of text."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import (
    causal_attention,
    causal_linear_attention,
    linear_attention,
    linear_attention_step,
)
from course_lib.blocks import Sizes, encoder_stack
from course_lib.fast import chunked_linear_attention, inplace_linear_attention_step
from course_lib.generation import generate
from course_lib.models import LinearTransformer
from course_tools.notebook import peak_memory
from tests.course_lib.attention.other_forms import recurrent_linear_attention

B, T, n_tokens = 2, 71, 17
SIZES = Sizes(d_model=12, n_heads=3, d_ff=19, n_layers=2)


def model(mix=chunked_linear_attention, **rest):
    torch.manual_seed(0)
    return LinearTransformer(n_tokens, SIZES, mix=mix, **rest).double()


def text(B=B, T=T):
    return torch.randint(n_tokens, (B, T), generator=torch.Generator().manual_seed(1))


def likeliest(logits):
    return logits.argmax(-1)


@pytest.mark.parametrize("step", [linear_attention_step, inplace_linear_attention_step])
@pytest.mark.parametrize("read", [0, 1, 30])
def test_one_token_at_a_time_it_says_what_it_says_in_parallel(step, read):
    net, tokens = model(), text()
    with torch.no_grad():
        at_once = net(tokens)
        begun, memory = net.read(tokens[:, :read])
        torch.testing.assert_close(begun, at_once[:, :read])
        for t in range(read, T):
            logits, memory = net.step(tokens[:, t], memory, step)
            torch.testing.assert_close(logits, at_once[:, t])
    assert memory.T == T


@pytest.mark.parametrize("mix", [causal_linear_attention, recurrent_linear_attention])
def test_how_the_sums_are_taken_does_not_matter(mix):
    torch.testing.assert_close(model(mix)(text()), model()(text()))


def test_the_gradients_are_those_of_the_steps():
    gradients = []
    for stepwise in (False, True):
        net, tokens = model(), text(T=7)
        if stepwise:
            logits, memory = [], net.start(tokens[:, :0])
            for t in range(7):
                said, memory = net.step(tokens[:, t], memory)
                logits.append(said)
            said = torch.stack(logits, dim=1)
        else:
            said = net(tokens)
        said.logsumexp(-1).square().sum().backward()
        gradients.append({name: weights.grad for name, weights in net.named_parameters()})
    torch.testing.assert_close(gradients[0], gradients[1])


def test_no_position_sees_a_later_one():
    net, tokens = model(), text()
    changed = torch.cat([tokens[:, :40], text()[:, 40:].flip(1)], dim=1)
    assert torch.equal(net(tokens)[:, :40], net(changed)[:, :40])
    assert not torch.equal(net(tokens)[:, 40:], net(changed)[:, 40:])


def test_each_text_is_its_own():
    net, tokens = model(), text(B=3)
    torch.testing.assert_close(torch.cat([net(row[None]) for row in tokens]), net(tokens))


def test_it_has_the_weights_of_a_transformer_and_differs_in_its_mixing_alone():
    net = model()
    twin = encoder_stack(SIZES, causal_attention, nn.functional.gelu, net.stack.blocks[0].residual).double()
    twin.load_state_dict(net.stack.state_dict())
    x = net._embed(text())
    first = net.stack.blocks[0], twin.blocks[0]
    assert not torch.allclose(first[0](x), first[1](x))
    torch.testing.assert_close(first[0](x[:, :1]), first[1](x[:, :1]))


def test_writing_goes_on_from_what_is_written():
    net, tokens = model(), text(T=5)
    written = generate(net, tokens, 9, likeliest)
    everything = tokens
    for _ in range(9):
        everything = torch.cat([everything, net(everything)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(written, everything[:, 5:])
    assert generate(net, tokens, 0, likeliest).shape == (B, 0)


def test_the_memory_has_one_size_and_writing_holds_no_more_the_longer_it_goes_on():
    net = model()
    sizes = {sum(x.numel() for layer in net.read(text(T=length))[1].layers for x in layer) for length in (0, 1, 50, 500)}
    d = SIZES.d_model // SIZES.n_heads
    assert sizes == {SIZES.n_layers * B * SIZES.n_heads * (d * d + d)}

    def held(n):
        return peak_memory(lambda: generate(net, text(T=1), n, likeliest)) - B * n * text().element_size()

    assert held(300) <= held(20) + 64


def test_every_token_costs_the_same():
    """Counted in operations: as many, on tensors of the same sizes, after five tokens as after five hundred."""
    net, counts = model(), []
    for read in (5, 500):
        _, memory = net.read(text(T=read))
        with FlopCounterMode(display=False) as counter:
            net.step(text()[:, 0], memory)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_another_feature_map():
    net, tokens = model(feature_map=lambda x: torch.cat([x.exp(), (-x).exp()], dim=-1)), text()
    _, memory = net.read(tokens[:, :-1])
    assert memory.layers[0][0].shape == (B, 3, 8, 4)
    torch.testing.assert_close(net.step(tokens[:, -1], memory)[0], net(tokens)[:, -1])


def test_in_bfloat16_the_memory_is_kept_in_float32():
    net, tokens = model().bfloat16(), text()
    logits, memory = net.read(tokens)
    said, memory = net.step(tokens[:, 0], memory)
    assert (logits.dtype, said.dtype) == (torch.bfloat16, torch.bfloat16)
    assert {x.dtype for layer in memory.layers for x in layer} == {torch.float32}
    exact = model()(tokens)
    torch.testing.assert_close(logits.double(), exact, atol=0.1, rtol=0)


@pytest.mark.parametrize("step", [linear_attention_step, inplace_linear_attention_step])
def test_under_autocast_the_memory_holds_sums_beyond_float16(step):
    net, tokens = model().float(), text()
    for block in net.stack.blocks:
        block.mixer.attention.W_v.bias.data.fill_(3e3)
    exact = net.start(tokens).layers
    with torch.no_grad(), torch.autocast("cpu", torch.float16):
        memory = net.start(tokens)
        logits, after = net.step(tokens[:, 0], memory, step)
    assert logits.isfinite().all()
    for (S, z), (S_exact, z_exact) in zip(memory.layers, exact, strict=True):
        assert S.abs().max() > torch.finfo(torch.float16).max
        torch.testing.assert_close((S, z), (S_exact, z_exact), rtol=0.05, atol=0.05 * S_exact.abs().max().item())
    assert {x.dtype for layer in after.layers for x in layer} == {torch.float32}


def test_each_layer_learns_its_own_feature_map_and_steps_with_it():
    d = SIZES.d_model // SIZES.n_heads
    given = nn.Sequential(nn.Linear(d, 5), nn.Softplus())
    net, tokens = model(feature_map=given), text()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(5):
        optimiser.zero_grad()
        net(tokens).logsumexp(-1).mean().backward()
        optimiser.step()
    first, second = (block.mixer.attention.mechanism.feature_map[0].weight for block in net.stack.blocks)
    assert not torch.allclose(first, second)
    _, memory = net.read(tokens[:, :-1])
    torch.testing.assert_close(net.step(tokens[:, -1], memory)[0], net(tokens)[:, -1])
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert all(parameter.grad is None for parameter in given.parameters())


def test_it_learns_to_repeat_itself():
    """A text that counts upwards: the loss falls far below a uniform guess."""
    net = model().float()
    tokens = (torch.arange(24) + torch.arange(8)[:, None]) % n_tokens
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        loss = nn.functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.3
    assert torch.equal(generate(net, tokens[:, :12], 12, likeliest), tokens[:, 12:])


def test_a_form_that_is_not_causal_is_refused():
    with pytest.raises(ValueError, match="attends to later positions, of which one is the answer"):
        model(linear_attention)


def test_the_smallest_texts():
    net = model()
    assert net(text(T=0)).shape == (B, 0, n_tokens)
    assert net(text(B=1, T=1)).shape == (1, 1, n_tokens)
    assert net(text(B=0)).shape == (0, T, n_tokens)
    with pytest.raises(ValueError, match="at least one token"):
        generate(net, text(T=0), 3, likeliest)
