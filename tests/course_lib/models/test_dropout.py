"""Dropout in models: where the papers have it, by an independent form; none in evaluation."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import GeneralAttention
from course_lib.blocks import Sizes
from course_lib.models import (
    BERT,
    DETR,
    GPT,
    LuongDecoder,
    ObjectBlock,
    ShowAndTell,
    Transformer,
    TransformerXL,
    ViT,
)
from course_lib.primitives import gru_step
from tests.course_lib.models.decoders import LENGTHS as SOURCE_LENGTHS
from tests.course_lib.models.decoders import SOURCE, TARGET
from tests.course_lib.models.decoders import model as seq2seq

SIZES = Sizes(d_model=8, n_heads=2, d_ff=16, n_layers=2)
TOKENS, LENGTHS = torch.tensor([[3, 1, 4, 1], [5, 2, 6, 0]]), torch.tensor([4, 3])
MODELS = {
    "GPT": (lambda p: GPT(10, 8, SIZES, dropout=p), (TOKENS,), 2 * 2 + 1),
    "BERT": (lambda p: BERT(10, 8, SIZES, dropout=p), (TOKENS,), 2 * 2 + 1),
    "ViT": (lambda p: ViT(3, (1, 8, 8), 4, SIZES, dropout=p), (torch.ones(2, 1, 8, 8),), 2 * 2 + 1),
    "Transformer-XL": (lambda p: TransformerXL(10, SIZES, 4, dropout=p), (TOKENS,), 2 * 2 + 1),
    "Transformer": (lambda p: Transformer(10, 10, SIZES, dropout=p), (TOKENS, LENGTHS, TOKENS), 2 * 2 + 2 * 3 + 2),
    "DETR": (
        lambda p: DETR(nn.Conv2d(1, 7, 3, 2), 7, 4, 5, SIZES, dropout=p),
        (torch.ones(2, 1, 9, 9),),
        2 * 2 + 2 * 3,
    ),
    "Show and Tell": (lambda p: ShowAndTell(10, 7, 5, 11, p), (torch.ones(2, 7), TOKENS), 1 + 1 + 1),
}
each_model = pytest.mark.parametrize("name", MODELS)


def passed(model, inputs):
    """Return (rate, input, output) of each call of a dropout layer."""
    calls = []
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda module, x, y: calls.append((module.p, x[0], y)))
    torch.manual_seed(1)
    model(*inputs)
    return calls


@each_model
def test_it_acts_in_each_place_that_the_paper_names(name):
    """In transformers after the embedding, which DETR does not have, and after each sublayer."""
    make, inputs, n_places = MODELS[name]
    calls = passed(make(0.5).train(), inputs)
    assert [rate for rate, _, _ in calls] == [0.5] * n_places
    assert all((y == 0).any() and (y[y != 0] == 2 * x[y != 0]).all() for _, x, y in calls if x.any())


@each_model
def test_evaluation_is_the_model_without_dropout(name):
    make, inputs, _ = MODELS[name]
    model, plain = make(0.5).eval(), make(0.0)
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(*inputs), plain.train()(*inputs))


def test_decoding_a_transformer_drops_nothing_in_training_neither():
    """Neither reading the source nor a step applies dropout; each part keeps its mode."""
    model = Transformer(10, 10, SIZES, dropout=0.5).train()
    model.encoder.blocks[0].eval()
    modes = [part.training for part in model.modules()]
    logits = [model.step(TOKENS[:, 0], model.start(TOKENS, LENGTHS))[0] for _ in range(2)]
    torch.testing.assert_close(*logits)
    assert [part.training for part in model.modules()] == modes
    torch.testing.assert_close(model.eval()(TOKENS, LENGTHS, TOKENS[:, :1])[:, 0], logits[0])


def test_a_decoder_layer_of_detr_drops_as_torchs_layer_does_under_one_seed():
    """Without positions, and without the dropout of attention weights and hidden units, which torch adds to the paper's."""
    torch.manual_seed(0)
    ours = ObjectBlock(SIZES, dropout=0.4).train()
    theirs = nn.TransformerDecoderLayer(SIZES.d_model, SIZES.n_heads, SIZES.d_ff, 0.4, batch_first=True).train()
    theirs.dropout.p = theirs.self_attn.dropout = theirs.multihead_attn.dropout = 0.0
    own = ours.mixer.attention
    pairs = [(ours.norm_1, theirs.norm1), (ours.norm_2, theirs.norm2), (ours.norm_3, theirs.norm3)]
    pairs += [(ours.feed_forward.W_1, theirs.linear1), (ours.feed_forward.W_2, theirs.linear2)]
    with torch.no_grad():
        for heads, attention in ((own, theirs.self_attn), (ours.cross, theirs.multihead_attn)):
            projections = heads.W_q, heads.W_k, heads.W_v
            attention.in_proj_weight.copy_(torch.cat([layer.weight for layer in projections]))
            attention.in_proj_bias.copy_(torch.cat([layer.bias for layer in projections]))
            pairs.append((heads.W_o, attention.out_proj))
        for mine, other in pairs:
            other.load_state_dict(mine.state_dict())
    x, memory = torch.randn(1, 5, SIZES.d_model), torch.randn(1, 7, SIZES.d_model)
    results = []
    for layer in (lambda: ours(x, torch.zeros(()), memory, torch.zeros(())), lambda: theirs(x, memory)):
        torch.manual_seed(1)
        results.append(layer())
    torch.testing.assert_close(*results)
    torch.manual_seed(2)
    assert not torch.allclose(ours(x, torch.zeros(()), memory, torch.zeros(())), results[0])


def kept(*shape, p):
    """The factors of one dropout of a tensor of this shape: 0 with probability p, else 1 / (1 - p)."""
    return F.dropout(torch.ones(shape, dtype=torch.float64), p)


def test_luongs_decoder_drops_words_and_states_but_not_the_recurrence():
    """Word by word, with the factors of the two dropouts drawn from the same seed; the source has no empty sentence here."""
    whole = seq2seq("general")
    plain, cell = whole.decoder, whole.decoder.cell
    d, n = plain.embedding.embedding_dim, plain.bridge.out_features
    dropped = LuongDecoder(plain.readout.out_features, d, n, 10, GeneralAttention(n, 10), dropout=0.2).double().train()
    dropped.load_state_dict(plain.state_dict())
    encoded = whole.encoder(SOURCE, SOURCE_LENGTHS)
    torch.manual_seed(3)
    logits, _, last = dropped(encoded, TARGET)
    torch.manual_seed(3)
    of_words, of_states = kept(*TARGET.shape, d, p=0.2), kept(*TARGET.shape, n, p=0.2)
    assert 0.1 < (of_states == 0).double().mean() < 0.3
    h = torch.tanh(plain.bridge(encoded.final))
    some = SOURCE_LENGTHS > 0
    for t in range(TARGET.shape[1]):
        y = of_words[:, t] * plain.embedding(TARGET[:, t])
        h = gru_step(y, h, cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0)
        read = of_states[:, t] * h
        scores = (encoded.keys @ (read @ plain.attention.W)[..., None])[..., 0].masked_fill(~encoded.mask[:, 0], -torch.inf)
        c = (scores.softmax(-1)[:, None] @ encoded.values)[:, 0]
        wanted = plain.readout(torch.tanh(plain.combine(torch.cat([c, read], dim=1))))
        torch.testing.assert_close(logits[some, t], wanted[some])
    torch.testing.assert_close(last, h)


def test_evaluation_of_luongs_decoder_is_the_decoder_without_dropout():
    whole = seq2seq("general")
    plain = whole(SOURCE, SOURCE_LENGTHS, TARGET)
    whole.decoder.dropout.p = 0.5
    assert not torch.allclose(whole(SOURCE, SOURCE_LENGTHS, TARGET).logits, plain.logits)
    torch.testing.assert_close(whole.eval()(SOURCE, SOURCE_LENGTHS, TARGET), plain)


def test_show_and_tell_drops_what_the_lstm_reads_and_returns():
    torch.manual_seed(0)
    model, picture = ShowAndTell(10, 7, 5, 11, 0.3).double().train(), torch.randn(2, 7, dtype=torch.float64)
    torch.manual_seed(4)
    found = model(picture, TOKENS)
    torch.manual_seed(4)
    T = TOKENS.shape[1]
    of_picture, of_words, of_states = (kept(2, *size, p=0.3) for size in ((1, 5), (T, 5), (T, 11)))
    lstm = nn.LSTM(5, 11, batch_first=True).double()
    lstm.load_state_dict(model.cell.state_dict())
    read = torch.cat([of_picture * model.look(picture)[:, None], of_words * model.words(TOKENS)], dim=1)
    states, last = lstm(read)
    torch.testing.assert_close(found.logits, model.readout(of_states * states[:, 1:]))
    torch.testing.assert_close(found.state, tuple(x[0] for x in last))
