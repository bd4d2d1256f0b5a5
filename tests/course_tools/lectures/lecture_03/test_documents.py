"""Documents become tensors, rivals are means, and the weights of the words are drawn."""

import pytest
import torch
from torch import nn

from course_lib.datasets import Vocabulary
from course_tools.lectures.lecture_03 import documents
from course_tools.lectures.lecture_03.documents import (
    BagOfWords,
    MarkedDocuments,
    TwoMeans,
    marked_documents,
    show_document_weights,
)
from course_tools.notebook.docstrings import LabelledText

LONG = "nota one two three one two three one two"
NEW = (LabelledText(("red", "nota green"), "colours"), LabelledText((LONG, "red"), "numbers"))
WORDS = Vocabulary.of((line for text in NEW for line in text.sentences), between=" ")
TASK = MarkedDocuments(WORDS, ("colours", "numbers"), NEW, NEW)


def test_words_mask_and_topics_of_documents():
    words, mask, topics = TASK.batch(NEW)
    assert words.shape == mask.shape == (2, 8, 9)
    assert mask.sum(-1).tolist() == [[1, 2, 0, 0, 0, 0, 0, 0], [9, 1, 0, 0, 0, 0, 0, 0]]
    assert topics.tolist() == [0, 1]
    assert TASK.words.decode(words[0, 1].tolist()) == "nota green"
    assert TASK.most_frequent == 0.5


def test_the_accuracy_is_the_share_of_right_topics():
    assert TASK.accuracy(lambda words, mask: (torch.tensor([[1.0, 2.0], [1.0, 2.0]]), None)) == 0.5
    assert TASK.accuracy(lambda words, mask: (torch.tensor([[2.0, 1.0], [1.0, 2.0]]), None)) == 1.0


def test_each_composed_document_has_eight_sentences_and_one_mark():
    marked = marked_documents(20, 10)
    assert (len(marked.known), len(marked.new), len(marked.topics)) == (20, 10, 8)
    for text in (*marked.known, *marked.new):
        assert len(text.sentences) == 8
        assert sum(line.startswith("nota ") for line in text.sentences) == 1


def test_the_bag_of_words_is_the_mean_of_the_real_words():
    torch.manual_seed(0)
    model = BagOfWords(11, 3, 5)
    words, mask = torch.tensor([[[1, 2, 0], [3, 0, 0]]]), torch.tensor([[[True, True, False], [True, False, False]]])
    torch.testing.assert_close(model(words, mask)[0][0], model.readout(model.words.weight[[1, 2, 3]].mean(0)))


@pytest.mark.parametrize(("activation", "is_linear"), [(nn.Identity, True), (nn.ReLU, False)])
def test_two_means_are_linear_in_the_word_vectors_only_without_an_activation(activation, is_linear):
    torch.manual_seed(0)
    model = TwoMeans(activation, 11, 4, d=5)
    words, mask = torch.tensor([[[1, 2, 3], [4, 0, 0]]]), torch.tensor([[[True] * 3, [True, False, False]]])
    vectors = model.words.weight
    mean = (vectors[1:4].mean(0) + vectors[4]) / 2
    one_mean = model.readout(model.layer[0](mean))
    assert torch.allclose(model(words, mask)[0][0], one_mean, atol=1e-5) is is_linear


def test_the_weight_of_a_word_is_that_of_its_sentence_times_its_own(monkeypatch):
    shown = []
    monkeypatch.setattr(documents, "show", lambda figure, alt: shown.append((figure, alt)))
    document = LabelledText(("red green", "blue"), "colours")
    show_document_weights(document, torch.tensor([0.2, 0.8]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    ((figure, alt),) = shown
    assert {"0.20", "0.80", "red", "green", "blue"} < {text.get_text() for text in figure.axes[0].texts}
    assert [round(patch.get_alpha(), 3) for patch in figure.axes[0].patches] == [0.125, 0.125, 1.0]
    assert "The sentence 'blue' has 0.80 of the weight, and in it blue the most" in alt
