"""The loop takes the steps it says, at the rate it says; batches hold every example once an epoch."""

import itertools

import pytest
import torch
from torch import nn

from course_lib.training import TrainingStep, batches, train


def squared_error(model, batch):
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def line(n=64):
    x = torch.linspace(-1, 1, n)[:, None]
    return x, 3 * x - 2


def test_a_line_is_learned():
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    *_, last = train(model, batches(*line(), batch_size=16, seed=0), squared_error, steps=400, lr=0.1, warmup=20)
    assert last.index == 399
    assert last.loss < 1e-3
    torch.testing.assert_close(model.weight.item(), 3.0, atol=0.05, rtol=0)
    torch.testing.assert_close(model.bias.item(), -2.0, atol=0.05, rtol=0)


def test_one_update_is_taken_for_each_step_and_none_before_it_is_asked_for():
    model = nn.Linear(1, 1)
    before = model.weight.detach().clone()
    steps = train(model, batches(*line(), batch_size=8, seed=0), squared_error, steps=3, clip=None)
    assert (model.weight == before).all()
    first = next(steps)
    assert first.index == 0
    assert (model.weight != before).all()
    assert [step.index for step in steps] == [1, 2]


def test_the_rate_rises_then_falls_by_hand():
    """With a constant gradient, Adam's update is the learning rate itself."""
    model = nn.Linear(1, 1, bias=False)
    start = model.weight.item()
    steps = train(model, itertools.repeat(()), lambda m, _: m.weight.sum(), steps=6, lr=0.6, warmup=2, clip=None)
    places = [start, *(model.weight.item() for _ in steps)]
    moved = [a - b for a, b in itertools.pairwise(places)]
    assert moved == pytest.approx([0.3, 0.6, 0.6, 0.45, 0.3, 0.15], rel=1e-4)


def test_gradients_are_clipped_by_their_joint_norm():
    model = nn.Linear(3, 1)
    x = torch.full((5, 3), 100.0)
    steps = train(model, itertools.repeat((x, torch.zeros(5, 1))), squared_error, steps=2, clip=0.5)
    norms = [torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item() for _ in steps]
    assert norms == pytest.approx([0.5, 0.5], rel=1e-3)


def test_metrics_pass_through():
    def loss(model, batch):
        return squared_error(model, batch), {"answer": 42.0}

    step = next(train(nn.Linear(1, 1), batches(*line(), batch_size=8, seed=0), loss, steps=1))
    assert step == TrainingStep(0, step.loss, {"answer": 42.0})
    assert isinstance(step.loss, float)


def test_the_model_is_put_into_training_mode():
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout()).eval()
    next(train(model, batches(*line(), batch_size=8, seed=0), squared_error, steps=1))
    assert all(module.training for module in model.modules())


def test_frozen_parameters_stay():
    model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    frozen = model[0].weight.clone()
    list(train(model, batches(*line(), batch_size=8, seed=0), squared_error, steps=3))
    assert (model[0].weight == frozen).all()


def test_the_same_seed_trains_the_same_model():
    losses = []
    for _ in range(2):
        torch.manual_seed(7)
        steps = train(nn.Linear(1, 1), batches(*line(), batch_size=8, seed=5), squared_error, steps=20)
        losses.append([step.loss for step in steps])
    assert losses[0] == losses[1]


def test_a_loss_that_is_not_finite_stops_the_training():
    def loss(model, _):
        return model.weight.sum() * torch.inf

    with pytest.raises(FloatingPointError, match="at step 0"):
        next(train(nn.Linear(1, 1), itertools.repeat(()), loss, steps=1))


def test_batches_that_end_early_are_named():
    with pytest.raises(ValueError, match="ended after 2 of 5 steps"):
        list(train(nn.Linear(1, 1), [line()] * 2, squared_error, steps=5))


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"steps": 3, "warmup": 4}, {"steps": 3, "warmup": -1}, {"steps": 3, "lr": 0.0}]
)
def test_train_refuses_numbers_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="need steps"):
        next(train(nn.Linear(1, 1), [], squared_error, **wrong))


def test_an_epoch_holds_every_example_once_in_a_new_order():
    x = torch.arange(10)
    stream = batches(x, x * x, batch_size=4, seed=0)
    epochs = [list(itertools.islice(stream, 3)) for _ in range(2)]
    orders = [torch.cat([a for a, _ in epoch]) for epoch in epochs]
    assert [len(a) for a, _ in epochs[0]] == [4, 4, 2]
    assert all(sorted(order.tolist()) == list(range(10)) for order in orders)
    assert orders[0].tolist() != orders[1].tolist() != list(range(10))


def test_tensors_of_one_batch_belong_together():
    x = torch.arange(7)
    assert all((b == a * a).all() for a, b in itertools.islice(batches(x, x * x, batch_size=2, seed=1), 9))


def test_a_seed_decides_the_order():
    def order(seed):
        return [batch[0].tolist() for batch in itertools.islice(batches(torch.arange(30), batch_size=8, seed=seed), 8)]

    assert order(3) == order(3) != order(4)


@pytest.mark.parametrize(
    ("tensors", "size"), [((), 2), ((torch.zeros(0, 3),), 2), ((torch.zeros(3), torch.zeros(4)), 2), ((torch.zeros(3),), 0)]
)
def test_batches_refuse_tensors_that_do_not_belong_together(tensors, size):
    with pytest.raises(ValueError, match="one and the same number"):
        batches(*tensors, batch_size=size, seed=0)
