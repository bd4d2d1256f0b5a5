"""BYOL: the target is updated exactly by a moving average, and by nothing else."""

import pytest
import torch
from torch import nn

from course_lib.blocks import ConvNet
from course_lib.losses import byol_loss
from course_lib.models import BYOL, ema_update
from course_lib.models.byol import ema_update_

B, C, H, W = 3, 2, 11, 13


def weights(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in ((5, 7), (11,), (), (0, 3), (2, 3, 5, 7))]


def model(decay=0.9, seed=0):
    torch.manual_seed(seed)
    encoder = nn.Sequential(ConvNet(C, (5, 7), (2, 2)), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return BYOL(encoder, 7, d_hidden=17, d_projection=5, decay=decay)


def views(B=B):
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.rand(B, C, H, W, generator=generator) for _ in range(2))


def copies(parameters):
    return [p.detach().clone() for p in parameters]


def step(net, pair, lr=0.1):
    loss = byol_loss(*net(*pair))
    loss.backward()
    trained = [p for p in net.parameters() if p.requires_grad]
    with torch.no_grad():
        for p in trained:
            p -= lr * p.grad
            p.grad = None
    return loss.item()


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.5, 0.9, 0.996, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_fast_form_is_the_equation_to_the_last_bit(decay, dtype):
    equation = ema_update(weights(0, dtype), weights(1, dtype), decay)
    in_place = weights(0, dtype)
    addresses = [xi.data_ptr() for xi in in_place]
    assert ema_update_(in_place, weights(1, dtype), decay) is in_place
    assert all(torch.equal(a, b) for a, b in zip(equation, in_place, strict=True))
    assert [xi.data_ptr() for xi in in_place] == addresses


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.996])
def test_it_is_the_weighted_mean_of_the_paper(decay):
    for new, xi, theta in zip(ema_update(weights(0), weights(1), decay), weights(0), weights(1), strict=True):
        torch.testing.assert_close(new, decay * xi + (1 - decay) * theta, atol=1e-15, rtol=1e-15)


def test_the_ends_are_exact():
    assert all(map(torch.equal, ema_update(weights(0), weights(1), 1.0), weights(0)))
    assert all(map(torch.equal, ema_update(weights(0), weights(1), 0.0), weights(1)))


def test_by_hand():
    (new,) = ema_update([torch.tensor([8.0, 0.0])], [torch.tensor([0.0, 4.0])], 0.75)
    assert new.tolist() == [6.0, 1.0]


def test_after_k_updates_a_share_of_decay_to_the_k_is_left():
    target = weights(0)
    for _ in range(7):
        ema_update_(target, weights(1), 0.8)
    for new, xi, theta in zip(target, weights(0), weights(1), strict=True):
        torch.testing.assert_close(new, 0.8**7 * xi + (1 - 0.8**7) * theta, atol=1e-14, rtol=1e-14)


def test_the_equation_leaves_its_inputs_alone():
    target, online = weights(0), weights(1)
    ema_update(target, online, 0.9)
    assert all(map(torch.equal, target + online, weights(0) + weights(1)))


@pytest.mark.parametrize("form", [ema_update, ema_update_])
def test_lists_of_different_lengths_are_refused(form):
    with pytest.raises(ValueError, match="pass both in one order"):
        form(weights(0), weights(1)[:-1], 0.9)


def test_no_gradient_at_all_reaches_the_target():
    net = model()
    predictions, targets = net(*views())
    assert not targets.requires_grad
    byol_loss(predictions, targets).backward()
    assert all(p.grad is None and not p.requires_grad for p in net.target.parameters())
    assert all(p.grad is not None for p in (*net.online.parameters(), *net.predictor.parameters()))


def test_a_step_leaves_the_target_and_update_moves_it_by_the_average():
    net = model(decay=0.9)
    before = copies(net.target.parameters())
    step(net, views())
    assert all(map(torch.equal, copies(net.target.parameters()), before))
    expected = ema_update(before, copies(net.online.parameters()), 0.9)
    net.update()
    after = copies(net.target.parameters())
    assert all(map(torch.equal, after, expected))
    assert not all(map(torch.equal, after, before))


def test_the_target_starts_as_a_copy_with_weights_of_its_own():
    net = model()
    for xi, theta in zip(net.target.parameters(), net.online.parameters(), strict=True):
        assert torch.equal(xi, theta)
        assert xi.data_ptr() != theta.data_ptr()


def test_each_view_predicts_the_target_of_the_other():
    net, (first, second) = model().eval(), views()
    predictions, targets = net(first, second)
    torch.testing.assert_close(predictions[:B], net.predictor(net.online(first)))
    torch.testing.assert_close(targets[:B], net.target(second))
    torch.testing.assert_close(predictions[B:], net.predictor(net.online(second)))
    torch.testing.assert_close(targets[B:], net.target(first))


def test_steps_lower_the_loss():
    net, pair = model(decay=0.5), views(8)
    losses = []
    for _ in range(30):
        losses.append(step(net, pair))
        net.update()
    assert losses[-1] < 0.5 * losses[0]


def test_a_batch_of_one_is_enough():
    loss = byol_loss(*model()(*views(1)))
    loss.backward()
    assert loss.isfinite()


@pytest.mark.gpu
def test_it_runs_on_a_gpu():
    net = model().cuda()
    loss = byol_loss(*net(*(x.cuda() for x in views())))
    loss.backward()
    net.update()
    assert loss.device.type == "cuda"
