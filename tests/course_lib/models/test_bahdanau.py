"""Bahdanau's decoder against a loop written from the paper's equations, and its attention as in the paper."""

import pytest
import torch

from course_lib.attention import Attended, dot_attention
from course_lib.fast import fused_dot_attention, hoisted_bahdanau_steps
from course_lib.models import BahdanauDecoder, Encoded, bahdanau_steps
from tests.course_lib.models.decoders import LENGTHS, SOURCE, TARGET, model


def sigma(x):
    return 1 / (1 + torch.exp(-x))


def test_the_decoder_by_the_papers_equations_word_by_word():
    """One sentence, one word, one key at a time (appendix A.1.2 and A.2.2), with torch's form of the GRU."""
    seq2seq = model("bahdanau")
    decoder, attention, cell = seq2seq.decoder, seq2seq.decoder.attention, seq2seq.decoder.cell
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    logits, attended, _ = seq2seq(SOURCE, LENGTHS, TARGET)
    n = decoder.bridge.out_features
    for row in (0, 1, 3):
        h = encoded.values[row, : LENGTHS[row]]
        s = torch.tanh(decoder.bridge(encoded.final[row]))
        for t, word in enumerate(TARGET[row]):
            e = torch.stack([attention.v @ torch.tanh(attention.W @ s + attention.U @ h_j) for h_j in h])
            alpha = torch.exp(e) / torch.exp(e).sum()
            c = sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))
            y = decoder.embedding.weight[word]
            from_x = cell.weight_ih_l0 @ torch.cat([y, c]) + cell.bias_ih_l0
            from_s = cell.weight_hh_l0 @ s + cell.bias_hh_l0
            r, z = sigma(from_x[:n] + from_s[:n]), sigma(from_x[n : 2 * n] + from_s[n : 2 * n])
            candidate = torch.tanh(from_x[2 * n :] + r * from_s[2 * n :])
            s = (1 - z) * candidate + z * s
            torch.testing.assert_close(attended.weights[row, t, : LENGTHS[row]], alpha)
            torch.testing.assert_close(attended.context[row, t], c)
            torch.testing.assert_close(logits[row, t], decoder.readout(torch.cat([s, c, y])))


def test_the_query_is_the_state_before_the_word():
    """The first row of weights depends only on the encoder: no word of the target can change it."""
    seq2seq = model("bahdanau")
    other = TARGET.clone()
    other[:, 0] = 9
    before, after = (seq2seq(SOURCE, LENGTHS, target).attended.weights for target in (TARGET, other))
    assert (before[:, 0] == after[:, 0]).all()
    assert (before[0, 1] != after[0, 1]).any()


def test_one_word_in_the_source_gets_all_the_weight_by_hand():
    for run in (bahdanau_steps, hoisted_bahdanau_steps):
        decoder = BahdanauDecoder(5, 2, 3, 2, 4, run=run)
        values = torch.tensor([[[0.25, -0.5], [7.0, 7.0]]])
        encoded = Encoded(values, values, torch.zeros(1, 2), torch.tensor([[[True, False]]]))
        _, (context, weights), _ = decoder(encoded, torch.tensor([[1, 2, 3]]))
        assert weights.tolist() == [[[1.0, 0.0]] * 3]
        assert context.tolist() == [[[0.25, -0.5]] * 3]


def test_weights_from_sigmoids_hold_where_tanh_saturates():
    torch.manual_seed(0)
    slow, quick = (BahdanauDecoder(5, 2, 3, 4, 6, run=run) for run in (bahdanau_steps, hoisted_bahdanau_steps))
    quick.load_state_dict(slow.state_dict())
    values = 50 * torch.randn(2, 7, 4)
    encoded = Encoded(values, values, torch.zeros(2, 4), torch.ones(2, 1, 7, dtype=torch.bool))
    target = torch.tensor([[1, 2, 3], [1, 4, 2]])
    torch.testing.assert_close(quick(encoded, target).attended.weights, slow(encoded, target).attended.weights)


def test_keys_and_values_may_differ():
    """Keys determine the weights, values the context: other values change the first context, but not its weights."""
    seq2seq = model("bahdanau")
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    for run in (bahdanau_steps, hoisted_bahdanau_steps):
        seq2seq.decoder.run = run
        here = seq2seq.decoder(encoded, TARGET).attended
        there = seq2seq.decoder(encoded._replace(values=2 * encoded.values), TARGET).attended
        torch.testing.assert_close(there.weights[:, 0], here.weights[:, 0])
        torch.testing.assert_close(there.context[:, 0], 2 * here.context[:, 0])


def test_the_equation_form_takes_any_mechanism():
    seq2seq = model("bahdanau")
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    project = torch.randn(7, 10).double()

    def mechanism(q, k, v, mask=None):
        return dot_attention(q @ project, k, v, mask)

    embedded = seq2seq.decoder.embedding(TARGET)
    states, attended = bahdanau_steps(embedded, torch.zeros(4, 7).double(), encoded, mechanism, seq2seq.decoder.cell)
    assert isinstance(attended, Attended)
    assert states.shape == (4, 5, 7)


def test_a_form_without_weights_is_refused():
    seq2seq = model("bahdanau")
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    embedded = seq2seq.decoder.embedding(TARGET)

    def mechanism(q, k, v, mask=None):
        return fused_dot_attention(k[:, :1], k, v, mask)

    with pytest.raises(TypeError, match="a fused form never builds them"):
        bahdanau_steps(embedded, torch.zeros(4, 7).double(), encoded, mechanism, seq2seq.decoder.cell)
