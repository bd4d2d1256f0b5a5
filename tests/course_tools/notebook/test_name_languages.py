"""Languages of a few names are learned by fine-tuning and from a frozen encoder."""

import torch

from course_lib.blocks import Sizes
from course_lib.models import BERT, classification_head, scalar_mix
from course_tools.lectures.lecture_08.name_languages import (
    fine_tune,
    fit_mixture,
    language_accuracy,
    show_confusion,
    with_shuffled_labels,
)
from tests.course_tools.notebook.test_name_texts import MADE, NAMES, WORDS

BERT_12 = BERT(len(WORDS) + 1, 9, Sizes(d_model=12, n_heads=3, d_ff=13, n_layers=1))
DATA = MADE.alone([NAMES[0], NAMES[10], NAMES[-1]])


def test_three_names_are_learned_and_the_encoder_is_copied():
    before = BERT_12.tokens.weight.clone()
    model = fine_tune(classification_head, BERT_12, DATA, 0, lr=1e-2)
    assert language_accuracy(model, DATA) == 1
    assert torch.equal(before, BERT_12.tokens.weight)


def test_a_mixture_trains_the_weights_of_the_layers_alone():
    before = [p.clone() for p in BERT_12.parameters()]
    model = fit_mixture(scalar_mix, BERT_12, DATA, 0)
    assert language_accuracy(model, DATA) == 1
    assert sorted(dict(model.named_parameters())) == ["classify.bias", "classify.weight", "gamma", "w"]
    assert all(torch.equal(p, q) for p, q in zip(before, BERT_12.parameters(), strict=True))


def test_shuffled_labels_are_the_same_labels():
    data = MADE.alone(NAMES)
    shuffled = with_shuffled_labels(data, 0)
    assert not torch.equal(shuffled[3], data[3])
    assert torch.equal(shuffled[3].sort().values, data[3].sort().values)


def test_the_diagonal_of_the_confusion_is_in_the_caption(capsys):
    answers = torch.arange(8).repeat(2)
    show_confusion(torch.where(torch.arange(16) == 0, 1, answers), answers, "a model")
    assert "de 0.50, nl 1.00" in capsys.readouterr().out
