"""Laws of every encoder-decoder,  with attention or without, by the equations or by the faster forms."""

import pytest
import torch

from course_lib.attention import Attended
from course_lib.generation import greedy_translation
from course_lib.losses import teacher_forced_loss
from course_lib.models import Decoded, PlainDecoder
from course_lib.primitives import gru_step
from tests.course_lib.models.decoders import (
    ATTENTIVE,
    KINDS,
    LENGTHS,
    N_SOURCE,
    N_STATE,
    N_TARGET,
    SOURCE,
    TARGET,
    D,
    N,
    model,
    twins,
)

SPEEDS = pytest.mark.parametrize("fast", [False, True], ids=["equations", "fast"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_path_has_the_outputs_and_gradients_of_the_equations(kind):
    results = []
    for each in twins(kind):
        logits, attended, state = each(SOURCE, LENGTHS, TARGET)
        loss = teacher_forced_loss(logits, TARGET, padding=0) + (state**3).sum()
        outputs = (logits, state) if attended is None else (logits, state, *attended)
        results.append((*outputs, *torch.autograd.grad(loss, list(each.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_alone_is_read_and_answered_as_in_a_padded_batch(kind, fast):
    seq2seq = model(kind, fast)
    logits, attended, state = seq2seq(SOURCE, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            here = slice(row, row + 1)
            alone = seq2seq(SOURCE[here, :length], LENGTHS[here], TARGET[here])
            torch.testing.assert_close(alone.logits[0], logits[row])
            torch.testing.assert_close(alone.state[0], state[row])
            if attended is not None:
                torch.testing.assert_close(alone.attended.weights[0], attended.weights[row, :, :length])


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_at_padding_changes_nothing(kind, fast):
    seq2seq = model(kind, fast)
    other = torch.where(torch.arange(6) < LENGTHS[:, None], SOURCE, 3)
    torch.testing.assert_close(seq2seq(other, LENGTHS, TARGET).logits, seq2seq(SOURCE, LENGTHS, TARGET).logits, rtol=0, atol=0)


@SPEEDS
@pytest.mark.parametrize("kind", ATTENTIVE)
def test_weights_sum_to_1_over_the_words_and_are_exactly_0_at_padding(kind, fast):
    weights = model(kind, fast)(SOURCE, LENGTHS, TARGET).attended.weights
    at_padding = (torch.arange(6) >= LENGTHS[:, None])[:, None].expand_as(weights)
    assert (weights[at_padding] == 0).all()
    torch.testing.assert_close(weights.sum(-1), (LENGTHS > 0).double()[:, None].expand(4, 5))


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_sentence_gives_no_nan_in_values_or_gradients(kind, fast):
    seq2seq = model(kind, fast)
    logits, attended, _ = seq2seq(SOURCE, LENGTHS, TARGET)
    logits.square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in seq2seq.parameters())
    if attended is not None:
        assert (attended.context[2] == 0).all()


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_not_seen_before_it_is_read(kind, fast):
    seq2seq = model(kind, fast)
    changed = TARGET.clone()
    changed[:, 3] = 11
    before, after = (seq2seq(SOURCE, LENGTHS, target).logits for target in (TARGET, changed))
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert (before[:, 3] != after[:, 3]).any(-1).all()


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_says_what_teacher_forcing_says_when_it_reads_its_own_words(kind, fast):
    seq2seq = model(kind, fast, seed=3)
    tokens, weights = greedy_translation(seq2seq, SOURCE, LENGTHS, max_length=9)
    begin = torch.ones(4, 1, dtype=torch.long)
    forced = seq2seq(SOURCE, LENGTHS, torch.cat([begin, tokens[:, :-1]], dim=1))
    said = tokens != seq2seq.padding
    assert (forced.logits.argmax(-1)[said] == tokens[said]).all()
    if weights is not None:
        torch.testing.assert_close(weights[said], forced.attended.weights[said])


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_a_target_read_in_two_parts_is_the_target_read_at_once(kind, fast):
    seq2seq = model(kind, fast)
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    at_once = seq2seq.decoder(encoded, TARGET)
    first = seq2seq.decoder(encoded, TARGET[:, :2])
    second = seq2seq.decoder(encoded, TARGET[:, 2:], first.state)
    torch.testing.assert_close(torch.cat([first.logits, second.logits], dim=1), at_once.logits)
    torch.testing.assert_close(second.state, at_once.state)


class Speller(torch.nn.Module):
    """A decoder that predicts given words regardless of its input; its state counts the words."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def forward(self, encoded, target, state=None):
        B, T = target.shape
        state = torch.zeros(B, 1) if state is None else state
        logits = torch.nn.functional.one_hot(self.words[:, int(state[0]) : int(state[0]) + T], 10).float()
        return Decoded(logits, Attended(torch.zeros(B, T, 2), torch.full((B, T, 6), 0.5)), state + T)


def test_greedy_stops_each_sentence_at_its_own_end():
    seq2seq = model("dot")
    seq2seq.decoder = Speller(torch.tensor([[5, 2, 7, 7, 7], [6, 8, 9, 2, 7], [2, 4, 4, 4, 4], [9, 9, 2, 2, 2]]))
    tokens, weights = greedy_translation(seq2seq, SOURCE, LENGTHS, max_length=5)
    assert tokens.tolist() == [[5, 2, 0, 0], [6, 8, 9, 2], [2, 0, 0, 0], [9, 9, 2, 0]]
    assert ((weights == 0.5).all(-1) == (tokens != 0)).all()
    assert (weights[tokens == 0] == 0).all()


def test_greedy_stops_at_its_greatest_length():
    seq2seq = model("dot")
    seq2seq.decoder = Speller(torch.full((4, 5), 7))
    assert greedy_translation(seq2seq, SOURCE, LENGTHS, max_length=3).tokens.tolist() == [[7, 7, 7]] * 4


@SPEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_no_sentence_is_read_but_not_translated(kind, fast):
    seq2seq = model(kind, fast)
    logits, _, state = seq2seq(SOURCE[:0], LENGTHS[:0], TARGET[:0])
    assert logits.shape == (0, TARGET.shape[1], N_TARGET)
    assert len(state) == 0
    with pytest.raises(ValueError, match="one or more sentences"):
        greedy_translation(seq2seq, SOURCE[:0], LENGTHS[:0], max_length=5)


def test_greedy_keeps_no_graph():
    spoken = greedy_translation(model("bahdanau"), SOURCE, LENGTHS, max_length=3)
    assert not spoken.weights.requires_grad


def test_the_plain_decoder_by_its_equations_word_by_word():
    """Cho et al. 2014: the same vector c at every step of the GRU and of the readout."""
    seq2seq = model("plain")
    decoder, encoded = seq2seq.decoder, seq2seq.encoder(SOURCE, LENGTHS)
    for row in range(4):
        c = encoded.final[row]
        s = torch.tanh(decoder.bridge.weight @ c + decoder.bridge.bias)
        for t, word in enumerate(TARGET[row]):
            y = decoder.embedding.weight[word]
            cell = decoder.cell
            weights = (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0)
            s = gru_step(torch.cat([y, c]), s, *weights)
            said = decoder.readout.weight @ torch.cat([s, c, y]) + decoder.readout.bias
            torch.testing.assert_close(said, seq2seq(SOURCE, LENGTHS, TARGET).logits[row, t])


def test_nothing_but_the_final_state_crosses_without_attention():
    seq2seq = model("plain")
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    other = encoded._replace(keys=encoded.keys + 1, values=encoded.values * 2)
    assert (seq2seq.decoder(encoded, TARGET).logits == seq2seq.decoder(other, TARGET).logits).all()


def test_the_plain_decoder_with_weights_of_zero_by_hand():
    """h = 0 and every gate ½, so each step halves the state; the readout adds it up."""
    decoder = PlainDecoder(3, 2, 1, 4)
    for parameter in decoder.parameters():
        torch.nn.init.zeros_(parameter)
    decoder.readout.weight.data[:, 0] = torch.tensor([0.0, 1.0, -4.0])
    encoded = model("plain").float().encoder(SOURCE[:1], LENGTHS[:1])
    encoded = encoded._replace(final=torch.zeros(1, 4))
    logits, _, state = decoder(encoded, torch.tensor([[1, 1]]), state=torch.tensor([[0.8]]))
    torch.testing.assert_close(logits, torch.tensor([[[0.0, 0.4, -1.6], [0.0, 0.2, -0.8]]]))
    torch.testing.assert_close(state, torch.tensor([[0.2]]))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    seq2seq = model(kind, fast=True)
    names, parameters = zip(*seq2seq.named_parameters(), strict=True)

    def logits(*given):
        weights = dict(zip(names, given, strict=True))
        return torch.func.functional_call(seq2seq, weights, (SOURCE, LENGTHS, TARGET[:, :3])).logits

    assert torch.autograd.gradcheck(logits, parameters, fast_mode=True)


@pytest.mark.usefixtures("unchecked")
def test_targets_of_other_sources_are_refused():
    with pytest.raises(ValueError, match=r"got source .* target \(3,"):
        model("plain")(SOURCE, LENGTHS, TARGET[:3])


def test_greedy_needs_room_for_a_word():
    with pytest.raises(ValueError, match="at least 1"):
        greedy_translation(model("plain"), SOURCE, LENGTHS, max_length=0)


def test_a_word_outside_the_vocabulary_is_refused():
    with pytest.raises(IndexError):
        model("plain")(SOURCE + N_SOURCE, LENGTHS, TARGET)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_runs_on_a_gpu_as_on_a_cpu(kind):
    for each in twins(kind):
        here = each.float()(SOURCE, LENGTHS, TARGET).logits
        there = each.cuda()(SOURCE.cuda(), LENGTHS.cuda(), TARGET.cuda()).logits
        torch.testing.assert_close(there.cpu(), here, rtol=1e-3, atol=1e-4)
        spoken = greedy_translation(each, SOURCE.cuda(), LENGTHS.cuda(), max_length=5)
        assert spoken.tokens.is_cuda


@pytest.mark.parametrize("kind", KINDS)
def test_shapes(kind):
    logits, attended, state = model(kind)(SOURCE, LENGTHS, TARGET)
    assert logits.shape == (4, 5, N_TARGET)
    assert state.shape == (4, 2 * N if kind == "dot" else N_STATE)
    if attended is not None:
        assert attended.context.shape == (4, 5, 2 * N)
        assert attended.weights.shape == (4, 5, 6)
    assert model(kind).decoder.embedding.weight.shape == (N_TARGET, D)
