"""The loop takes the stated steps at the stated rate; batches contain every example once per epoch."""

import itertools
import math

import pytest
import torch
from torch import nn

from course_lib.training import (
    TrainingStep,
    batches,
    constant,
    cosine_decay,
    inverse_square_root,
    linear_decay,
    train,
)


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


@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_norm_that_is_reported_is_that_before_clipping(clip):
    model = nn.Linear(3, 1, bias=False)
    step = next(train(model, itertools.repeat(()), lambda m, _: 7 * m.weight.sum(), steps=1, clip=clip))
    assert step.gradient_norm == pytest.approx(7 * 3**0.5)


def test_schedules_by_hand():
    rates = {schedule: [schedule(index, 2, 6) for index in range(6)] for schedule in (linear_decay, cosine_decay, constant)}
    assert rates[linear_decay] == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25])
    assert rates[cosine_decay] == pytest.approx([0.5, 1, 1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2])
    assert rates[constant] == pytest.approx([0.5, 1, 1, 1, 1, 1])
    assert [inverse_square_root(index, 4, 100) for index in (0, 3, 15, 63)] == pytest.approx([0.25, 1, 0.5, 0.25])
    assert [schedule(0, 0, 3) for schedule in (*rates, inverse_square_root)] == [1, 1, 1, 1]


def test_the_papers_learning_rate_is_the_inverse_square_root_at_its_own_peak():
    """Vaswani et al. 2017, eq. 3, with d_model = 512: lr = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), step from 1."""
    peak = 512**-0.5 * 4000**-0.5
    for step in (1, 100, 4000, 4001, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert peak * inverse_square_root(step - 1, 4000, 100_000) == pytest.approx(paper)


def test_the_rate_follows_the_schedule_in_each_group_of_the_optimizer():
    """With plain gradient descent on a sum, the update is the learning rate itself."""
    model = nn.Linear(1, 1)
    start = [p.item() for p in model.parameters()]

    def two_rates(parameters, lr):
        return torch.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:], "lr": lr / 10}], lr=lr)

    steps = train(
        model, itertools.repeat(()), lambda m, _: m.weight.sum() + m.bias.sum(), steps=3, lr=0.6, warmup=2, clip=None,
        optimizer=two_rates, schedule=lambda index, warmup, steps: 1 / (index + warmup),
    )  # fmt: skip
    assert len(list(steps)) == 3
    moved = [a - p.item() for a, p in zip(start, model.parameters(), strict=True)]
    assert moved == pytest.approx([0.6 * (1 / 2 + 1 / 3 + 1 / 4), 0.06 * (1 / 2 + 1 / 3 + 1 / 4)], rel=1e-4)


def test_four_small_batches_make_the_update_of_their_union():
    x, y = line(16)
    models = []
    for size, accumulate in ((16, 1), (4, 4)):
        torch.manual_seed(3)
        model = nn.Linear(1, 1)
        stream = itertools.cycle(zip(x.split(size), y.split(size), strict=True))
        (step,) = train(model, stream, squared_error, steps=1, accumulate=accumulate, optimizer=torch.optim.SGD)
        models.append([step.loss, step.gradient_norm, *(p.item() for p in model.parameters())])
    assert models[0] == pytest.approx(models[1], rel=1e-5)


def test_padded_batches_make_the_update_of_their_union_if_the_loss_returns_its_count():
    """Sixteen texts of 2 to 7 tokens: a mean of the means of batches counts the tokens of the shorter ones too much."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(16, 7, 3, generator=draw), torch.randn(16, 7, 1, generator=draw)
    real = torch.arange(7) < torch.tensor([7] * 4 + [2] * 4 + [5] * 4 + [3] * 4)[:, None]

    def counted(model, batch):
        x, y, real = batch
        return (model(x) - y).square()[real].mean(), {}, int(real.sum())

    models = {}
    for name, size, loss in (("whole", 16, counted), ("parts", 4, counted), ("means", 4, lambda *of: counted(*of)[0])):
        torch.manual_seed(3)
        model = nn.Linear(3, 1)
        stream = zip(x.split(size), y.split(size), real.split(size), strict=True)
        (step,) = train(model, stream, loss, steps=1, accumulate=16 // size, optimizer=torch.optim.SGD)
        models[name] = [step.loss, step.gradient_norm, *model.weight[0].tolist()]
    assert models["parts"] == pytest.approx(models["whole"], rel=1e-5)
    assert models["means"] != pytest.approx(models["whole"], rel=1e-3)


def test_a_count_of_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0, got 0"):
        next(train(nn.Linear(1, 1), [line()], lambda *of: (squared_error(*of), {}, 0), steps=1))


def test_batches_that_end_inside_a_step_are_named():
    with pytest.raises(ValueError, match="ended after 1 of 2 steps"):
        list(train(nn.Linear(1, 1), [line()] * 3, squared_error, steps=2, accumulate=2))


def test_autocast_computes_in_the_lower_precision_and_keeps_the_weights():
    seen = []

    def loss(model, batch):
        seen.append(model(batch[0]).dtype)
        return squared_error(model, batch)

    model = nn.Linear(1, 1)
    *_, last = train(model, itertools.repeat(line()), loss, steps=300, lr=0.05, autocast=torch.bfloat16)
    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert last.loss < 0.01


def test_in_half_precision_a_gradient_too_small_for_it_arrives():
    """The gradient of 1e-7 · w · x for x = 0.1 is 1e-8, and float16 has no number below 6e-8."""
    model, x = nn.Linear(1, 1, bias=False), torch.full((1, 1), 0.1)
    *_, last = train(model, itertools.repeat(x), lambda m, x: 1e-7 * m(x).float().sum(), steps=2, autocast=torch.float16)
    assert last.gradient_norm == pytest.approx(1e-8, rel=0.02)


def test_metrics_pass_through():
    def loss(model, batch):
        return squared_error(model, batch), {"answer": 42.0}

    step = next(train(nn.Linear(1, 1), batches(*line(), batch_size=8, seed=0), loss, steps=1))
    assert step == TrainingStep(0, step.loss, {"answer": 42.0}, step.gradient_norm)
    assert isinstance(step.loss, float)
    assert isinstance(step.gradient_norm, float)


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
    "wrong",
    [
        {"steps": 0},
        {"steps": 3, "warmup": 4},
        {"steps": 3, "warmup": -1},
        {"steps": 3, "lr": 0.0},
        {"steps": 3, "accumulate": 0},
    ],
)
def test_train_refuses_numbers_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="need steps"):
        next(train(nn.Linear(1, 1), [], squared_error, **wrong))


@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan])
def test_train_refuses_a_norm_that_is_not_positive(clip):
    """Gradients scaled by a negative factor would train uphill, and by 0 not at all."""
    with pytest.raises(ValueError, match="clip is the largest norm of the gradients, above 0"):
        next(train(nn.Linear(1, 1), [line()], squared_error, steps=1, clip=clip))


def test_train_refuses_a_model_without_a_parameter_to_train():
    with pytest.raises(ValueError, match="empty parameter list"):
        next(train(nn.Linear(1, 1).requires_grad_(False), [line()], squared_error, steps=1))


def test_train_refuses_a_loss_that_is_not_one_number():
    with pytest.raises(RuntimeError, match=r"one number, such as a mean over the batch, got \(7, 1\)"):
        next(train(nn.Linear(1, 1), [line(7)], lambda m, batch: m(batch[0]), steps=1))
    with pytest.raises(RuntimeError, match="got float"):
        next(train(nn.Linear(1, 1), [line(7)], lambda m, batch: m(batch[0]).sum().item(), steps=1))


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


@pytest.mark.parametrize("tensors", [(), (torch.zeros(0, 3),), (torch.zeros(3), torch.zeros(4))])
def test_batches_refuse_tensors_that_do_not_belong_together(tensors):
    with pytest.raises(ValueError, match="one and the same number"):
        batches(*tensors, batch_size=2, seed=0)


@pytest.mark.parametrize("examples", [[1.0, 2.0], torch.zeros(2).numpy()])
def test_batches_refuse_examples_that_are_no_tensor(examples, unchecked):
    with pytest.raises(TypeError, match=r"batches needs tensors, .* convert it by `torch.as_tensor`"):
        batches(examples, batch_size=2, seed=0)


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_no_example_is_refused(size):
    with pytest.raises(RuntimeError, match="split_size"):
        next(batches(torch.zeros(3), batch_size=size, seed=0))


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_that_is_not_finite_stops_the_training_before_its_update(clip):
    """The loss of √(w - w) is 0, and its gradient 0 · ∞."""
    model = nn.Linear(1, 1)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(FloatingPointError, match="gradients is nan at step 0"):
        next(train(model, itertools.repeat(()), lambda m, _: (m.weight - m.weight).sqrt().sum(), steps=1, clip=clip))
    for now, then in zip(model.parameters(), before, strict=True):
        assert torch.equal(now, then)


def test_in_half_precision_an_update_that_overflows_is_left_out():
    """The loss is scaled up at first, so that its gradient overflows; the scale falls, and training continues."""
    model = nn.Linear(1, 1, bias=False)
    loss = lambda m, x: 1e3 * m(x).float().sum()  # noqa: E731
    steps = list(train(model, itertools.repeat(torch.ones(1, 1)), loss, steps=14, autocast=torch.float16))
    assert not math.isfinite(steps[0].gradient_norm)
    assert steps[-1].gradient_norm == pytest.approx(1e3, rel=1e-2)
