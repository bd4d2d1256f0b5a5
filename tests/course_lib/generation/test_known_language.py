"""A language whose law is known: the model has it, the draft nearly, and a text of the law passes the test."""

import pytest
import torch

from course_lib.generation import greedy_probabilities, speculative
from course_lib.generation.known_language import (
    OPERATIONS_OF_A_CALL,
    certain_draft,
    known_draft,
    known_law,
    known_model,
    mistaken_draft,
)


def test_the_model_has_the_law():
    tokens = torch.tensor([[3, 0, 5]])
    torch.testing.assert_close(known_model(tokens)[0].softmax(-1), known_law()[tokens[0]])


def test_the_most_likely_token_is_the_next_number():
    assert known_law().argmax(-1).tolist() == [1, 2, 3, 4, 5, 0]


def test_the_draft_is_near_but_not_the_model():
    for i in range(6):
        distance = (known_draft(torch.tensor([[4, i]])) - known_law()[i]).abs().sum() / 2
        assert 0.05 < distance < 0.4


@pytest.mark.parametrize(("draft", "calls"), [(certain_draft, 8), (mistaken_draft, 14)])
def test_the_most_likely_text_is_written_whatever_a_certain_draft_proposes(draft, calls):
    written = speculative(known_model, draft, torch.tensor([[0]]), 40, 4, greedy_probabilities)
    assert written.tokens[0].tolist() == [i % 6 for i in range(41)]
    assert written.calls == calls


def test_a_call_takes_the_operations_that_it_says():
    from course_tools.checks.cost import CostCounter

    with CostCounter() as counter:
        known_model(torch.zeros(1, 50, dtype=torch.long))
    assert counter.cost.operations == pytest.approx(OPERATIONS_OF_A_CALL, rel=0.05)


def test_the_pairs_of_a_long_text_have_the_law():
    """30 degrees of freedom: 59.7 is exceeded once in a thousand."""
    torch.manual_seed(0)
    text = speculative(known_model, known_draft, torch.tensor([[0]]), 3_000, 4).tokens[0]
    counts = torch.zeros(6, 6).index_put((text[:-1], text[1:]), torch.tensor(1.0), accumulate=True)
    wanted = counts.sum(1, keepdim=True) * known_law()
    assert ((counts - wanted).square() / wanted).sum() < 59.7


def test_greedy_probabilities_are_the_limit_of_low_temperatures():
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, -1.0, 0.0]])
    assert greedy_probabilities(logits).tolist() == [[0, 1, 0], [1, 0, 0]]
    torch.testing.assert_close(greedy_probabilities(logits), (logits / 1e-3).softmax(-1))
