"""Pre-training on names masks, learns and measures as stated, on a few names of two documents."""

import torch

from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING
from course_lib.losses import corrupt, mlm_loss
from course_tools.lectures.lecture_08.experiments import NamePretraining, corrupted
from tests.course_tools.notebook.test_name_texts import MADE, NAMES

TRAINING = NamePretraining(MADE, corrupt, mlm_loss, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1), steps=60, lr=1e-2)
PAIRS = MADE.pairs(NAMES[:14], seed=0, strangers=False)


def test_special_tokens_are_never_chosen_and_always_means_mask():
    tokens = torch.tensor([[BEGIN, *[5] * 300, END, PADDING]])
    masked = corrupted(corrupt, tokens, 9, 0.4, always=True)
    assert not masked.chosen[0, [0, -2, -1]].any()
    assert 80 < masked.chosen.sum() < 160
    assert torch.equal(masked.tokens == 9, masked.chosen)
    assert (corrupted(corrupt, tokens, 9, 0.4).tokens == 9).sum() < masked.chosen.sum()


def test_masked_pieces_and_next_sentences_are_learned(capsys):
    found = TRAINING.pretrain(PAIRS, 0)
    assert len(found.losses) == 60
    assert found.last_loss < found.first_loss
    TRAINING.show_losses({"names": [found]})
    TRAINING.print_predictions(found.model, "ab", 2, n=3)
    assert capsys.readouterr().out.splitlines()[-1].startswith("a → ")
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
