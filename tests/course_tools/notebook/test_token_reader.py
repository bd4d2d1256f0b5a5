"""A reader of tokens learns the easiest task, and an answer of several parts counts only where all are right."""

import torch
from torch import nn

from course_tools.notebook.token_reader import TokenReader, accuracy, fit, loss_of


class Keep(nn.Module):
    """A mixer that mixes nothing; as a recurrent layer it gives two results."""

    def forward(self, x):
        return x, None


def test_a_token_is_copied_after_a_few_steps():
    tokens = torch.randint(0, 5, (64, 7), generator=torch.Generator().manual_seed(0))
    model = fit(Keep, [tokens], tokens, seed=0, steps=60, lr=3e-2)
    assert not model.training
    assert accuracy(model, [tokens], tokens) == 1.0
    assert loss_of(model, (tokens, tokens)) < 0.5


def test_only_the_last_positions_answer():
    tokens, model = torch.zeros(2, 7, dtype=torch.long), TokenReader(Keep(), [5], 3)
    assert accuracy(model, [tokens], model(tokens)[:, -2:].argmax(-1)) == 1.0


def test_an_answer_of_two_parts_is_right_where_both_are():
    tokens, model = torch.zeros(1, 3, dtype=torch.long), TokenReader(Keep(), [5], 2 * 3)
    said = model(tokens)[:, -2:].unflatten(-1, (2, 3)).argmax(-1)
    half = said.clone()
    half[0, 0, 1] = (half[0, 0, 1] + 1) % 3
    assert (accuracy(model, [tokens], said), accuracy(model, [tokens], half)) == (1.0, 0.5)
