"""The Transformer's laws: no attention to later tokens or padding, no order without positions, one matrix for tied ones."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.analysis import record
from course_lib.attention import causal_attention, scaled_dot_product_attention
from course_lib.blocks import Sizes, post_norm, pre_norm
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.generation import beam_search, greedy
from course_lib.losses import teacher_forced_loss
from course_lib.models import Transformer
from course_lib.primitives import sinusoidal_positions

B, T_K, T, N_SOURCE, N_TARGET = 3, 7, 5, 11, 13
SIZES = Sizes(d_model=6, n_heads=3, d_ff=17, n_layers=2)
SOURCE = torch.randint(3, N_SOURCE, (B, T_K), generator=torch.Generator().manual_seed(0))
TARGET = torch.randint(3, N_TARGET, (B, T), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([7, 4, 1])
each_residual = pytest.mark.parametrize("residual", [post_norm, pre_norm])
EQUATIONS = {"mechanism": scaled_dot_product_attention, "causal": causal_attention}
FUSED = {"mechanism": fused_scaled_dot_product_attention, "causal": fused_causal_attention}
each_form = pytest.mark.parametrize("form", [EQUATIONS, FUSED], ids=["equations", "fused"])


def model(residual=post_norm, form=EQUATIONS, positions=sinusoidal_positions, seed=0):
    torch.manual_seed(seed)
    return Transformer(N_SOURCE, N_TARGET, SIZES, residual=residual, positions=positions, **form).double()


def nowhere(T, d_model, device=None):
    """No positions at all."""
    return torch.zeros(T, d_model, device=device)


def seen_by(logits, embedding, tokens):
    """Which tokens have a gradient in the sum of these logits: by differentiating with respect to the embeddings."""
    (gradient,) = torch.autograd.grad(logits.square().sum(), embedding, retain_graph=True)
    assert gradient.shape[:2] == tokens.shape
    return (gradient != 0).any(-1)


@each_form
@each_residual
def test_an_output_never_depends_on_later_words_of_the_target(residual, form):
    """The gradient of output t with respect to input > t is exactly 0, and that of inputs ≤ t is not."""
    transformer, kept = model(residual, form), []
    transformer.target_words.register_forward_hook(lambda _m, _i, out: kept.append(out))
    logits = transformer(SOURCE, LENGTHS, TARGET)
    for t in range(T):
        seen = seen_by(logits[:, t], kept[0], TARGET)
        assert seen[:, : t + 1].all()
        assert not seen[:, t + 1 :].any()


@each_form
@each_residual
def test_what_stands_at_padding_of_the_source_changes_nothing(residual, form):
    transformer = model(residual, form)
    other = torch.where(torch.arange(T_K) < LENGTHS[:, None], SOURCE, 1)
    assert torch.equal(transformer(SOURCE, LENGTHS, TARGET), transformer(other, LENGTHS, TARGET))


@each_residual
def test_a_sentence_alone_is_answered_as_in_a_padded_batch(residual):
    transformer = model(residual)
    logits = transformer(SOURCE, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS.tolist()):
        here = slice(row, row + 1)
        alone = transformer(SOURCE[here, :length], LENGTHS[here], TARGET[here])
        torch.testing.assert_close(alone[0], logits[row])


def test_without_positions_the_order_of_the_source_does_not_matter_and_with_them_it_does():
    order, full = torch.randperm(T_K, generator=torch.Generator().manual_seed(2)), torch.full((B,), T_K)
    blind, sighted = model(positions=nowhere), model()
    torch.testing.assert_close(blind(SOURCE[:, order], full, TARGET), blind(SOURCE, full, TARGET))
    assert (sighted(SOURCE[:, order], full, TARGET) - sighted(SOURCE, full, TARGET)).abs().max() > 1e-3


def test_without_positions_the_encoder_is_equivariant():
    order, full = torch.randperm(T_K, generator=torch.Generator().manual_seed(2)), torch.full((B,), T_K)
    blind = model(positions=nowhere)
    torch.testing.assert_close(blind.encode(SOURCE[:, order], full)[0], blind.encode(SOURCE, full)[0][:, order])


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations():
    results = []
    for form in (EQUATIONS, FUSED):
        transformer = model(form=form)
        logits = transformer(SOURCE, LENGTHS, TARGET)
        loss = teacher_forced_loss(logits, TARGET, padding=0)
        results.append((logits, *torch.autograd.grad(loss, list(transformer.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_embedding_of_the_target_is_the_last_matrix():
    """Both uses contribute to one gradient: the embedding for words that were read, the last matrix for all words."""
    transformer = model()
    transformer(SOURCE, LENGTHS, TARGET)[:, :, 1].sum().backward()
    assert transformer.target_words.weight.grad[1].any()
    assert 1 not in TARGET
    transformer.target_words.weight.data[1] *= 2.0
    memory, mask = transformer.encode(SOURCE, LENGTHS)
    before, after = transformer.decode(TARGET, memory, mask), model().decode(TARGET, memory, mask)
    assert torch.equal(before[..., 2:], after[..., 2:])
    assert (before[..., 1] != after[..., 1]).all()


def shared(seed=0):
    """One embedding for source, target and output, and two models of the same weights, with and without sharing."""
    torch.manual_seed(seed)
    words = nn.Embedding(N_TARGET, SIZES.d_model)
    one = Transformer(words, words, SIZES).double()
    two = Transformer(N_TARGET, N_TARGET, SIZES).double()
    two.load_state_dict(one.state_dict())
    return one, two


def test_with_one_embedding_it_has_the_parameters_of_the_paper():
    """Vaswani et al. 2017, table 3, base: 65 million, with one vocabulary of 37,000; a second adds its matrix."""
    one, two = shared()
    assert one.source_words is one.target_words
    n_one, n_two = (sum(p.numel() for p in model.parameters()) for model in (one, two))
    assert n_two - n_one == two.source_words.weight.numel()
    base, big = Sizes(d_model=512, n_heads=8, d_ff=2048, n_layers=6), Sizes(d_model=1024, n_heads=16, d_ff=4096, n_layers=6)
    for sizes, published, rounding in ((base, 65e6, 0.035), (big, 213e6, 0.01)):
        with torch.device("meta"):
            words = nn.Embedding(37_000, sizes.d_model)
            n = sum(p.numel() for p in Transformer(words, words, sizes).parameters())
        assert n == pytest.approx(published, rel=rounding)


def test_one_embedding_computes_what_two_equal_ones_do_and_has_the_sum_of_their_gradients():
    """From three uses: words of the source, words of the target, and all words in the last matrix."""
    one, two = shared()
    logits = [transformer(SOURCE, LENGTHS, TARGET) for transformer in (one, two)]
    torch.testing.assert_close(*logits)
    for each in logits:
        each[:, :, 2].square().sum().backward()
    source, target = two.source_words.weight.grad, two.target_words.weight.grad
    assert source.any()
    assert target.any()
    torch.testing.assert_close(one.target_words.weight.grad, source + target)


def test_after_an_update_or_a_copy_the_embedding_is_still_one():
    one, _ = shared()
    optimiser = torch.optim.SGD(one.parameters(), lr=0.1)
    teacher_forced_loss(one(SOURCE, LENGTHS, TARGET), TARGET, padding=0).backward()
    optimiser.step()
    for model_ in (one, copy.deepcopy(one), one.float()):
        assert model_.source_words.weight is model_.target_words.weight
    assert set(one.state_dict()) == set(model().state_dict())


def test_an_embedding_that_is_given_starts_as_one_that_is_made():
    words = nn.Embedding(200, 128)
    Transformer(words, words, Sizes(128, 4, 256, 1))
    assert 0.8 < words.weight.std().item() * 128**0.5 < 1.2


def test_steps_with_one_embedding_say_what_teacher_forcing_says():
    one, _ = shared()
    forced, state = one(SOURCE, LENGTHS, TARGET), one.start(SOURCE, LENGTHS)
    for t in range(T):
        logits, state = one.step(TARGET[:, t], state)
        torch.testing.assert_close(logits, forced[:, t])


def test_an_embedding_of_another_size_is_refused():
    with pytest.raises(RuntimeError, match="5"):
        Transformer(nn.Embedding(N_SOURCE, 5), N_TARGET, SIZES)(SOURCE, LENGTHS, TARGET)


def test_embeddings_are_as_large_as_the_positions_and_logits_neither_shout_nor_whisper():
    transformer = Transformer(200, 200, Sizes(128, 4, 256, 2))
    size = transformer.target_words(torch.arange(200)).std() * 128**0.5
    assert 0.8 < size.item() < 1.2
    logits = transformer(torch.arange(20)[None], torch.tensor([20]), torch.arange(20)[None])
    assert 0.5 < logits.std().item() < 2.0


def test_every_attention_can_be_recorded():
    transformer = model()
    with record(transformer) as seen:
        transformer(SOURCE, LENGTHS, TARGET)
    shapes = [attended[0].weights.shape[2:] for attended in seen.values()]
    assert shapes == [(T_K, T_K)] * 2 + [(T, T), (T, T_K)] * 2
    cross = seen["decoder.blocks.1.cross.attention"][0].weights
    assert (cross[2, :, :, 1:] == 0).all()


@each_form
@each_residual
def test_steps_say_what_teacher_forcing_says(residual, form):
    """Teacher forcing reads the whole target at once, without any state."""
    transformer = model(residual, form)
    forced, state = transformer(SOURCE, LENGTHS, TARGET), transformer.start(SOURCE, LENGTHS)
    for t in range(T):
        logits, state = transformer.step(TARGET[:, t], state)
        torch.testing.assert_close(logits, forced[:, t])
    assert state.T == T


def test_a_state_is_a_value():
    transformer = model()
    state = transformer.step(TARGET[:, 0], transformer.start(SOURCE, LENGTHS))[1]
    first = transformer.step(TARGET[:, 1], state)[0]
    transformer.step(TARGET[:, 2], state)
    assert torch.equal(transformer.step(TARGET[:, 1], state)[0], first)


def test_a_step_reads_one_word_and_computes_a_row_and_no_more():
    """Each step costs as much as the one before it, and a product with one more key and value: q·k and α·v, 2 operations
    each, for every feature, layer and sentence."""
    transformer, read, costs = model(), [], []
    transformer.target_words.register_forward_hook(lambda _m, given, _o: read.append(given[0].numel()))
    transformer.source_words.register_forward_hook(lambda _m, given, _o: read.append(given[0].numel()))
    state = transformer.start(SOURCE, LENGTHS)
    for t in range(12):
        with FlopCounterMode(display=False) as counter:
            state = transformer.step(TARGET[:, t % T], state)[1]
        costs.append(counter.get_total_flops())
    assert read == [B * T_K] + [B] * 12
    assert {after - before for before, after in itertools.pairwise(costs)} == {4 * B * SIZES.d_model * SIZES.n_layers}


def test_a_decoder_that_is_not_causal_is_refused():
    with pytest.raises(ValueError, match="attends to later positions, of which one is the answer"):
        model(form={"causal": scaled_dot_product_attention})


def test_greedy_and_beam_search_go_over_its_steps():
    """With two words and the end token, every sentence of up to three words, by brute force."""
    torch.manual_seed(3)
    transformer = Transformer(N_SOURCE, 5, SIZES).double()
    state, first = transformer.start(SOURCE, LENGTHS), torch.full((B,), 1)
    width = sum(4**n for n in range(4))
    beam = beam_search(transformer.step, state, first, end=2, padding=0, max_length=3, width=width, penalty=0.6)
    assert torch.equal(
        beam_search(transformer.step, state, first, 2, 0, 6, width=1).tokens[:, 0],
        greedy(transformer.step, state, first, 2, 0, 6),
    )
    best, score = beam.tokens[1, 0], beam.scores[1, 0].item()
    scores = {}
    for words in itertools.product(range(5), repeat=3):
        said = words[: words.index(2) + 1] if 2 in words else words
        logits = transformer(SOURCE[1:2], LENGTHS[1:2], torch.tensor([[1, *said[:-1]]]))
        log_p = logits.log_softmax(-1)[0, torch.arange(len(said)), list(said)].sum().item()
        scores[said] = log_p / ((5 + len(said)) / 6) ** 0.6
    assert max(scores.values()) == pytest.approx(score)
    said = best.tolist()
    assert scores[tuple(said[: said.index(2) + 1] if 2 in said else said)] == pytest.approx(score)


@each_residual
def test_gradients_are_those_of_finite_differences(residual):
    torch.manual_seed(0)
    tiny = Transformer(5, 7, Sizes(4, 2, 3, 1), residual=residual, activation=torch.tanh).double()
    names, parameters = zip(*tiny.named_parameters(), strict=True)

    def logits(*given):
        inputs = (SOURCE[:2, :3] % 5, torch.tensor([3, 2]), TARGET[:2, :2] % 7)
        return torch.func.functional_call(tiny, dict(zip(names, given, strict=True)), inputs)

    assert torch.autograd.gradcheck(logits, parameters, fast_mode=True)


def test_a_length_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        model()(SOURCE, LENGTHS + 5, TARGET)


@each_form
def test_an_empty_source_gives_no_nan(form):
    transformer = model(form=form)
    loss = transformer(SOURCE, torch.tensor([7, 0, 1]), TARGET).square().mean()
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(p.grad.isfinite().all() for p in transformer.parameters())
