"""What the decks state about recurrent networks is measured with the functions that are passed."""

import pytest

from course_lib.primitives import clip_gradients, rnn_step
from course_tools.lectures.lecture_01.errata import deck_statements
from course_tools.lectures.lecture_01.experiments import RecallExperiment


@pytest.fixture(scope="module")
def data():
    experiment = RecallExperiment((0,), 1, 1e-3)
    return experiment.known(5), experiment.unseen(5)


def test_the_statements_have_the_values_that_follow_from_shapes_and_directions(data):
    found = deck_statements(rnn_step, clip_gradients, *data)
    assert found.matches == [True, False]
    assert -1 < found.least_output < 0
    assert -1 < found.least_state < 0
    assert found.cosine_by_value < 0.99
    assert found.cosine_by_norm == pytest.approx(1.0, abs=1e-6)
    assert 0.7 < found.dense_before < 1.4
    assert found.dense_after > found.dense_before
    assert found.longest_chain == 64


def test_the_clipping_that_is_passed_is_the_one_that_is_measured(data):
    found = deck_statements(rnn_step, lambda gradients, max_norm: [-g for g in gradients], *data)
    assert found.cosine_by_norm == pytest.approx(-1.0, abs=1e-6)
