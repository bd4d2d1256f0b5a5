"""Llama's laws: written from its parts, moved in time, generated from its cache, and without a bias."""

import re
from pathlib import Path

import pytest
import torch

from course_lib.analysis import record
from course_lib.attention import (
    AttentionDropout,
    QKNorm,
    RotaryAttention,
    causal_attention,
    rotate,
    scaled_dot_product_attention,
)
from course_lib.blocks import Sizes
from course_lib.fast import fused_causal_attention
from course_lib.generation import generate
from course_lib.losses import next_token_loss
from course_lib.models import Llama
from course_lib.pretrained.llama import from_llama
from course_lib.primitives import window_of_tokens
from tests.course_lib.models import peers

B, T, N = 3, 7, 13
SIZES = Sizes(d_model=24, n_heads=4, d_ff=19, n_layers=2)
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LIBRARY = Path(__file__).parents[3] / "docs" / "library.md"
every_grouping = pytest.mark.parametrize("n_groups", [1, 2, 4])


def model(n_groups=2, seed=0, **rest):
    """With weights far wider than at the start, so that words differ."""
    torch.manual_seed(seed)
    llama = Llama(N, SIZES, n_groups, **rest).double()
    with torch.no_grad():
        for parameter in llama.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return llama


def likeliest(logits):
    return logits.argmax(-1)


@pytest.fixture(scope="module")
def of_the_docs():
    """The forward pass of the docs, which ends with an assertion of its own."""
    code = re.search(r"## Llama from its parts\n.*?```python\n(.*?)```", LIBRARY.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len(code.splitlines()) < 40
    names = {}
    exec(code, names)
    return names["llama"]


@every_grouping
def test_the_forward_pass_of_the_docs_from_parts_of_the_library(of_the_docs, n_groups):
    llama = model(n_groups, base=500.0, epsilon=0.1)
    found = of_the_docs(TOKENS, llama.state_dict(), SIZES, n_groups, base=500.0, epsilon=0.1)
    torch.testing.assert_close(found, llama(TOKENS))


@every_grouping
def test_it_computes_the_logits_of_the_reference_implementation_from_its_weights(of_the_docs, n_groups):
    theirs = peers.llama(n_groups, rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    weights = from_llama(theirs.state_dict(), SIZES.d_model // SIZES.n_heads)
    found = of_the_docs(TOKENS, weights, SIZES, n_groups, base=500.0, epsilon=1e-3)
    torch.testing.assert_close(found, theirs(TOKENS).logits, rtol=1e-5, atol=1e-5)


@every_grouping
@pytest.mark.parametrize("mechanism", [None, fused_causal_attention])
@pytest.mark.parametrize("read", [0, 1, 4])
def test_step_by_step_it_says_what_it_says_in_parallel(n_groups, mechanism, read):
    llama = model(n_groups, **({} if mechanism is None else {"mechanism": mechanism}))
    at_once, state = llama(TOKENS), llama.start(TOKENS[:, :read])
    for t in range(read, T):
        before = [part.clone() for layer in state.layers for part in layer]
        logits, later = llama.step(TOKENS[:, t], state)
        assert all(torch.equal(*each) for each in zip(before, (x for layer in state.layers for x in layer), strict=True))
        torch.testing.assert_close(logits, at_once[:, t])
        state = later
    assert state.T == T


@every_grouping
def test_the_cache_has_the_heads_of_the_groups_alone(n_groups):
    layers = model(n_groups).start(TOKENS).layers
    n_numbers = sum(part.numel() for layer in layers for part in layer)
    assert n_numbers == SIZES.n_layers * 2 * B * n_groups * T * SIZES.d_model // SIZES.n_heads


def test_a_text_that_begins_later_has_the_same_logits():
    """Scores depend on distances alone: rotating every query and key by 1,009 more positions changes nothing."""
    llama = model()
    expected = llama(TOKENS)
    for block in llama.stack.blocks:
        rotary = block.mixer.attention.mechanism
        here = rotary._rotate
        rotary._rotate = lambda x, start=0, here=here: here(x, start + 1009)
    assert not torch.equal(rotary._rotate(torch.ones(1, 6)), torch.ones(1, 6))
    torch.testing.assert_close(llama(TOKENS), expected, rtol=1e-4, atol=1e-4)


def test_queries_and_keys_are_rotated_and_values_are_not():
    """The values that a layer caches are its projections; its keys are these only at position 0."""
    llama = model()
    attention = llama.stack.blocks[0].mixer.attention
    x = llama.stack.blocks[0].norm_1(llama.tokens(TOKENS))
    projected, state = attention.project(x, x), llama.start(TOKENS).layers[0]
    torch.testing.assert_close(state.values, projected.values)
    torch.testing.assert_close(state.keys[:, :, :1], projected.keys[:, :, :1])
    assert not torch.allclose(state.keys[:, :, 1:], projected.keys[:, :, 1:])
    torch.testing.assert_close(state.keys, rotate(projected.keys, 10_000.0 ** -(torch.arange(3) / 3)))


def test_an_output_never_depends_on_later_tokens():
    llama, changed = model(), TOKENS.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % N
    torch.testing.assert_close(llama(changed)[:, :4], llama(TOKENS)[:, :4], rtol=0, atol=0)
    assert not torch.equal(llama(changed)[:, 4:], llama(TOKENS)[:, 4:])


def test_a_mechanism_that_is_not_causal_is_refused():
    with pytest.raises(ValueError, match="attends to later positions"):
        model(mechanism=scaled_dot_product_attention)


def test_what_is_written_is_what_the_model_says_when_it_reads_it():
    llama = model(seed=1)
    written = generate(llama, TOKENS, 9, likeliest)
    assert torch.equal(written, llama(torch.cat([TOKENS, written], dim=1)).argmax(-1)[:, T - 1 : -1])
    assert len(written.unique()) > 1


@every_grouping
@pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])
def test_a_short_prompt_is_continued_in_a_padded_batch_as_alone(n_groups, mechanism):
    """By its logits, and whatever stands at the padding; a prompt of no token too."""
    llama, lengths = model(n_groups, mechanism=mechanism), torch.tensor([4, 7, 0])
    for padding in (0, 1):
        padded = torch.where(torch.arange(T) < lengths[:, None], TOKENS, padding)
        state = llama.start(padded, lengths)
        alone = [llama.start(TOKENS[b : b + 1, :n]) for b, n in enumerate(lengths.tolist())]
        for t in range(3):
            logits, state = llama.step(TOKENS[:, t], state)
            each = [llama.step(TOKENS[b : b + 1, t], alone[b]) for b in range(B)]
            alone = [after for _, after in each]
            torch.testing.assert_close(logits, torch.cat([of_one for of_one, _ in each]))


def test_prompts_of_other_lengths_are_generated_from_in_one_batch():
    llama, lengths = model(seed=2), torch.tensor([4, 7, 1])
    together = generate(llama, TOKENS, 6, likeliest, lengths)
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(generate(llama, TOKENS[b : b + 1, :length], 6, likeliest)[0], together[b])
    with pytest.raises(ValueError, match="7 tokens does not fit a padded length of 6"):
        llama.start(TOKENS[:, :6], lengths)


def test_no_parameter_is_a_bias_or_a_position():
    d_model, n_heads, d_ff, n_layers = SIZES
    attention = 2 * d_model**2 + 2 * d_model * 2 * d_model // n_heads
    counted = n_layers * (attention + 3 * d_model * d_ff + 2 * d_model) + d_model + 2 * N * d_model
    assert sum(p.numel() for p in Llama(N, SIZES, 2).parameters()) == counted


def test_every_attention_can_be_recorded_head_by_head():
    llama = model()
    with record(llama) as seen:
        llama(TOKENS)
    maps = {each[0].weights.shape for each in seen.values()}
    assert maps == {(B, SIZES.n_heads, T, T)}
    assert len([name for name in seen if name.endswith("mixer.attention")]) == SIZES.n_layers


def test_it_learns_to_count():
    """A text that counts upwards: the loss falls far below a uniform guess."""
    torch.manual_seed(0)
    llama = Llama(N, SIZES, 2)
    tokens = (torch.arange(11) + torch.arange(8)[:, None]) % N
    optimiser = torch.optim.Adam(llama.parameters(), lr=1e-2)
    for _ in range(40):
        optimiser.zero_grad()
        loss = next_token_loss(llama(tokens), tokens)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    tiny = Llama(5, Sizes(8, 2, 3, 1), 1).double()
    names, parameters = zip(*tiny.named_parameters(), strict=True)
    scaled = [torch.nn.Parameter(p.detach() * 3) for p in parameters]

    def logits(*given):
        return torch.func.functional_call(tiny, dict(zip(names, given, strict=True)), (TOKENS[:2, :3] % 5,))

    assert torch.autograd.gradcheck(logits, scaled, fast_mode=True)


@pytest.mark.parametrize("d_model", [30, 36])
def test_features_that_do_not_turn_in_pairs_of_a_head_are_refused(d_model):
    with pytest.raises(ValueError, match=f"d_model {d_model} does not divide into 4 heads of an even size"):
        Llama(11, Sizes(d_model, 4, 64, 1), n_groups=2)


@pytest.mark.parametrize("mechanism", [RotaryAttention(6), QKNorm(6)])
def test_a_mechanism_whose_place_is_around_the_rotation_is_refused(mechanism):
    with pytest.raises(ValueError, match="rotates queries and keys itself"):
        Llama(N, SIZES, 2, mechanism)


def test_dropout_of_attention_drops_nothing_from_what_is_generated():
    llama = model(mechanism=AttentionDropout(causal_attention, 0.5))
    assert not torch.equal(llama.train()(TOKENS), llama(TOKENS))
    assert torch.equal(generate(llama.eval(), TOKENS, 3, likeliest), generate(model().eval(), TOKENS, 3, likeliest))


def steps(llama, size, sinks=0, lengths=None, read=0):
    """Logits of every token but those read at once, step by step within a window, and the state at the end."""
    state, found = llama.start(TOKENS[:, :read], lengths), []
    for t in range(read, T):
        state = llama.windowed(state, size, sinks)
        logits, state = llama.step(TOKENS[:, t], state)
        found.append(logits)
    return torch.stack(found, dim=1), state


@every_grouping
@pytest.mark.parametrize("size", [1, 2, 3, 7, 11])
def test_a_cache_that_does_not_grow_writes_what_the_mask_of_a_window_computes(n_groups, size):
    llama = model(n_groups)
    found, state = steps(llama, size)
    torch.testing.assert_close(found, llama.readout(llama.stack(llama.tokens(TOKENS), window_of_tokens(T, size))))
    assert {layer.keys.shape[-2] for layer in state.layers} == {min(size, T)}
    assert state.T == T


def test_within_a_window_each_prompt_of_a_padded_batch_is_continued_as_alone():
    llama, lengths = model(), torch.tensor([1, 3, 2])
    found, state = steps(llama, 4, lengths=lengths, read=3)
    assert state.real.shape == (B, 1, 1, 4)
    for b, n in enumerate(lengths):
        alone = torch.cat([TOKENS[b, :n], TOKENS[b, 3:]])[None]
        wanted = llama.readout(llama.stack(llama.tokens(alone), window_of_tokens(alone.shape[1], 4)))
        torch.testing.assert_close(found[b], wanted[0, n:])


def test_sinks_stay_in_the_cache_and_are_no_padding():
    llama = model()
    _, state = steps(llama, 3, sinks=2)
    first = llama.start(TOKENS[:, :2]).layers[0]
    assert {layer.keys.shape[-2] for layer in state.layers} == {5}
    torch.testing.assert_close(state.layers[0].keys[:, :, :2], first.keys)
    with pytest.raises(ValueError, match="begin with padding"):
        steps(llama, 3, sinks=1, lengths=torch.tensor([1, 3, 2]), read=3)


def test_within_a_window_it_is_mistral():
    """Hugging Face's Mistral with a window of three tokens: all tokens at once, and one after the other."""
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    theirs = peers.llama(kind="Mistral", sliding_window=3, rms_norm_eps=1e-6, rope_parameters=rope)
    ours = Llama(peers.N_TOKENS, SIZES._replace(d_ff=peers.SIZES.d_ff), 2)
    ours.load_state_dict(from_llama(theirs.state_dict(), 6))
    wanted, close = theirs(TOKENS).logits, {"atol": 1e-4, "rtol": 1e-4}
    assert not torch.allclose(ours(TOKENS), wanted, atol=0.1)
    torch.testing.assert_close(ours.readout(ours.stack(ours.tokens(TOKENS), window_of_tokens(T, 3))), wanted, **close)
    torch.testing.assert_close(steps(ours, 3)[0], wanted, **close)
