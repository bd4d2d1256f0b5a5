"""Documents as tensors, a bag of words, and a task that it learns."""

import torch

from course_lib.datasets.docstrings import LabelledText
from course_tools.lectures.lecture_03 import documents
from course_tools.lectures.lecture_03.documents import BagOfWords, real_words, show_document_weights, topic_task

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
