"""Training loops of the bank: the sound one is that of a plain loop, and each mistake shows in the record of the training."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_tools.bank.training_loops import drawn_examples, looped, on_one_batch, updates, with_the_optimizer_of
from course_tools.checks.training_record import Recorder

N = 23
FALLING = partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=7)


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 3, generator=generator), torch.randint(5, (N,), generator=generator)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.1))


def by_hand(clears, schedule):
    """Train as `looped` does, by a plain loop."""
    (examples, labels), network = data(), model()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    scheduler = None if schedule is None else schedule(optimizer)
    for _ in range(7):
        rows = torch.randint(N, (32,))
        loss = F.cross_entropy(network(examples[rows]), labels[rows])
        if clears:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return network


@pytest.mark.parametrize("clears", [True, False])
@pytest.mark.parametrize("schedule", [None, FALLING])
def test_the_loop_is_that_of_a_plain_one(clears, schedule):
    found = looped(model(), data(), 7, batch=drawn_examples, clears=clears, schedule=schedule)
    assert not found.training
    for weight, wanted in zip(found.parameters(), by_hand(clears, schedule).parameters(), strict=True):
        assert torch.equal(weight, wanted)


@pytest.mark.parametrize(("clears", "n_kept"), [(True, 0), (False, 6)])
def test_gradients_are_cleared_before_each_update_or_never(clears, n_kept):
    weight = nn.Parameter(torch.ones(3))
    with Recorder() as record:
        updates([weight], 7, lambda: (weight * torch.rand(3)).sum(), clears=clears)
    assert (record.n_steps, record.n_kept, len(record.losses)) == (7, n_kept, 7)


def test_an_optimizer_of_another_model_leaves_the_model_as_it_was():
    other, before = model(), [weight.detach().clone() for weight in model().parameters()]
    found = with_the_optimizer_of(other, model(), data(), 7, batch=drawn_examples)
    assert all(map(torch.equal, found.parameters(), before))


def test_one_batch_is_read_in_all_updates():
    with Recorder() as record:
        on_one_batch(model(), data(), 7, batch=drawn_examples)
    assert len(record.read) == 7
    assert all(torch.equal(batch, record.read[0]) for batch in record.read)
