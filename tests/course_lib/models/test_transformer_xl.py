"""Transformer-XL: with a memory that covers everything, segments give the same predictions as the whole text."""

import math

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.attention import relative_attention
from course_lib.blocks import Sizes, encoder_stack
from course_lib.generation import beam_search, generate
from course_lib.models import TransformerXL
from course_lib.models.transformer_xl import SegmentMemory
from course_lib.primitives import sinusoids

B, T, N = 2, 13, 17
SIZES = Sizes(d_model=6, n_heads=3, d_ff=19, n_layers=2)
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))


def model(n_memory=T, seed=0, **rest):
    """With weights wider than at the start, u and v among them, so that tokens and distances differ."""
    torch.manual_seed(seed)
    xl = TransformerXL(N, SIZES, n_memory, **rest).double()
    with torch.no_grad():
        for parameter in xl.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return xl


def likeliest(logits):
    return logits.argmax(-1)


def read_in(xl, lengths, tokens=TOKENS):
    """Read a text in segments of the given lengths: all logits, and the last memory."""
    memory, said = None, []
    for segment in tokens.split(lengths, dim=1):
        logits, memory = xl.read(segment, memory)
        said.append(logits)
    return torch.cat(said, dim=1), memory


def normalise(x, norm):
    centred = x - x.mean()
    return norm.weight * centred / (centred.square().mean() + norm.eps).sqrt() + norm.bias


def by_the_paper(xl, segments):
    """Section 3.3's summary, for one text: position by position, head by head."""
    d_model, n_heads, _, n_layers = SIZES
    d, E, said = d_model // n_heads, xl.tokens.weight, []
    memory = [[] for _ in range(n_layers)]
    for segment in segments:
        h = [math.sqrt(d_model) * E[token] for token in segment]
        for block, m in zip(xl.blocks, memory, strict=True):
            attention = block.mixer.attention
            mechanism = attention.mechanism
            reached = [x.detach() for x in m] + h
            m[:] = reached[max(len(reached) - xl.n_memory, 0) :]
            mixed = []
            for i in range(len(h)):
                at, parts = len(reached) - len(h) + i, []
                for n in range(n_heads):
                    rows = slice(n * d, (n + 1) * d)
                    q = attention.W_q.weight[rows] @ h[i]
                    scores = []
                    for j in range(at + 1):
                        k = attention.W_k.weight[rows] @ reached[j]
                        r = mechanism.W_r.weight[rows] @ sinusoids(at - j, 1, d_model)[0].double()
                        scores.append((q @ k + q @ r + mechanism.bias_u[n] @ k + mechanism.bias_v[n] @ r) / math.sqrt(d))
                    weights = torch.stack(scores).softmax(0)
                    parts.append(sum(w * (attention.W_v.weight[rows] @ x) for w, x in zip(weights, reached, strict=False)))
                mixed.append(attention.W_o.weight @ torch.cat(parts))
            h = [normalise(x + y, block.norm_1) for x, y in zip(h, mixed, strict=True)]
            h = [normalise(x + block.feed_forward(x[None])[0], block.norm_2) for x in h]
        said += [E @ x for x in h]
    return torch.stack(said)


@pytest.mark.parametrize("n_memory", [0, 1, 4, T])
def test_logits_and_gradients_are_those_of_the_papers_equations(n_memory):
    results = []
    for papers in (False, True):
        xl = model(n_memory)
        said = by_the_paper(xl, TOKENS[0].split(4)) if papers else read_in(xl, 4, TOKENS[:1])[0][0]
        loss = said.logsumexp(-1).square().sum()
        results.append((said, torch.autograd.grad(loss, list(xl.parameters()))))
    torch.testing.assert_close(results[0], results[1])


def test_one_segment_without_a_memory_is_a_stack_of_encoder_blocks():
    xl = model(n_memory=0)
    mechanism = xl.blocks[0].mixer.attention.mechanism
    stack = encoder_stack(SIZES, mechanism).double()
    weights = {f"blocks.{name}": tensor for name, tensor in xl.blocks.state_dict().items()}
    missing, unexpected = stack.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.endswith("bias") for name in missing)
    for name in missing:
        nn.init.zeros_(stack.get_parameter(name))
    x = SIZES.d_model**0.5 * xl.tokens(TOKENS)
    torch.testing.assert_close(xl(TOKENS), stack(x) @ xl.tokens.weight.mT)
    torch.testing.assert_close(xl(TOKENS), model(n_memory=5)(TOKENS))
    assert [layer.shape for layer in xl.read(TOKENS)[1].layers] == [(B, 0, SIZES.d_model)] * SIZES.n_layers


@pytest.mark.parametrize("lengths", [[1] * T, [4, 4, 4, 1], [12, 1], [1, 12], [5, 0, 8], [T]])
def test_segments_with_a_memory_of_all_are_the_whole_text_at_once(lengths):
    xl = model(n_memory=T)
    said, memory = read_in(xl, lengths)
    torch.testing.assert_close(said, xl(TOKENS))
    torch.testing.assert_close(memory, xl.read(TOKENS)[1])


def test_a_shorter_memory_covers_the_first_segments_it_reaches_and_no_more():
    """The control: of segments of 4, a memory of 4 covers the first two, and misses something of the third."""
    said, whole = read_in(model(n_memory=4), 4)[0], model()(TOKENS)
    torch.testing.assert_close(said[:, :8], whole[:, :8])
    assert (said[:, 8:] - whole[:, 8:]).abs().amax(-1).min() > 1e-3


def test_the_inputs_of_the_first_layer_are_those_of_the_whole_text_whatever_the_memory():
    """They do not depend on the memory, so the stored ones are the last of the text."""
    short, whole = read_in(model(n_memory=3), 2)[1], model().read(TOKENS)[1]
    torch.testing.assert_close(short.layers[0], whole.layers[0][:, -3:])
    assert (short.layers[1] - whole.layers[1][:, -3:]).abs().max() > 1e-3


@pytest.mark.parametrize("n_memory", [1, 2, 3])
def test_layers_reach_as_far_back_as_their_memories_one_after_the_other(n_memory):
    """One token at a time: L layers reach L · n_memory tokens back, and no further."""
    xl, last = model(n_memory), read_in(model(n_memory), 1)[0][:, -1]
    for back in range(1, T):
        other = TOKENS.clone()
        other[:, -1 - back] = (other[:, -1 - back] + 1) % N
        changed = read_in(xl, 1, other)[0][:, -1]
        assert (changed != last).any() == (back <= SIZES.n_layers * n_memory), back


def test_gradients_stop_at_the_border_of_a_segment():
    xl, kept = model(), []
    xl.tokens.register_forward_hook(lambda _m, _i, out: kept.append(out))
    said, memory = read_in(xl, 4)
    assert not any(layer.requires_grad for layer in memory.layers)
    first, second, *_ = kept
    for loss, seen in ((said[:, :4], (True, False)), (said[:, 4:8], (False, True))):
        found = torch.autograd.grad(loss.square().sum(), (first, second), retain_graph=True, allow_unused=True)
        assert tuple(g is not None and bool(g.any()) for g in found) == seen


def test_the_equation_and_the_shifted_form_make_one_model():
    results = []
    for rest in ({}, {"form": relative_attention}):
        xl = model(n_memory=5, **rest)
        said, _ = read_in(xl, 4)
        results.append((said, torch.autograd.grad(said.square().sum(), list(xl.parameters()))))
    torch.testing.assert_close(results[0], results[1])


def test_no_position_depends_on_a_later_one():
    xl, changed = model(n_memory=3), torch.cat([TOKENS[:, :6], (TOKENS[:, 6:] + 1) % N], dim=1)
    assert torch.equal(xl(TOKENS)[:, :6], xl(changed)[:, :6])
    assert not torch.equal(xl(TOKENS)[:, 6:], xl(changed)[:, 6:])


def test_each_text_is_its_own():
    xl = model(n_memory=3)
    together = read_in(xl, 4)[0]
    torch.testing.assert_close(torch.cat([read_in(xl, 4, row[None])[0] for row in TOKENS]), together)


@pytest.mark.parametrize("read", [0, 1, 5])
def test_one_token_at_a_time_it_says_what_it_says_in_parallel(read):
    xl, memory = model(), model().start(TOKENS[:, :read])
    for t in range(read, T):
        logits, memory = xl.step(TOKENS[:, t], memory)
        torch.testing.assert_close(logits, xl(TOKENS)[:, t])


def test_a_memory_is_a_value():
    xl = model(n_memory=4)
    memory = xl.start(TOKENS[:, :6])
    first, later = xl.step(TOKENS[:, 6], memory)
    xl.step(TOKENS[:, 7], memory)
    again, same = xl.step(TOKENS[:, 6], memory)
    assert torch.equal(first, again)
    assert all(torch.equal(a, b) for a, b in zip(later.layers, same.layers, strict=True))


def test_it_generates_what_follows_from_what_it_reads():
    xl = model(n_memory=30)
    written, everything = generate(xl, TOKENS, 9, likeliest), TOKENS
    for _ in range(9):
        everything = torch.cat([everything, likeliest(xl(everything)[:, -1:])], dim=1)
    assert torch.equal(written, everything[:, T:])
    beam = beam_search(xl.step, xl.start(TOKENS[:, :-1]), TOKENS[:, -1], end=N, padding=0, max_length=5, width=1)
    assert torch.equal(beam.tokens[:, 0], written[:, :5])


def test_generation_keeps_no_more_than_its_memory():
    xl = model(n_memory=4)
    memory = xl.start(TOKENS)
    for _ in range(3):
        assert {layer.shape for layer in memory.layers} == {(B, 4, SIZES.d_model)}
        memory = xl.step(TOKENS[:, 0], memory)[1]
    xl.n_memory = 2
    assert {layer.shape[1] for layer in xl.step(TOKENS[:, 0], memory)[1].layers} == {2}


def test_it_has_the_parameters_that_its_equations_name():
    d, _, d_ff, n = SIZES
    block = 5 * d * d + 2 * d + (2 * d * d_ff + d_ff + d) + 4 * d
    assert sum(p.numel() for p in model().parameters()) == N * d + n * block


def test_every_attention_can_be_recorded():
    xl = model(n_memory=3)
    with record(xl) as seen:
        read_in(xl, [4, 9])
    assert [attended.weights.shape for attended in seen["blocks.1.mixer.attention"]] == [(B, 3, 4, 4), (B, 3, 9, 12)]


def test_dropout_acts_in_training_alone():
    xl, plain = model(dropout=0.5), model()
    assert not torch.equal(xl.train()(TOKENS), xl(TOKENS))
    torch.testing.assert_close(xl.eval()(TOKENS), plain(TOKENS))


def test_it_learns_across_segments():
    """Texts that repeat every five tokens, read in segments of three: without a memory the next token cannot be predicted."""
    losses = {}
    for n_memory in (0, 5):
        torch.manual_seed(0)
        xl = TransformerXL(N, Sizes(24, 2, 48, 1), n_memory)
        optimiser = torch.optim.Adam(xl.parameters(), lr=2e-2)
        for _ in range(45):
            tokens, memory = torch.randint(N, (32, 5)).repeat(1, 2), None
            for segment in tokens[:, :9].split(3, dim=1):
                said, memory = xl.read(segment, memory)
            loss = nn.functional.cross_entropy(said.flatten(0, 1), tokens[:, 7:].flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses[n_memory] = loss.item()
    assert losses[0] > 2.5
    assert losses[5] < 0.5


def test_the_smallest_texts():
    xl = model()
    assert xl(TOKENS[:, :0]).shape == (B, 0, N)
    assert xl(TOKENS[:1, :1]).shape == (1, 1, N)
    assert xl(TOKENS[:0]).shape == (0, T, N)
    assert [layer.shape for layer in xl.start(TOKENS[:, :0]).layers] == [(B, 0, SIZES.d_model)] * SIZES.n_layers


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_memory ≥ 0 states, got -1"):
        TransformerXL(N, SIZES, -1)
    with pytest.raises(ValueError, match="does not divide into 3 heads"):
        TransformerXL(N, Sizes(7, 3, 19, 2), 5)
    xl, memory = model(), model().start(TOKENS)
    with pytest.raises(RuntimeError, match="Expected size 2 but got size 1"):
        xl.read(TOKENS[:1], memory)
    with pytest.raises(ValueError, match="shorter"):
        xl.step(TOKENS[:, 0], SegmentMemory(memory.layers[:1]))


def test_u_and_v_are_drawn_as_the_matrices_are():
    """As in the published code, which draws r_w_bias and r_r_bias by the rule of its matrices."""
    torch.manual_seed(0)
    sizes = Sizes(d_model=192, n_heads=4, d_ff=7, n_layers=3)
    xl, std = TransformerXL(N, sizes, 3), (3 * 192) ** -0.5
    drawn = torch.stack([p for name, p in xl.named_parameters() if name.endswith(("bias_u", "bias_v"))])
    assert drawn.shape == (6, 4, 48)
    assert abs(drawn.std().item() / std - 1) < 0.2
    assert abs(drawn.mean().item()) < 0.2 * std
