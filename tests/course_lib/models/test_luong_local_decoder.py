"""Decoders with Luong's local attention: word by word they predict the same as for the whole target."""

import pytest
import torch

from course_lib.attention import LocalPredictive
from course_lib.generation import beam_search, greedy, greedy_translation
from course_lib.models import LocalLuongDecoder, Seq2Seq
from tests.course_lib.models.decoders import LENGTHS, N_STATE, SOURCE, TARGET, model

D = 1
KINDS = ("general", "concat")
each_kind = pytest.mark.parametrize("kind", KINDS)


def local_m(kind):
    """The decoder of `decoders.model` with a window, and the model without it."""
    plain = model(kind)
    return Seq2Seq(plain.encoder, LocalLuongDecoder(plain.decoder, D)).double(), plain


def local_p(kind):
    seq2seq = model(kind)
    decoder = seq2seq.decoder
    torch.manual_seed(1)
    decoder.attention = LocalPredictive(N_STATE, D, decoder.attention).double()
    return seq2seq


@each_kind
def test_the_word_t_attends_around_the_word_t_of_the_source(kind):
    local, plain = local_m(kind)
    weights = local(SOURCE, LENGTHS, TARGET).attended.weights
    reached = (torch.arange(6) - torch.arange(5)[:, None]).abs() <= D
    real = torch.arange(6) < LENGTHS[:, None, None]
    assert torch.equal(weights != 0, reached & real)
    encoded = plain.encoder(SOURCE, LENGTHS)
    states, _ = plain.decoder.cell(plain.decoder.embedding(TARGET), (torch.tanh(plain.decoder.bridge(encoded.final)),))
    expected = plain.decoder.attention(states, encoded.keys, encoded.values, encoded.mask & reached)
    torch.testing.assert_close(weights, expected.weights)


@each_kind
def test_a_wide_window_is_the_decoder_without_one(kind):
    _, plain = local_m(kind)
    wide = Seq2Seq(plain.encoder, LocalLuongDecoder(plain.decoder, 7))
    here, there = wide(SOURCE, LENGTHS, TARGET), plain(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(here[:2], there[:2])
    torch.testing.assert_close(here.state, torch.cat([there.state, torch.full((4, 1), 5.0).double()], dim=1))


@each_kind
@pytest.mark.parametrize("make", [lambda kind: local_m(kind)[0], local_p])
def test_steps_say_what_teacher_forcing_says(kind, make):
    seq2seq = make(kind)
    forced, state = seq2seq(SOURCE, LENGTHS, TARGET), seq2seq.start(SOURCE, LENGTHS)
    for t in range(TARGET.shape[1]):
        before = state
        logits, state = seq2seq.step(TARGET[:, t], before)
        torch.testing.assert_close(logits, forced.logits[:, t])
        assert torch.equal(seq2seq.step(TARGET[:, t], before)[0], logits), "the state was changed"


@pytest.mark.parametrize("make", [lambda kind: local_m(kind)[0], local_p])
def test_greedy_and_beam_search_go_over_its_steps(make):
    seq2seq = make("general")
    first, state = torch.full((4,), 1), seq2seq.start(SOURCE, LENGTHS)
    best = greedy(seq2seq.step, state, first, 2, 0, 6)
    assert torch.equal(beam_search(seq2seq.step, state, first, 2, 0, 6, width=1).tokens[:, 0], best)
    tokens, weights = greedy_translation(seq2seq, SOURCE, LENGTHS, 6)
    assert torch.equal(tokens, best)
    assert ((weights != 0).sum(-1) <= 2 * D + 1).all()


def test_in_bfloat16_the_words_are_counted_on():
    """256 + 1 is 256 in bfloat16."""
    plain = model("general").bfloat16()
    decoder, encoded = LocalLuongDecoder(plain.decoder, D), plain.encoder(SOURCE, LENGTHS)
    state = torch.cat([torch.zeros(4, N_STATE), torch.full((4, 1), 256.0)], dim=1)
    assert decoder(encoded, TARGET[:, :1], state).state[:, -1].tolist() == [257.0] * 4
    assert decoder(encoded, TARGET).logits.dtype == torch.bfloat16


def test_the_window_of_a_position_beyond_the_source_is_empty():
    seq2seq, _ = local_m("general")
    logits, attended, _ = seq2seq(SOURCE[:, :2], torch.tensor([2, 1, 0, 2]), TARGET)
    assert not attended.weights[:, 3:].any()
    assert logits.isfinite().all()


def test_gradients_reach_the_prediction_of_the_window():
    seq2seq = local_p("general")
    seq2seq(SOURCE, LENGTHS, TARGET).logits.square().sum().backward()
    attention = seq2seq.decoder.attention
    assert attention.W_p.grad.any()
    assert attention.v_p.grad.any()


def test_a_window_without_reach_is_refused():
    with pytest.raises(ValueError, match="got D = 0"):
        LocalLuongDecoder(model("general").decoder, 0)
