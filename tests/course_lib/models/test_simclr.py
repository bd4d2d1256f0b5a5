"""SimCLR: both views go through one encoder and one head, in one batch; a training step brings partners closer."""

import pytest
import torch
from torch import nn

from course_lib.blocks import ConvNet
from course_lib.losses import nt_xent
from course_lib.models import SimCLR

B, C, H, W = 3, 2, 11, 13


def model(seed=0):
    torch.manual_seed(seed)
    encoder = nn.Sequential(ConvNet(C, (5, 7), (2, 2)), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return SimCLR(encoder, 7, d_hidden=17, d_projection=5)


def views(B=B, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.rand(B, C, H, W, generator=generator, dtype=dtype) for _ in range(2))


def test_the_projections_are_the_heads_equation_of_the_encoders_output():
    net = model().eval()
    first, second = views()
    projected = net(first, second)
    for images, z in ((first, projected.first), (second, projected.second)):
        h = net.encoder(images)
        assert (h.shape, z.shape) == ((B, 7), (B, 5))
        torch.testing.assert_close(z, h.mm(net.project[0].weight.T).clamp_min(0).mm(net.project[2].weight.T))


def test_the_head_has_no_biases():
    assert [name for name, _ in model().project.named_parameters()] == ["0.weight", "2.weight"]


def test_in_training_a_batch_normalisation_sees_both_views_together():
    net, (first, second) = model(), views()
    together = net(first, 5 * second)
    apart = net(first, first)
    assert not torch.allclose(together.first, apart.first)


def test_views_that_exchange_places_exchange_their_projections():
    net, (first, second) = model().double(), views(dtype=torch.float64)
    there, back = net(first, second), net(second, first)
    torch.testing.assert_close(there.first, back.second)
    torch.testing.assert_close(there.second, back.first)


def test_steps_make_partners_meet():
    net, pair = model(), views(8)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        loss = nt_xent(*net(*pair), 0.5)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_a_single_image_has_nothing_to_learn_from():
    net = model()
    loss = nt_xent(*net(*views(1)), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert max(p.grad.abs().max() for p in net.parameters()) < 1e-6


@pytest.mark.gpu
def test_it_runs_on_a_gpu():
    projected = model().cuda()(*(x.cuda() for x in views()))
    assert projected.first.device.type == "cuda"
