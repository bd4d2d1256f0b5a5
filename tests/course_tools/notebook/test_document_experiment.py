"""Readers of documents are trained for each seed, tested on new documents, and drawn; the marked sentence is found."""

from functools import partial

import pytest
import torch

from course_lib.datasets.docstrings import LabelledText
from course_lib.models import PooledDocument
from course_tools.lectures.lecture_03 import documents
from course_tools.lectures.lecture_03.documents import BagOfWords, DocumentExperiment, DocumentReaders, topic_task

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


def test_the_comparison_draws_losses_and_accuracies_beside_the_most_frequent_topic(experiment, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(documents, "show_losses", drawn.append)
    found = experiment.compare({"A": DocumentReaders(["model"], [0.25], [None])})
    assert found == {"A": [0.25]}
    assert drawn == [{"A": ["model"]}]
    assert "A 0.250; always the most frequent topic is 0.667" in capsys.readouterr().out


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


def test_the_weight_of_the_mark_is_that_of_its_sentence(experiment, monkeypatch):
    long = "nota one two three one two three one two"
    marked = DocumentExperiment(
        experiment.topics, KNOWN, (LabelledText(("red", "nota green"), "colours"), LabelledText((long, "red"), "numbers")), (0,)
    )
    document = PooledDocument(torch.zeros(2, 5), torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.ones(2, 2, 9) / 9)
    readers = DocumentReaders([None], [1.0], [document])
    assert marked.weight_of_the_mark(readers) == [(0.75 + 0.5) / 2]
    shown = []
    monkeypatch.setattr(documents, "show_document_weights", lambda *given: shown.append(given))
    marked.show_weights(readers)
    ((text, sentences, words),) = shown
    assert text.sentences[0] == long
    assert sentences.tolist() == [0.5, 0.5]
    assert words.shape == (2, 9)
