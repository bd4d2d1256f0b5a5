"""Non-local attention with fewer keys and values: they are pooled after their projections, in space and not in time."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import NonLocal

B, C, d = 2, 11, 13
T, H, W = 3, 5, 7


def test_thinned_out_keys_and_values_are_pooled_after_their_projections(normal, agree):
    layer = NonLocal(C, d, pool=nn.MaxPool2d(2, ceil_mode=True)).double()

    def spelled_out(x):
        maps = [torch.einsum("bchw,dc->bdhw", x, part.weight) for part in (layer.W_theta, layer.W_phi, layer.W_g)]
        theta, phi, g = maps[0], *(F.max_pool2d(y, 2, ceil_mode=True) for y in maps[1:])
        f = torch.einsum("bdi,bdj->bij", theta.flatten(2), phi.flatten(2)).softmax(-1)
        return torch.einsum("bij,bdj->bdi", f, g.flatten(2)).unflatten(2, (H, W)), f

    agree(layer, spelled_out, normal(B, C, H, W))
    assert layer(normal(B, C, H, W)).weights.shape == (B, H * W, 3 * 4)


def test_films_are_thinned_out_in_space_and_not_in_time():
    layer = NonLocal(C, d, pool=nn.MaxPool3d((1, 2, 2)))
    assert layer(torch.randn(B, C, T, 4, 6)).weights.shape == (B, T * 4 * 6, T * 2 * 3)
