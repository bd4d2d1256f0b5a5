"""Training loops of the bank: the sound one is that of a plain loop, and each mistake shows in the record of the training."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_tools.bank.training_loops import Submissions, adam_by_hand, drawn_examples, epochs, train, updates
from course_tools.checks.training_record import Recorder

N = 23
FALLING = partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=7)


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 3, generator=generator), torch.randint(5, (N,), generator=generator)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.1))


def trained(**how):
    return train(model, 7, partial(drawn_examples, data()), **how)


def by_hand(clears, schedule):
    """Train as `train` does, by a plain loop."""
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
    found = trained(clears=clears, schedule=schedule)
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
    before = [weight.detach().clone() for weight in model().parameters()]
    assert all(map(torch.equal, trained(other=True).parameters(), before))


def test_one_batch_is_read_in_all_updates():
    with Recorder() as record:
        trained(one_batch=True)
    assert len(record.read) == 7
    assert all(torch.equal(batch, record.read[0]) for batch in record.read)


def test_epochs_hold_each_example_once_and_end_with_the_updates():
    examples, _ = data()
    batches = list(epochs((examples, torch.arange(N)), 5, 10))
    assert [len(rows) for _, rows in batches] == [10, 10, 3, 10, 10]
    assert sorted(torch.cat([rows for _, rows in batches[:3]]).tolist()) == list(range(N))
    assert torch.equal(examples[batches[0][1]], batches[0][0])


def test_adam_by_hand_is_that_of_torch():
    ours, theirs = (torch.ones(3, dtype=torch.float64).requires_grad_() for _ in range(2))
    slopes = torch.randn(7, 3, dtype=torch.float64)
    ahead = iter(slopes)
    adam_by_hand([ours], 7, lambda: (ours**2 * next(ahead)).sum(), lambda step: 0.1 / step)
    optimizer = torch.optim.Adam([theirs], betas=(0.9, 0.99))
    for step, slope in enumerate(slopes, start=1):
        optimizer.param_groups[0]["lr"] = 0.1 / step
        optimizer.zero_grad()
        (theirs**2 * slope).sum().backward()
        optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_a_change_makes_a_submission_named_after_its_part():
    told = []
    wrong = Submissions("somewhere", lambda data, **change: told.append((data, change)), thing="word")

    @wrong.change("model", proof=lambda measured, truth: True, part=0.5)
    class NotAModel:
        """It is no {thing}."""

    (made,) = wrong
    made(1, 2)
    assert (made.__name__, made.__doc__, made.__module__) == ("not_a_model", "It is no word.", "somewhere")
    assert told == [((1, 2), {"model": NotAModel, "part": 0.5})]
    assert made.proof(None, None)
