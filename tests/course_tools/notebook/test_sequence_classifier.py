"""The classifier of sequences learns the easiest task, and reads the last state."""

import torch

from course_lib.primitives import RNN
from course_tools.notebook.sequence_classifier import Reader, accuracy, fit, one_hot


def test_symbols_become_vectors():
    assert one_hot(torch.tensor([[3, 15]])).nonzero().tolist() == [[0, 0, 3], [0, 1, 15]]


def test_the_logits_are_read_from_the_last_state():
    model, x = Reader(RNN(3, 5), 7), torch.randn(2, 11, 3)
    states, _ = model.cell(x)
    torch.testing.assert_close(model(x), model.read_out(states[:, -1]))


def test_the_last_symbol_is_learned():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 2, (200, 3), generator=generator)
    pairs = one_hot(tokens), tokens[:, -1]
    assert accuracy(fit(lambda: RNN(16, 8), pairs, seed=0, steps=60, lr=3e-2), pairs) > 0.95
