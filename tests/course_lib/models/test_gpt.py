"""GPT's laws: causal attention, one tensor for embedding and last matrix, and generation from what it has read."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.attention import (
    AttentionDropout,
    LinearAttention,
    MultiHead,
    PerformerAttention,
    RelativeAttention,
    RotaryAttention,
    causal_attention,
    causal_linear_attention,
    causal_performer_attention,
    scaled_dot_product_attention,
)
from course_lib.attention.core import require_causal
from course_lib.blocks import Sizes, post_norm
from course_lib.fast import CachedGPT, chunked_linear_attention, fused_causal_attention
from course_lib.generation import beam_search, generate, sample
from course_lib.losses import next_token_loss
from course_lib.metrics import gpt_parameters
from course_lib.models import GPT

B, T, N, T_MAX = 3, 7, 13, 17
SIZES, D_K = Sizes(d_model=6, n_heads=3, d_ff=19, n_layers=2), 2
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([7, 4, 1])
each_form = pytest.mark.parametrize("mechanism", [causal_attention, fused_causal_attention])


def model(mechanism=causal_attention, seed=0, sizes=SIZES):
    """With weights far wider than at the start, so that words differ."""
    torch.manual_seed(seed)
    gpt = GPT(N, T_MAX, sizes, mechanism).double()
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return gpt


def likeliest(logits):
    return logits.argmax(-1)


def cached_generate(gpt, *arguments):
    return generate(CachedGPT(gpt), *arguments)


each_way = pytest.mark.parametrize("write", [generate, cached_generate])


@each_form
def test_an_output_never_depends_on_later_tokens(mechanism):
    """The gradient of output t with respect to input > t is exactly 0, and that of inputs ≤ t is not."""
    gpt, kept = model(mechanism), []
    gpt.tokens.register_forward_hook(lambda _m, _i, out: kept.append(out))
    states = gpt.states(TOKENS)
    for t in range(T):
        (gradient,) = torch.autograd.grad(states[:, t].square().sum(), kept[0], retain_graph=True)
        seen = (gradient != 0).any(-1)
        assert seen[:, : t + 1].all()
        assert not seen[:, t + 1 :].any()


def leaking():
    """A GPT whose mechanism is replaced by one that is not causal, which the model itself refuses."""
    gpt = model()
    for block in gpt.stack.blocks:
        block.mixer.attention.mechanism = scaled_dot_product_attention
    return gpt


@pytest.mark.parametrize(
    "mechanism",
    [
        scaled_dot_product_attention,
        LinearAttention(),
        PerformerAttention(D_K, 11),
        AttentionDropout(scaled_dot_product_attention, 0.9),
        partial(scaled_dot_product_attention),
    ],
)
def test_a_mechanism_that_is_not_causal_is_refused(mechanism):
    with pytest.raises(ValueError, match="attends to later positions, of which one is the answer"):
        model(mechanism)


@pytest.mark.parametrize(
    "mechanism",
    [
        partial(causal_attention),
        LinearAttention(mix=causal_linear_attention),
        PerformerAttention(D_K, 11, causal_performer_attention),
        AttentionDropout(causal_attention, 0.5),
        RelativeAttention(6, 3),
        RotaryAttention(D_K),
    ],
)
def test_a_causal_mechanism_of_any_kind_is_taken_and_stays_as_it_is(mechanism):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    require_causal(mechanism, 3, D_K)
    assert torch.equal(before, torch.get_rng_state())
    assert not isinstance(mechanism, nn.Module) or mechanism.training
    model(mechanism)(TOKENS)


def test_a_mechanism_that_is_not_causal_leaks():
    """The control: the law above can fail."""
    gpt = leaking()
    changed = TOKENS.clone()
    changed[:, -1] = (changed[:, -1] + 1) % N
    assert (gpt(changed)[:, 0] != gpt(TOKENS)[:, 0]).any()


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations():
    results = []
    for mechanism in (causal_attention, fused_causal_attention):
        gpt = model(mechanism)
        logits = gpt(TOKENS)
        results.append((logits, *torch.autograd.grad(next_token_loss(logits, TOKENS), list(gpt.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_embedding_and_last_matrix_are_one_tensor():
    gpt = model()
    assert sum(p.shape == (N, SIZES.d_model) for p in gpt.parameters()) == 1
    unread = next(n for n in range(N) if n not in TOKENS)
    gpt(TOKENS)[..., unread].sum().backward()
    torch.testing.assert_close(gpt.tokens.weight.grad[unread], gpt.states(TOKENS).sum((0, 1)))


def test_it_has_the_parameters_that_are_counted_from_its_sizes():
    gpt = GPT(N, T_MAX, Sizes(6, 3, 24, 2))
    assert sum(p.numel() for p in gpt.parameters()) == gpt_parameters(N, T_MAX, 6, 2)


def test_without_positions_the_last_state_does_not_know_the_order_of_what_came_before():
    """One layer: the last token attends to the others as a bag. With positions it does not."""
    gpt, order = model(sizes=Sizes(6, 3, 19, 1)), torch.tensor([3, 0, 5, 1, 4, 2, 6])
    assert (gpt.states(TOKENS[:, order])[:, -1] - gpt.states(TOKENS)[:, -1]).abs().max() > 1e-3
    gpt.positions.vectors.data.zero_()
    torch.testing.assert_close(gpt.states(TOKENS[:, order])[:, -1], gpt.states(TOKENS)[:, -1])


def test_it_starts_knowing_nothing():
    """The first loss is that of a uniform guess, and the residual path grows with depth only as √(2L) allows."""
    torch.manual_seed(0)
    for n_layers in (2, 8):
        gpt = GPT(97, 32, Sizes(64, 4, 256, n_layers))
        tokens = torch.randint(97, (8, 32))
        assert next_token_loss(gpt(tokens), tokens).item() == pytest.approx(math.log(97), rel=0.05)
        weights = [block.feed_forward.W_2.weight.std().item() for block in gpt.stack.blocks]
        assert weights == pytest.approx([1 / math.sqrt(3 * 64 * 2 * n_layers)] * n_layers, rel=0.1)


def test_every_attention_can_be_recorded_and_looks_back_only():
    gpt = model()
    with record(gpt) as seen:
        gpt(TOKENS)
    assert len(seen) == SIZES.n_layers
    for attended in seen.values():
        assert (attended[0].weights.triu(1) == 0).all()


@each_way
@each_form
def test_what_is_written_is_what_the_model_says_when_it_reads_it(write, mechanism):
    gpt = model(mechanism, seed=1)
    written = write(gpt, TOKENS, 9, likeliest)
    said = gpt(torch.cat([TOKENS, written], dim=1)).argmax(-1)
    assert torch.equal(written, said[:, T - 1 : -1])
    assert len(written.unique()) > 1


@each_way
def test_a_short_prompt_is_continued_in_a_padded_batch_as_alone(write):
    gpt = model(seed=2)
    together = write(gpt, TOKENS, 6, likeliest, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(write(gpt, TOKENS[row : row + 1, :length], 6, likeliest)[0], together[row])


@each_way
def test_what_stands_at_padding_changes_nothing(write):
    gpt = model(seed=2)
    other = torch.where(torch.arange(T) < LENGTHS[:, None], TOKENS, 1)
    assert torch.equal(write(gpt, TOKENS, 6, likeliest, LENGTHS), write(gpt, other, 6, likeliest, LENGTHS))


def test_steps_of_linear_attention_compute_forward_and_refuse_padding():
    gpt = model(LinearAttention(mix=chunked_linear_attention), seed=2)
    written = generate(gpt, TOKENS, 9, likeliest)
    assert torch.equal(written, gpt(torch.cat([TOKENS, written], dim=1)).argmax(-1)[:, T - 1 : -1])
    with pytest.raises(ValueError, match="prompts of one length"):
        gpt.start(TOKENS, LENGTHS)


def test_a_mechanism_without_steps_is_refused_before_the_first_step():
    with pytest.raises(ValueError, match="no `start` and `step`"):
        leaking().start(TOKENS)


def test_a_step_drops_nothing_in_training_mode():
    gpt = model()
    gpt.dropout.p = gpt.stack.blocks[0].dropout.p = 0.5
    found = [gpt.train(mode).step(TOKENS[:, 0], gpt.start(TOKENS))[0] for mode in (True, False)]
    torch.testing.assert_close(*found, atol=0, rtol=0)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("seed", range(3))
def test_cached_and_uncached_draw_the_same_from_the_same_generator(seed, lengths):
    gpt = model(seed=seed)
    draws = [
        write(
            gpt,
            TOKENS,
            10,
            partial(sample, temperature=1.3, k=9, p=0.95, generator=torch.Generator().manual_seed(seed)),
            lengths,
        )
        for write in (generate, cached_generate)
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("activation", [torch.relu, torch.nn.functional.gelu])
def test_cached_logits_are_the_uncached_ones(lengths, activation):
    gpt = model()
    for block in gpt.stack.blocks:
        block.feed_forward.activation = activation
    read, rows = LENGTHS if lengths is not None else torch.full((B,), T), torch.arange(B)
    cached = CachedGPT(gpt)
    cache = cached.start(TOKENS, lengths)
    text = torch.cat([TOKENS, torch.zeros(B, 8, dtype=torch.long)], dim=1)
    for i in range(8):
        text[rows, read + i] = torch.arange(B) + i
        logits, cache = cached.step(torch.arange(B) + i, cache)
        torch.testing.assert_close(logits, gpt(text)[rows, read + i])


def test_beam_search_goes_over_cached_steps():
    """Rows of the cache are selected when a prefix is kept twice; each score is the model's own log p."""
    gpt = model(seed=4)
    cached = CachedGPT(gpt)
    cache = cached.start(TOKENS[:, :-1])
    beam = beam_search(cached.step, cache, TOKENS[:, -1], end=N, padding=0, max_length=5, width=3)
    for row in range(B):
        for words, score in zip(beam.tokens[row], beam.scores[row], strict=True):
            log_p = gpt(torch.cat([TOKENS[row], words])[None]).log_softmax(-1)[0, T - 1 : -1]
            assert log_p.gather(1, words[:, None]).sum().item() == pytest.approx(score.item(), rel=1e-5)


@each_way
def test_a_prompt_of_one_token_and_one_token_to_write(write):
    gpt = model()
    assert torch.equal(write(gpt, TOKENS[:, :1], 1, likeliest), gpt(TOKENS[:, :1]).argmax(-1))


@each_way
def test_nothing_that_came_in_is_changed(write):
    prompt = TOKENS.clone()
    write(model(), prompt, 3, likeliest, LENGTHS)
    assert torch.equal(prompt, TOKENS)


@each_way
def test_more_tokens_than_positions_are_refused(write):
    """The last token generated is not read, so it needs no position."""
    n = T_MAX - T + 1
    assert write(model(), TOKENS, n, likeliest).shape == (B, n)
    with pytest.raises(ValueError, match="positions"):
        write(model(), TOKENS, n + 1, likeliest)
    with pytest.raises(ValueError, match="positions"):
        write(model(), torch.zeros(B, T_MAX + 2, dtype=torch.long), 1, likeliest)


@each_way
def test_nothing_more_to_write_is_nothing_written(write):
    assert write(model(), TOKENS, 0, likeliest).shape == (B, 0)


@each_way
@pytest.mark.parametrize(
    ("prompt", "n", "lengths", "message"),
    [
        (TOKENS[:, :0], 2, None, "at least one token"),
        (TOKENS[:0], 2, None, "at least one token"),
        (TOKENS, -1, None, "n = -1"),
        (TOKENS, 2, torch.tensor([7, 0, 1]), "from 1 to 7"),
        (TOKENS, 2, torch.tensor([8, 4, 1]), "from 1 to 7"),
    ],
)
def test_prompts_that_nothing_can_be_written_behind_are_refused(write, prompt, n, lengths, message):
    with pytest.raises(ValueError, match=message):
        write(model(), prompt, n, likeliest, lengths)


def test_a_length_longer_than_its_prompt_is_refused():
    with pytest.raises(ValueError, match="5 tokens does not fit a padded length of 3"):
        CachedGPT(model()).start(TOKENS[:2, :3], torch.tensor([5, 3]))


def test_steps_of_another_mechanism_are_refused():
    """They would compute causal softmax attention nevertheless, and predict something different from the model."""
    with pytest.raises(ValueError, match=r"causal_attention.*LinearAttention"):
        CachedGPT(model(LinearAttention(mix=chunked_linear_attention)))


@pytest.mark.parametrize(
    ("place", "part", "wanted"),
    [
        ("stack.closing", nn.Identity(), "LayerNorm with bias as stack.closing"),
        ("stack.blocks.1.norm_2", nn.RMSNorm(6), "LayerNorm with bias as stack.blocks.1.norm_2, but this GPT has RMSNorm"),
        ("stack.blocks.0.norm_1", nn.LayerNorm(6, bias=False), "LayerNorm with bias as stack.blocks.0.norm_1"),
        ("stack.blocks.0.mixer.attention", MultiHead(6, 3, causal_attention, bias=False), "Linear (6, 6) with bias"),
        (
            "stack.blocks.0.mixer.attention",
            MultiHead(6, 3, causal_attention, d_k=5),
            "Linear (6, 6) with bias as stack.blocks.0.mixer.attention",
        ),
        ("stack.blocks.0.mixer.attention", MultiHead(6, 3, causal_attention, d_v=5), "attention.W_v"),
        ("stack.blocks.1.feed_forward.W_1", nn.Linear(6, 7, bias=False), "Linear with bias as stack.blocks.1.feed_forward.W_1"),
        ("stack.blocks.1.mixer.attention", MultiHead(6, 2, causal_attention), "all with one number of heads"),
    ],
)
def test_a_part_that_cached_steps_would_compute_otherwise_is_refused(place, part, wanted):
    gpt = GPT(11, 13, Sizes(6, 3, 7, 2))
    gpt.set_submodule(place, part)
    with pytest.raises(ValueError, match=r"cached steps need .* use the GPT itself") as refusal:
        CachedGPT(gpt)
    assert wanted in str(refusal.value)


def test_cached_steps_refuse_post_norm_blocks():
    gpt = GPT(11, 13, Sizes(6, 3, 7, 2))
    gpt.stack.blocks[1].residual = post_norm
    with pytest.raises(ValueError, match="pre-norm blocks"):
        CachedGPT(gpt)


@pytest.mark.parametrize("make", [lambda gpt: gpt, CachedGPT])
def test_a_state_does_not_change_with_the_lengths_that_were_passed(make):
    writer, lengths = make(model()), LENGTHS.clone()
    state = writer.start(TOKENS, lengths)
    expected = writer.step(TOKENS[:, 0], state)[0]
    lengths -= 1
    torch.testing.assert_close(writer.step(TOKENS[:, 0], state)[0], expected, atol=0, rtol=0)


def test_an_empty_batch_gives_no_logits():
    cached = CachedGPT(model())
    assert cached.step(TOKENS[:0, 0], cached.start(TOKENS[:0]))[0].shape == (0, N)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    tiny = GPT(5, 4, Sizes(4, 2, 3, 1)).double()
    names, parameters = zip(*tiny.named_parameters(), strict=True)
    scaled = [torch.nn.Parameter(p.detach() * 10) for p in parameters]

    def logits(*given):
        return torch.func.functional_call(tiny, dict(zip(names, given, strict=True)), (TOKENS[:2, :3] % 5,))

    assert torch.autograd.gradcheck(logits, scaled, fast_mode=True)


@pytest.mark.gpu
@each_way
def test_a_gpu_writes_the_same(write):
    gpt = model(seed=1).float()
    here = write(gpt, TOKENS, 5, likeliest, LENGTHS)
    assert torch.equal(write(gpt.cuda(), TOKENS.cuda(), 5, likeliest, LENGTHS.cuda()).cpu(), here)


def test_one_text_without_a_batch_axis_is_refused(unchecked):
    with pytest.raises(ValueError, match=r"reads tokens \(B, T\), got \(\d+,\): one text alone is `tokens\[None\]`"):
        model()(TOKENS[0])
