"""Names in languages are learned by BERT, by a mixture of its layers, and by n-grams of characters."""

import torch

from course_lib.blocks import Sizes
from course_lib.datasets import DisplayName
from course_lib.models import BERT, classification_head, scalar_mix
from course_tools.lectures.lecture_08.name_languages import (
    CharacterNgrams,
    bits_of_a_missing_letter,
    fine_tune,
    fit_mixture,
    language_accuracy,
    show_confusion,
    with_shuffled_labels,
)
from tests.course_tools.lectures.lecture_08.test_data import MADE, NAMES, WORDS

# Languages of a few names are learned by fine-tuning and from a frozen encoder.


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


# Languages with letters of their own are told apart, and documents help where the labelled names share no letters.


SHAPES = ("{0}{0}{1}", "{1}{0}", "{0}{1}{1}", "{1}{1}{0}")


def names(letters, language):
    return [DisplayName(shape.format(*letters), language, language) for shape in SHAPES]


UNLABELLED = names("ab", 0) + names("cd", 1) + names("ef", 2)


def test_letters_of_its_own_name_a_language():
    classifiers = CharacterNgrams(UNLABELLED, n_directions=3)
    few = [DisplayName("ab", 0, 0), DisplayName("cd", 1, 1), DisplayName("fe", 2, 2)]
    found = classifiers.languages(few, [DisplayName("aba", 0, 9), DisplayName("dc", 1, 9), DisplayName("eff", 2, 9)])
    assert {name: languages.tolist() for name, languages in found.items()} == {name: [0, 1, 2] for name in found}
    assert list(found) == ["TF-IDF", "TF-IDF + SVD", "naive Bayes + documents"]


def test_unlabelled_documents_reveal_letters_that_no_label_shows():
    classifiers = CharacterNgrams(UNLABELLED, n_directions=3)
    few = [DisplayName("a", 0, 0), DisplayName("c", 1, 1), DisplayName("e", 2, 2)]
    new = [DisplayName(letter, i, 9) for i, letter in enumerate("bdf")]
    assert classifiers.languages(few, new)["naive Bayes + documents"].tolist() == [0, 1, 2]
    assert classifiers.counts([DisplayName("zz", 0, 0)])[0, classifiers.index[" "]] == 2


def test_more_directions_than_the_rank_give_finite_features():
    classifiers = CharacterNgrams(3 * UNLABELLED, n_directions=9)
    assert classifiers.to_svd.isfinite().all()


def test_the_letter_after_a_gap_tells_the_missing_one():
    known = ["xay", "xbz", "yay", "ybz", "zay", "zbz"]
    before, around = (bits_of_a_missing_letter(known, ["xay", "zbz"], order) for order in ((0, 1, 2, 3, 4), (0, 4, 1, 3, 2)))
    assert around < before


def test_accuracies_of_each_draw():
    few = [DisplayName("ab", 0, 0), DisplayName("cd", 1, 1), DisplayName("fe", 2, 2)]
    swapped = [few[0]._replace(language=1), few[1]._replace(language=0), few[2]]
    new = [DisplayName("aba", 0, 9), DisplayName("eff", 2, 9)]
    found = CharacterNgrams(UNLABELLED, n_directions=3).accuracies([few, swapped], new)
    assert found == {name: [1.0, 0.5] for name in ("TF-IDF", "TF-IDF + SVD", "naive Bayes + documents")}
