"""The classifier of sequences learns the easiest task, and reads the last state."""

import torch

from course_lib.primitives import RNN
from course_tools.lectures.lecture_01 import experiments
from course_tools.lectures.lecture_01.experiments import (
    SequenceClassifier,
    classifier_accuracy,
    compare_on_digits,
    dense_first_to_last,
    fit_classifier,
    fit_digits,
    one_hot,
)


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


def test_digits_are_read_one_pixel_at_a_time_and_tested_on_the_others(monkeypatch):
    seen = {}

    def fit_classifier(make_cell, known, seed, steps, lr):
        seen.update(shape=tuple(known[0].shape), steps=steps)
        return "model"

    def classifier_accuracy(model, new):
        seen["new"] = tuple(new[0].shape)
        return 0.5

    monkeypatch.setattr(experiments, "fit_classifier", fit_classifier)
    monkeypatch.setattr(experiments, "classifier_accuracy", classifier_accuracy)
    assert fit_digits(lambda: RNN(1, 3), seed=0) == ("model", 0.5)
    assert seen == {"shape": (1_400, 64, 1), "steps": 250, "new": (397, 64, 1)}


def test_the_comparison_on_digits_trains_each_layer_with_each_seed(monkeypatch, capsys):
    losses = {}
    monkeypatch.setattr(experiments, "fit_digits", lambda make_cell, seed: (f"{make_cell()} {seed}", 0.5 + seed / 10))
    monkeypatch.setattr(experiments, "show_losses", lambda models, across: losses.update(models))
    assert compare_on_digits({"A": lambda: "a", "B": lambda: "b"}, (0, 1)) == {"A": [0.5, 0.6], "B": [0.5, 0.6]}
    assert losses == {"A": ["a 0", "a 1"], "B": ["b 0", "b 1"]}
    assert "A 0.500, 0.600" in capsys.readouterr().out
