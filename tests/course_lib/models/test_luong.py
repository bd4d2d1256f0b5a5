"""Luong's decoder against a loop written from the paper's equations, one mechanism at a time."""

import pytest
import torch

from course_lib.attention import AdditiveAttention, ConcatAttention, GeneralAttention, dot_attention
from course_lib.models import Encoded, LuongDecoder
from course_lib.primitives import gru_step
from tests.course_lib.models.decoders import LENGTHS, SOURCE, TARGET, model


def score(kind, attention, h_t, h_s):
    """Eq. 8."""
    if kind == "dot":
        return h_t @ h_s
    if kind == "general":
        return h_t @ attention.W @ h_s
    return attention.v @ torch.tanh(attention.W @ torch.cat([h_t, h_s]))


@pytest.mark.parametrize("kind", ["dot", "general", "concat"])
def test_the_decoder_by_the_papers_equations_word_by_word(kind):
    seq2seq = model(kind)
    decoder, cell = seq2seq.decoder, seq2seq.decoder.cell
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    logits, attended, _ = seq2seq(SOURCE, LENGTHS, TARGET)
    for row in (0, 1, 3):
        source = encoded.values[row, : LENGTHS[row]]
        h = torch.tanh(decoder.bridge(encoded.final[row]))
        for t, word in enumerate(TARGET[row]):
            y = decoder.embedding.weight[word]
            h = gru_step(y, h, cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0)
            e = torch.stack([score(kind, decoder.attention, h, h_s) for h_s in source])
            a = torch.exp(e) / torch.exp(e).sum()
            c = sum(a_s * h_s for a_s, h_s in zip(a, source, strict=True))
            combined = torch.tanh(decoder.combine(torch.cat([c, h])))
            torch.testing.assert_close(attended.weights[row, t, : LENGTHS[row]], a)
            torch.testing.assert_close(attended.context[row, t], c)
            torch.testing.assert_close(logits[row, t], decoder.readout(combined))


def test_the_query_is_the_state_after_the_word():
    """Unlike Bahdanau's, the first row of weights depends on the first word that the decoder reads."""
    seq2seq = model("general")
    other = TARGET.clone()
    other[:, 0] = 9
    before, after = (seq2seq(SOURCE, LENGTHS, target).attended.weights for target in (TARGET, other))
    assert (before[0, 0] != after[0, 0]).any()


def test_there_is_no_input_feeding():
    """Attention does not change later states: they depend only on the target and the first state."""
    seq2seq = model("general")
    encoded = seq2seq.encoder(SOURCE, LENGTHS)
    other = encoded._replace(values=encoded.values.flip(2), keys=encoded.keys * 3)
    here, there = (seq2seq.decoder(e, TARGET) for e in (encoded, other))
    assert (here.state == there.state).all()
    assert (here.logits[0] != there.logits[0]).any()


def test_dot_products_decide_by_hand():
    """Two keys, scores 0 and ln 3 for a state of (1, 0): weights ¼ and ¾."""
    decoder = LuongDecoder(4, 2, 2, 2, GeneralAttention(2, 2))
    for parameter in decoder.parameters():
        torch.nn.init.zeros_(parameter)
    decoder.attention.W.data = torch.eye(2)
    decoder.cell.bias_ih_l0.data[2:4] = 100.0  # z = 1: the state stays as it is
    keys = torch.tensor([[[0.0, 5.0], [1.0986123, 5.0]]])
    values = torch.tensor([[[4.0, 0.0], [0.0, 8.0]]])
    encoded = Encoded(keys, values, torch.zeros(1, 2), torch.ones(1, 1, 2, dtype=torch.bool))
    _, (context, weights), _ = decoder(encoded, torch.tensor([[1]]), state=torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[[0.25, 0.75]]]))
    torch.testing.assert_close(context, torch.tensor([[[1.0, 6.0]]]))


def test_concat_is_bahdanaus_score_with_the_matrices_side_by_side():
    seq2seq = model("concat")
    concat = seq2seq.decoder.attention
    assert isinstance(concat, ConcatAttention)
    here = seq2seq(SOURCE, LENGTHS, TARGET)
    additive = AdditiveAttention(7, 10, 11).double()
    additive.W.data, additive.U.data = concat.W.data.split([7, 10], dim=1)
    additive.v.data = concat.v.data
    seq2seq.decoder.attention = additive
    torch.testing.assert_close(seq2seq(SOURCE, LENGTHS, TARGET), here)


def test_dot_refuses_a_state_of_another_size_than_the_keys():
    decoder = LuongDecoder(4, 2, 3, 2, dot_attention)
    values = torch.zeros(1, 2, 2)
    encoded = Encoded(values, values, torch.zeros(1, 2), torch.ones(1, 1, 2, dtype=torch.bool))
    with pytest.raises(RuntimeError, match=r"3.*2"):
        decoder(encoded, torch.tensor([[1]]))
