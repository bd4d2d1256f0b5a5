"""Documents become tensors, functions pool them, and marked sentences have the weight that is measured."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib.attention import Pool, pool
from course_lib.datasets.docstrings import LabelledText
from course_lib.models import PooledDocument, compose_document
from course_tools.lectures.lecture_03 import documents
from course_tools.lectures.lecture_03.documents import (
    BagOfWords,
    DocumentExperiment,
    DocumentReaders,
    PoolByFunction,
    TwoLevels,
    TwoMeans,
    real_words,
    show_document_weights,
    topic_task,
)

# Documents as tensors, a bag of words, and a task that it learns.


DOCUMENTS = (
    LabelledText(("red green", "blue"), "colours"),
    LabelledText(("one two three",), "numbers"),
    LabelledText(("two", "one", "three one"), "numbers"),
)
TASK = topic_task(DOCUMENTS)


def test_words_lengths_and_topics_of_documents():
    words, lengths, topics = TASK.batch(DOCUMENTS, n_sentences=2)
    assert words.shape == (3, 2, 3)
    assert lengths.tolist() == [[2, 1], [3, 0], [1, 1]]
    assert [TASK.topics[i] for i in topics] == ["colours", "numbers", "numbers"]
    assert TASK.words.decode(words[0, 0].tolist()) == "red green"


def test_the_word_that_marks_a_sentence_is_known():
    words, lengths, _ = TASK.batch([LabelledText(("nota blue",), "colours")])
    assert TASK.words.decode(words[0, 0].tolist()) == "nota blue"
    assert lengths.tolist() == [[2] + [0] * 7]


def test_the_mask_is_true_at_real_words():
    assert real_words(torch.zeros(1, 2, 3), torch.tensor([[3, 1]])).tolist() == [[[True] * 3, [True, False, False]]]


def test_the_bag_of_words_is_the_mean_of_the_real_words_in_any_order():
    torch.manual_seed(0)
    model = BagOfWords(11, 3, 5)
    words, lengths = torch.tensor([[[1, 2, 0], [3, 0, 0]]]), torch.tensor([[2, 1]])
    logits, weights = model(words, lengths)
    assert weights is None
    torch.testing.assert_close(logits[0], model.readout(model.words.weight[[1, 2, 3]].mean(0)))
    other, _ = model(torch.tensor([[[3, 1, 2]]]), torch.tensor([[3]]))
    torch.testing.assert_close(logits, other)


def test_topics_are_learned():
    model = TASK.fit(lambda: BagOfWords(len(TASK.words), 2, 5), DOCUMENTS * 11, seed=0, steps=40, lr=5e-2)
    accuracy, weights = TASK.accuracy(model, DOCUMENTS)
    assert accuracy == 1.0
    assert weights is None


def test_the_weight_of_a_word_is_that_of_its_sentence_times_its_own(monkeypatch):
    shown = []
    monkeypatch.setattr(documents, "show", lambda figure, alt: shown.append((figure, alt)))
    document = LabelledText(("red green", "blue"), "colours")
    show_document_weights(document, torch.tensor([0.2, 0.8]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    ((figure, alt),) = shown
    torch.testing.assert_close(
        torch.as_tensor(figure.axes[0].images[0].get_array().data), torch.tensor([[0.1, 0.1], [0.8, 0.0]]), check_dtype=False
    )
    assert "the sentence 'blue …' has 0.80 of the weight" in alt


# Models of documents use the function that they are given, and two means without an activation are one mean.


WORDS, LENGTHS = torch.tensor([[[1, 2, 3], [4, 0, 0]], [[5, 6, 0], [7, 8, 9]]]), torch.tensor([[3, 1], [2, 3]])


def test_a_pool_by_the_librarys_function_is_the_librarys_pool():
    torch.manual_seed(0)
    ours, theirs = PoolByFunction(pool, 7, 5), Pool(7, 5)
    theirs.load_state_dict(ours.weights.state_dict())
    values, mask = torch.randn(2, 3, 7), torch.tensor([[True, True, False], [True, False, False]])
    for a, b in zip(ours(values, mask), theirs(values, mask), strict=True):
        torch.testing.assert_close(a, b)


def test_the_function_that_is_given_computes_the_result():
    values = torch.randn(2, 3, 7)
    context, weights = PoolByFunction(lambda values, W, b, u, mask: (values[..., 0, :], values[..., 0]), 7, 5)(values)
    assert context.equal(values[:, 0])
    assert weights.equal(values[..., 0])


def test_two_levels_return_the_weights_of_real_words():
    torch.manual_seed(0)
    logits, document = TwoLevels(compose_document, 11, 4, d=5)(WORDS, LENGTHS)
    assert logits.shape == (2, 4)
    torch.testing.assert_close(document.sentences.sum(-1), torch.ones(2))
    assert document.words[0, 1].tolist() == [1.0, 0.0, 0.0]


def mean_of_means(vectors: torch.Tensor) -> torch.Tensor:
    """The mean over the sentences of the means of their real words, (B, d)."""
    sentences = [[vectors[row[:n]].mean(0) for row, n in zip(*pair, strict=True)] for pair in zip(WORDS, LENGTHS, strict=True)]
    return torch.stack([torch.stack(document).mean(0) for document in sentences])


@pytest.mark.parametrize(("activation", "is_linear"), [(nn.Identity, True), (nn.ReLU, False)])
def test_two_means_are_linear_in_the_word_vectors_only_without_an_activation(activation, is_linear):
    torch.manual_seed(0)
    model = TwoMeans(activation, 11, 4, d=5)
    logits, weights = model(WORDS, LENGTHS)
    assert weights is None
    one_mean = model.readout(model.layer[0](mean_of_means(model.words.weight)))
    assert torch.allclose(logits, one_mean, atol=1e-5) is is_linear


# Readers of documents are trained for each seed, tested on new documents, and drawn; the marked sentence is found.


KNOWN = tuple(
    text
    for i in range(11)
    for text in (
        LabelledText((f"red green w{i}", "blue red"), "colours"),
        LabelledText(("one two three",), "numbers"),
    )
)
NEW = (LabelledText(("green", "red"), "colours"), LabelledText(("two one",), "numbers"), LabelledText(("three",), "numbers"))


@pytest.fixture
def experiment():
    return DocumentExperiment(topic_task(KNOWN), KNOWN, NEW, (0, 1))


def test_a_reader_is_trained_for_each_seed_and_tested_on_new_documents(experiment):
    readers = experiment.fit(partial(BagOfWords, *experiment.sizes, 5), steps=40, lr=5e-2)
    assert readers.accuracies == [1.0, 1.0]
    assert readers.documents == [None, None]
    one, two = readers.models
    assert not one.readout.weight.equal(two.readout.weight)


def test_marked_documents_have_the_same_vocabulary_and_one_marked_sentence_each(experiment):
    marked = experiment.marked(7, 5, n_sentences=2)
    assert marked.topics is experiment.topics
    assert (len(marked.known), len(marked.new)) == (7, 5)
    sources = {line for text in NEW for line in text.sentences}
    for text in marked.new:
        (mark,) = [line for line in text.sentences if line.startswith("nota ")]
        assert {line.removeprefix("nota ") for line in text.sentences} <= sources
        (topic,) = {source.topic for source in NEW if mark.removeprefix("nota ") in source.sentences}
        assert text.topic == topic


def test_the_weight_of_the_mark_is_that_of_its_sentence(experiment):
    long = "nota one two three one two three one two"
    marked = DocumentExperiment(
        experiment.topics, KNOWN, (LabelledText(("red", "nota green"), "colours"), LabelledText((long, "red"), "numbers")), (0,)
    )
    document = PooledDocument(torch.zeros(2, 5), torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.ones(2, 2, 9) / 9)
    readers = DocumentReaders([None], [1.0], [document])
    assert marked.weight_of_the_mark(readers) == [(0.75 + 0.5) / 2]
