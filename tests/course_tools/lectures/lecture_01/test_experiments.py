"""Recurrent networks learn their tasks from the data of their seed, latches keep a symbol, and clipping is applied."""

from functools import partial

import pytest
import torch

from course_lib.datasets import recall
from course_lib.primitives import LSTM, RNN, bptt_step, clip_gradients, lstm_step, rnn_step
from course_tools.lectures.lecture_01.experiments import (
    Descent,
    RecallExperiment,
    SequenceClassifier,
    classifier_accuracy,
    dense_first_to_last,
    descend,
    exploding_weights,
    first_gradient,
    fit_classifier,
    one_hot,
    read_by_latches,
    recall_logits,
    show_descents,
)

# The classifier of sequences learns the easiest task, and reads the last state.


def test_symbols_become_vectors():
    assert one_hot(torch.tensor([[3, 15]])).nonzero().tolist() == [[0, 0, 3], [0, 1, 15]]


def test_the_logits_are_read_from_the_last_state():
    model, x = SequenceClassifier(RNN(3, 5), 7), torch.randn(2, 11, 3)
    states, _ = model.cell(x)
    torch.testing.assert_close(model(x), model.read_out(states[:, -1]))


def test_the_last_symbol_is_learned():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 2, (200, 3), generator=generator)
    pairs = one_hot(tokens), tokens[:, -1]
    assert classifier_accuracy(fit_classifier(lambda: RNN(16, 8), pairs, seed=0, steps=60, lr=3e-2), pairs) > 0.95


def test_the_weights_of_the_first_symbol_grow_where_it_is_the_answer():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.cat(
        [torch.randint(0, 8, (400, 1), generator=generator), torch.randint(8, 16, (400, 4), generator=generator)], 1
    )
    torch.manual_seed(0)
    before, after = dense_first_to_last(tokens, tokens[:, 0], steps=200)
    assert 0.7 < before < 1.4
    assert after > 1.2 * before


# The recall experiment trains one network per seed on the sequences of that seed, and measures each on its own test part.


EXPERIMENT = RecallExperiment((0, 1), n_steps=2, lr=1e-3)
SMALL = partial(RNN, 16, 5)


def test_training_and_test_sequences_are_those_of_the_first_seed_and_the_first_symbol_is_the_label():
    known, unseen = EXPERIMENT.known(5), EXPERIMENT.unseen(5)
    assert (known.tokens.shape, unseen.tokens.shape) == ((4_000, 5), (1_000, 5))
    assert unseen.tokens[:, 0].equal(unseen.labels)
    assert RecallExperiment((1, 0), 2, 1e-3).unseen(5).tokens.equal(unseen.tokens) is False


def test_gradients_have_a_value_for_each_network_seed_and_step():
    found = EXPERIMENT.compare_gradients(rnn_step, lstm_step, {"plain": SMALL, "LSTM": partial(LSTM, 16, 5)}, T=7)
    assert {name: [len(lags) for lags in runs] for name, runs in found.items()} == {"plain": [7, 7], "LSTM": [7, 7]}
    assert all(lags[0] == 1.0 for runs in found.values() for lags in runs)
    assert found["plain"][0][1:] != found["plain"][1][1:]


# Latches keep the first symbol, forget it without feedback, and let hardly any gradient through.


T = 11


@pytest.fixture(scope="module")
def part():
    return recall(2, 1, 97, T=T, seed=0).test


def test_the_first_symbol_is_kept_with_feedback_and_lost_without(part):
    kept, lost = (read_by_latches(rnn_step, part, feedback=feedback) for feedback in (3.0, 0.0))
    assert kept.accuracy() == 1.0
    assert lost.accuracy() < 0.5
    assert [tuple(state.shape) for state in kept.states] == [(97, 8)] * (T + 1)


def test_a_latch_has_a_high_and_a_low_value(part):
    end = read_by_latches(rnn_step, part).states[-1]
    own = torch.nn.functional.one_hot(part.labels, 8).bool()
    assert end[own].min() > 0.9
    assert end[~own].max() < -0.9


def test_what_is_left_of_the_gradient_is_the_product_of_the_slopes(part):
    latches = read_by_latches(rnn_step, part)
    own = torch.nn.functional.one_hot(part.labels, 8).bool()
    slopes = torch.stack([3 * (1 - state[own] ** 2) for state in latches.states[2:]]).prod(0)
    assert latches.gradient_left(bptt_step) == pytest.approx((slopes.norm() / 97**0.5).item())
    assert latches.gradient_left(bptt_step) < 1e-2


def test_the_step_that_is_passed_is_used(part):
    assert read_by_latches(lambda x, h, W, U, b: -rnn_step(x, h, W, U, b), part).accuracy() < 0.5


# Gradient descent from weights whose gradient explodes: clipping is applied if it is given; the weights are as described.


def test_all_singular_values_of_the_recurrent_matrix_are_one_and_a_half():
    W, U, b, V = exploding_weights(seed=3, n=7)
    assert (W.shape, b.shape, V.shape) == ((7, 16), (7,), (8, 7))
    torch.testing.assert_close(torch.linalg.svdvals(U), torch.full((7,), 1.5).double())


def test_the_logits_depend_on_every_symbol():
    weights, x = exploding_weights(seed=0), torch.zeros(5, 5, 16)
    for row in range(1, 5):
        x[row, row, 2] = 1.0
    logits = recall_logits(rnn_step, x, weights)
    assert logits.shape == (5, 8)
    assert all(not torch.allclose(logits[row], logits[0]) for row in range(1, 5))


def test_the_gradient_at_the_start_has_an_entry_for_each_weight():
    tokens = torch.randint(8, 16, (4, 5), generator=torch.Generator().manual_seed(0))
    gradient = first_gradient(rnn_step, tokens, torch.tensor([0, 1, 2, 7]), seed=0)
    assert gradient.shape == (sum(w.numel() for w in exploding_weights(0)),)
    assert gradient.isfinite().all()


def test_every_gradient_passes_through_the_clipping_and_without_it_the_descent_differs():
    seen = []

    def clip(gradients):
        seen.append(len(gradients))
        return clip_gradients(gradients, 0.3)

    clipped, free = descend(rnn_step, clip, seed=0, T=5, steps=4), descend(rnn_step, None, seed=0, T=5, steps=4)
    assert seen == [4] * 4
    assert len(clipped.losses) == len(free.losses) == 4
    assert clipped.losses[0] == free.losses[0]
    assert clipped.losses[1:] != free.losses[1:]
    assert 0.0 <= clipped.accuracy <= 1.0


def test_a_smaller_learning_rate_makes_the_same_updates_as_smaller_gradients():
    scaled = descend(rnn_step, lambda gradients: [0.1 * g for g in gradients], seed=0, T=5, steps=4)
    slower = descend(rnn_step, None, seed=0, T=5, steps=4, lr=0.1)
    assert slower.losses == scaled.losses
    assert slower.losses[1:] != descend(rnn_step, None, seed=0, T=5, steps=4).losses[1:]


def test_the_figure_is_that_of_the_first_runs_and_the_text_states_where_they_end(capsys):
    runs = {
        "clipped": [Descent([3.0] * 5 + [1.0] * 20, 0.9), Descent([7.0] * 25, 0.1)],
        "not clipped": [Descent([9.0] * 25, 0.2)],
    }
    show_descents(runs)
    text = capsys.readouterr().out
    assert "Mean of the last 20 steps: clipped 1; not clipped 9" in text
    assert "2.08" in text
