"""Gradient descent from weights whose gradient explodes: clipping is applied if it is given; the weights are as described."""

import torch

from course_lib.primitives import clip_gradients, rnn_step
from course_tools.lectures.lecture_01.experiments import (
    Descent,
    descend,
    exploding_weights,
    first_gradient,
    recall_logits,
    show_descents,
)


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
