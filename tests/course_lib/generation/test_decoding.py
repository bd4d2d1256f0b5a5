"""One interface for all generating models: states are values, and steps agree with the whole sequence."""

import pytest
import torch

from course_lib.attention import GeneralAttention, causal_attention
from course_lib.blocks import Sizes
from course_lib.fast import CachedGPT, fused_causal_attention
from course_lib.fast import gpt as of_gpt
from course_lib.generation import beam_search, decode, generate, greedy
from course_lib.models import (
    GPT,
    BahdanauDecoder,
    Encoder,
    LinearTransformer,
    Llama,
    LuongDecoder,
    PlainDecoder,
    Seq2Seq,
    ShowAndTell,
    ShowAttendAndTell,
    Transformer,
)
from course_tools.notebook.memory import peak_memory

B, T, N = 3, 5, 13
SIZES = Sizes(d_model=6, n_heads=3, d_ff=11, n_layers=2)
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 2, 1])
FIRST = torch.tensor([3, 1, 4])


def widened(model):
    """In float64, with weights so wide that tokens change the logits."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def seq2seq(decoder):
    return widened(Seq2Seq(Encoder(N, 7, 4), decoder))


def image(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


MODELS = {
    "GPT": lambda: (widened(GPT(N, 19, SIZES)), (TOKENS,)),
    "GPT, padded prompts": lambda: (widened(GPT(N, 19, SIZES)), (TOKENS, LENGTHS)),
    "cached GPT": lambda: (CachedGPT(widened(GPT(N, 19, SIZES))), (TOKENS,)),
    "cached GPT, padded prompts": lambda: (CachedGPT(widened(GPT(N, 19, SIZES))), (TOKENS, LENGTHS)),
    "cached GPT without a prompt": lambda: (CachedGPT(widened(GPT(N, 19, SIZES))), (TOKENS[:, :0],)),
    "Llama": lambda: (widened(Llama(N, SIZES, 3)), (TOKENS,)),
    "Llama, padded prompts": lambda: (widened(Llama(N, SIZES, 1)), (TOKENS, LENGTHS)),
    "linear transformer": lambda: (widened(LinearTransformer(N, SIZES)), (TOKENS,)),
    "no attention": lambda: (seq2seq(PlainDecoder(N, 7, 5, 8)), (TOKENS, LENGTHS)),
    "Bahdanau": lambda: (seq2seq(BahdanauDecoder(N, 7, 5, 8, 3)), (TOKENS, LENGTHS)),
    "Luong": lambda: (seq2seq(LuongDecoder(N, 7, 5, 8, GeneralAttention(5, 8))), (TOKENS, LENGTHS)),
    "Transformer": lambda: (widened(Transformer(N, N, SIZES)), (TOKENS, LENGTHS)),
    "Show and Tell": lambda: (widened(ShowAndTell(N, 7, 2, 3)), (image(B, 7),)),
    "Show, Attend and Tell": lambda: (widened(ShowAttendAndTell(N, 7, 2, 3, 11)), (image(B, 4, 7),)),
}
each_model = pytest.mark.parametrize("name", MODELS)


def copied(state):
    """The current numbers of a state."""
    if isinstance(state, torch.Tensor):
        return state.clone()
    return tuple(map(copied, state)) if isinstance(state, tuple) else state


@each_model
@torch.no_grad()
def test_stepping_twice_from_one_state_gives_the_same_twice(name):
    """Even after other tokens were read from it, and several steps later."""
    model, given = MODELS[name]()
    _, state = model.step(FIRST, model.start(*given))
    expected, after = model.step(FIRST + 1, state)
    following, _ = model.step(FIRST, after)
    other, branch = model.step(FIRST + 5, state)
    assert (other != expected).any()
    for _ in range(7):
        _, branch = model.step(FIRST, branch)
    torch.testing.assert_close(model.step(FIRST + 1, state)[0], expected)
    torch.testing.assert_close(model.step(FIRST, after)[0], following)


@each_model
@torch.no_grad()
def test_a_state_that_goes_on_in_two_ways_goes_on_as_two_states(name):
    """Both branches are stepped alternately; each gives the same results as alone."""
    model, given = MODELS[name]()

    def alone(offset):
        state = model.start(*given)
        return [(found := model.step(FIRST + offset * (i > 0), state), state := found[1])[0][0] for i in range(6)]

    start = model.start(*given)
    branches, logits = [start, start], ([], [])
    for i in range(6):
        for offset in (0, 1):
            found, branches[offset] = model.step(FIRST + offset * (i > 0), branches[offset])
            logits[offset].append(found)
    torch.testing.assert_close(logits[0], alone(0))
    torch.testing.assert_close(logits[1], alone(1))


@each_model
def test_a_beam_of_width_1_is_greedy_decoding(name):
    model, given = MODELS[name]()
    state = model.start(*given)
    best = greedy(model.step, state, FIRST, 2, 0, 8)
    assert torch.equal(beam_search(model.step, state, FIRST, 2, 0, 8, width=1).tokens[:, 0], best)
    assert torch.equal(greedy(model.step, state, FIRST, 2, 0, 8), best)


@each_model
def test_decoding_keeps_no_graph(name):
    model, given = MODELS[name]()
    logits = []
    decode(model.step, model.start(*given), FIRST, lambda found: logits.append(found) or found.argmax(-1), 3)
    assert not any(found.requires_grad for found in logits)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@torch.no_grad()
def test_a_cache_that_outgrows_its_capacity_computes_the_same(lengths, monkeypatch):
    monkeypatch.setattr(of_gpt, "ROOM", 3)
    gpt = widened(GPT(N, 71, SIZES))
    cached = CachedGPT(gpt)
    state, cache = gpt.start(TOKENS, lengths), cached.start(TOKENS, lengths)
    for i in range(60):
        expected, state = gpt.step((FIRST + i) % N, state)
        found, cache = cached.step((FIRST + i) % N, cache)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
@pytest.mark.parametrize("n_read", [0, 1, T])
@torch.no_grad()
def test_a_cached_gpt_computes_the_steps_of_its_stack(mechanism, n_read):
    """Two forms of one computation: `Stack.step` layer by layer, and the optimised storage of `CachedGPT`."""
    gpt = widened(GPT(N, 19, SIZES, mechanism))
    prompt, cached = TOKENS[:, :n_read], CachedGPT(gpt)
    cache = cached.start(prompt)
    _, states = gpt.stack.read(gpt.tokens(prompt) + gpt.positions.vectors[:n_read])
    for i in range(n_read, 19):
        tokens = (FIRST + i) % N
        found, cache = cached.step(tokens, cache)
        y, states = gpt.stack.step(gpt.tokens(tokens[:, None]) + gpt.positions.vectors[i], states)
        torch.testing.assert_close(found, y[:, 0] @ gpt.tokens.weight.mT)
    for (keys, values), past in zip(states, cache.past, strict=True):
        torch.testing.assert_close(torch.stack([keys, values], dim=1), past[..., : cache.n, :])


@torch.no_grad()
def test_steps_along_one_sequence_copy_nothing():
    """Only a second step from one state, and growth, copy keys and values."""
    cached = CachedGPT(GPT(N, 40, SIZES))
    cache = cached.start(TOKENS)
    storages = set()
    for _ in range(10):
        _, cache = cached.step(FIRST, cache)
        storages.add(cache.past[0].data_ptr())
    assert len(storages) == 1
    _, first = cached.step(FIRST, cache)
    _, second = cached.step(FIRST, cache)
    assert first.past[0].data_ptr() in storages
    assert second.past[0].data_ptr() not in storages


@torch.no_grad()
def test_a_short_text_takes_no_more_than_one_and_a_half_caches():
    """Of the keys and values of all its tokens, 2 · 2 layers · d_model numbers each; beside it is a step's own memory."""
    cached, n = CachedGPT(GPT(N, 128, SIZES)), 120
    peak = peak_memory(lambda: generate(cached, TOKENS[:, :1], n, lambda logits: logits.argmax(-1)))
    assert peak <= 1.5 * 4 * B * n * 2 * SIZES.n_layers * SIZES.d_model


def test_without_an_end_each_sequence_has_its_full_length():
    def step(tokens, state):
        return torch.nn.functional.one_hot((tokens + 1) % 4, 4).float(), state

    found = decode(step, None, torch.tensor([0, 2]), lambda logits: logits.argmax(-1), 5)
    assert found.tolist() == [[1, 2, 3, 0, 1], [3, 0, 1, 2, 3]]
    ended = decode(step, None, torch.tensor([0, 2]), lambda logits: logits.argmax(-1), 5, end=3, padding=9)
    assert ended.tolist() == [[1, 2, 3], [3, 9, 9]]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"prompt": TOKENS[0]}, ValueError, r"prompt does not fit.* `prompt\[None\]`"),
        ({"prompt": TOKENS.tolist()}, TypeError, "prompt must be a tensor .* got list"),
        ({"lengths": LENGTHS.tolist()}, TypeError, "lengths must be a tensor .* got list"),
        ({"lengths": LENGTHS[:2]}, ValueError, "lengths does not fit"),
        ({"lengths": LENGTHS * 0}, ValueError, "lengths must be 3 numbers from 1 to 5"),
        ({"choose": torch.argmax}, ValueError, r"one token of each of 3 sequences, \(3,\), got \(\)"),
        ({"choose": lambda logits: logits.argmax(-1, keepdim=True)}, ValueError, r"got \(3, 1\)"),
        ({"model": LinearTransformer(N, SIZES), "lengths": LENGTHS}, TypeError, "reads prompts of one length"),
    ],
)
def test_what_cannot_be_continued_is_named(given, error, message, unchecked):
    fitting = {"model": GPT(N, 19, SIZES), "prompt": TOKENS, "n": 1, "choose": lambda logits: logits.argmax(-1)}
    assert generate(**fitting).shape == (B, 1)
    with pytest.raises(error, match=message):
        generate(**fitting | given)


def test_a_generated_text_stops_at_its_end_and_all_stop_with_the_last():
    class Counts:
        def start(self, prompt, lengths=None):
            return ()

        def step(self, tokens, state):
            return torch.nn.functional.one_hot(tokens + 1, N).float(), state

    prompt, how = torch.tensor([[1, 2], [4, 0]]), {"n": 5, "choose": lambda logits: logits.argmax(-1)}
    assert generate(Counts(), prompt, **how, lengths=torch.tensor([2, 1]), end=6, padding=9).tolist() == [
        [3, 4, 5, 6],
        [5, 6, 9, 9],
    ]
    assert generate(Counts(), prompt, **how, end=6).tolist() == [[3, 4, 5, 6, 0], [1, 2, 3, 4, 5]]


def test_reading_the_prompt_keeps_no_graph():
    gpt, kept = GPT(N, 19, SIZES), []
    read = gpt.start
    gpt.start = lambda prompt: kept.append(read(prompt)) or kept[0]
    generate(gpt, TOKENS, 1, lambda logits: logits.argmax(-1))
    assert not any(x.requires_grad for layer in kept[0].layers for x in layer)
