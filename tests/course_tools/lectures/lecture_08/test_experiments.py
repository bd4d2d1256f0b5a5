"""BERT on names: losses and states by hand, masking never takes special tokens, ELMo's halves see their own side."""

import string

import pytest
import torch
from torch import nn

from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING
from course_lib.losses import corrupt, mlm_loss, segment_input
from course_lib.models import BERT, ELMo, SpanHead, TagHead, scalar_mix
from course_tools.lectures.lecture_08.experiments import (
    BERTWithHead,
    NamePretraining,
    changes_with_the_future,
    corrupted,
    fit_with_head,
    mean_states,
    pretrain,
    published_bert,
    span_accuracy,
    span_loss,
    tag_accuracy,
    tag_loss,
)
from tests.course_lib.models import peers
from tests.course_tools.lectures.lecture_08.test_data import MADE, NAMES

# Losses and scores of tags and spans, the states of the layers and pre-training, on a BERT whose answer is known.


SIZES = Sizes(d_model=6, n_heads=3, d_ff=7, n_layers=2)
TOKENS, SEGMENTS, LENGTHS = torch.tensor([[1, 5, 2, 6, 2], [1, 7, 2, 0, 0]]), torch.zeros(2, 5).long(), torch.tensor([5, 3])
DATA = (
    TOKENS,
    SEGMENTS,
    LENGTHS,
    torch.tensor([[-100, 1, 1, 0, -100], [-100, 0, -100, -100, -100]]),
    torch.tensor([[1, 1]] * 2),
)


def zero(headed):
    """Set the head to 0: every class and every real position is as likely."""
    for parameter in headed.head.parameters():
        nn.init.zeros_(parameter)
    return headed.eval()


def test_tags_without_information_cost_the_log_of_their_number():
    model = zero(BERTWithHead(BERT(11, 5, SIZES), TagHead(6, 3)))
    assert tag_loss(model, DATA).item() == pytest.approx(torch.tensor(3.0).log().item())
    assert tag_accuracy(model, DATA) == pytest.approx(0.5)


def test_ends_without_information_cost_the_log_of_the_length_and_padding_is_never_one():
    model = zero(BERTWithHead(BERT(11, 5, SIZES), SpanHead(6)))
    assert span_loss(model, DATA).item() == pytest.approx(LENGTHS.log().mean().item() * 2)
    assert span_accuracy(model, DATA) == 0
    data = (*DATA[:4], torch.zeros(2, 2).long())
    assert span_accuracy(model, data) == 1


def test_the_last_of_the_mean_states_is_that_of_the_model():
    bert = BERT(11, 5, SIZES).eval()
    states = mean_states(bert, TOKENS, SEGMENTS, LENGTHS)
    assert states.shape == (2, 3, 6)
    torch.testing.assert_close(states[1, -1], bert(TOKENS, SEGMENTS, LENGTHS)[1, :3].mean(0))


def test_pre_training_reports_the_loss_of_the_words():
    def loss(model, batch):
        value = nn.functional.cross_entropy(model(batch[0]).words.flatten(0, 1), batch[0].flatten())
        return value, {"words": value.item()}

    model, losses = pretrain(BERT(11, 5, SIZES), [TOKENS], loss, steps=30, lr=1e-2, seed=0)
    assert len(losses) == 30
    assert losses[-1] < losses[0]
    assert not model.training


def test_a_published_bert_is_read_with_its_vocabulary(tmp_path):
    transformers = pytest.importorskip("transformers", reason=peers.REASON)
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *".,;", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    config = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=6,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=7,
        max_position_embeddings=99,
    )
    peers.saved(transformers.BertModel(config), tmp_path)
    bert, tokens, segments, lengths, delimiters, symbols = published_bert(str(tmp_path), segment_input)
    assert symbols == tuple(pieces)
    assert delimiters.sum(1).tolist() == [2, 2, 2]
    rows = [[symbols[token] for token in row[:length]] for row, length in zip(tokens, lengths, strict=True)]
    first = "".join(rows[0]).replace("##", "")
    assert first == "[CLS]thekeysofadictionaryarehashed.[SEP]theymustnotchangewhiletheyareinit.[SEP]"
    for row, of_row, length in zip(delimiters, segments, lengths, strict=True):
        end = int(row.nonzero()[0])
        assert of_row.tolist() == [0] * (end + 1) + [1] * (int(length) - end - 1) + [0] * (len(row) - int(length))
    assert bert(tokens, segments, lengths).shape == (*tokens.shape, 6)


def test_copies_are_fine_tuned():
    bert, head = BERT(11, 5, SIZES), TagHead(6, 3)
    before = [p.clone() for p in (*bert.parameters(), *head.parameters())]
    model = fit_with_head(bert, head, tag_loss, DATA, 20, seed=0, label="tags")
    assert all(torch.equal(p, q) for p, q in zip(before, (*bert.parameters(), *head.parameters()), strict=True))
    assert tag_loss(model, DATA) < tag_loss(BERTWithHead(bert, head), DATA)


# Pre-training on names masks, learns and measures as stated, on a few names of two documents.


TRAINING = NamePretraining(MADE, corrupt, mlm_loss, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), steps=60, lr=1e-2)
PAIRS = MADE.pairs(NAMES[:14], seed=0, strangers=False)


def test_special_tokens_are_never_chosen_and_always_means_mask():
    tokens = torch.tensor([[BEGIN, *[5] * 300, END, PADDING]])
    masked = corrupted(corrupt, tokens, 9, 0.4, always=True)
    assert not masked.chosen[0, [0, -2, -1]].any()
    assert 80 < masked.chosen.sum() < 160
    assert torch.equal(masked.tokens == 9, masked.chosen)
    assert (corrupted(corrupt, tokens, 9, 0.4).tokens == 9).sum() < masked.chosen.sum()


def test_masked_pieces_and_next_sentences_are_learned():
    found = TRAINING.pretrain(PAIRS, 0)
    assert len(found.losses) == 60
    assert found.last_loss < found.first_loss
    both = TRAINING.pretrain(PAIRS, 0, next_sentence=True)
    assert both.losses != found.losses
    assert 0 <= TRAINING.next_sentence_accuracy(both.model, NAMES[:14], 0) <= 1


def test_the_truth_of_an_untrained_head_is_as_likely_as_any_piece():
    model = TRAINING.pretrain(PAIRS, 0).model
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    assert abs(TRAINING.probability_of_truth(model, NAMES[:14], 0, hide=True) - 1 / (TRAINING.mask + 1)) < 1e-6


def test_the_inspected_copy_has_the_same_states():
    model = TRAINING.pretrain(PAIRS, 0).model
    shown = TRAINING.inspected(model, NAMES[:14] * 2)
    args = shown.tokens, shown.segments, shown.lengths
    torch.testing.assert_close(shown.bert(*args), model.bert(*args))
    assert shown.delimiters.sum(1).tolist() == [2] * len(shown.tokens)
    assert len(shown.symbols) == TRAINING.mask + 1
    assert not torch.equal(TRAINING.new_bert(0).tokens.weight, TRAINING.new_bert(1).tokens.weight)


# The forward half of ELMo is independent of later words, and the other half is not.


def test_half_of_the_features_change():
    torch.manual_seed(0)
    assert changes_with_the_future(ELMo(13, 7, 2), scalar_mix, seed=0) == (0.0, 7)


def test_a_mixture_that_drops_everything_does_not_change():
    nothing = lambda layers, w, gamma: 0 * layers.sum(-2)  # noqa: E731
    assert changes_with_the_future(ELMo(13, 7, 2), nothing, seed=0).n_features == 0
