"""Each model of the ladder has the parts that it is named for."""

import pytest
import torch

from course_tools.lectures.lecture_07.ladder import LADDER, Rung, losses_by_part


@pytest.fixture(params=LADDER)
def rung(request):
    torch.manual_seed(0)
    return Rung(7, LADDER[request.param]), LADDER[request.param]


def test_no_model_reads_the_future(rung):
    model, _ = rung
    tokens, other = torch.randint(7, (2, 11)), torch.randint(7, (2, 11))
    other[:, :5] = tokens[:, :5]
    torch.testing.assert_close(model(tokens)[:, :5], model(other)[:, :5])


def test_only_positions_tell_the_order_of_the_past(rung):
    model, parts = rung
    tokens = torch.tensor([[0, 1, 2, 3, 4], [3, 0, 2, 1, 4]])
    logits = model(tokens)[:, -1]
    assert torch.allclose(*logits) == (not parts.n_layers)


def test_only_a_model_without_parts_forgets_the_past(rung):
    model, parts = rung
    logits = model(torch.tensor([[0, 1], [2, 1]]))[:, -1]
    assert torch.allclose(*logits) == (not parts.n_layers)


def test_one_token_is_enough_only_where_it_decides_what_follows():
    clear, unclear = torch.tensor([0, 1, 2, 3, 4]).repeat(80), torch.tensor([0, 1, 0, 2]).repeat(100)
    losses, mixed = (losses_by_part(text, text[:70], 5, steps=60) for text in (clear, unclear))
    assert list(losses) == list(LADDER)
    assert losses["one token"] < 0.1 < mixed["one token"] - mixed["+ attention, added to it"]
