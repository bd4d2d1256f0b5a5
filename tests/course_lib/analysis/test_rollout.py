"""Rollout counts paths: it is the Jacobian of a network that only attends and adds."""

from itertools import product

import pytest
import torch

from course_lib.analysis import rollout

L, B, H, T = 3, 2, 5, 7


def maps(normal, *shape):
    return normal(*shape).softmax(-1)


def test_it_is_the_jacobian_of_a_network_that_only_attends_and_adds(normal):
    weights = maps(normal, L, H, T, T)

    def network(x):
        for layer in weights:
            x = ((layer @ x).mean(0) + x) / 2
        return x[:, 0]

    jacobian = torch.autograd.functional.jacobian(network, normal(T, 1))
    torch.testing.assert_close(rollout(weights), jacobian[..., 0])


def test_it_is_the_sum_over_all_paths_from_an_output_to_an_input(normal, agree):
    def by_paths(weights):
        out = []
        for i, j in product(range(3), range(3)):
            total = 0.0
            for inner in product(range(3), repeat=L - 1):
                path = (j, *inner, i)
                share = 1.0
                for layer in range(L):
                    there, here = path[layer + 1], path[layer]
                    share = share * (weights[layer, :, there, here].mean() + (there == here)) / 2
                total = total + share
            out.append(total)
        return torch.stack(out).view(3, 3)

    agree(rollout, by_paths, normal(L, H, 3, 3))


def test_the_order_of_the_layers_counts(normal):
    weights = maps(normal, 2, B, H, T, T)
    assert (rollout(weights) - rollout(weights.flip(0))).abs().max() > 0.01


def test_two_layers_by_hand():
    """The first copies token 1 to both, the second swaps: rows ½(A + I), multiplied, the last layer on the left."""
    copies, swaps = torch.tensor([[0.0, 1], [0, 1]]), torch.tensor([[0.0, 1], [1, 0]])
    assert rollout(torch.stack([copies, swaps])[:, None]).tolist() == [[0.25, 0.75], [0.25, 0.75]]
    assert rollout(torch.stack([swaps, copies])[:, None]).tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("batch", [(), (B,), (B, 3)])
def test_each_row_sums_to_1(batch, normal):
    drawn = rollout(maps(normal, L, *batch, H, T, T))
    assert drawn.shape == (*batch, T, T)
    torch.testing.assert_close(drawn.sum(-1), torch.ones(*batch, T).double())


def test_without_layers_each_output_is_its_input():
    assert rollout(torch.zeros(0, B, H, T, T)).equal(torch.eye(T).expand(B, T, T))


def test_what_no_layer_looks_at_is_never_drawn_from(normal):
    """A causal stack depends only on the past."""
    later = torch.ones(T, T).triu(1).bool()
    weights = normal(L, B, H, T, T).masked_fill(later, -torch.inf).softmax(-1)
    assert (rollout(weights)[:, later] == 0).all()


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(rollout, [normal(2, 1, 2, 3, 3)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_other_numbers_stay_what_they_are(dtype, normal):
    weights = maps(normal, L, B, H, T, T)
    drawn = rollout(weights.to(dtype))
    assert drawn.dtype == dtype
    torch.testing.assert_close(drawn.double(), rollout(weights), atol=4 * torch.finfo(dtype).eps, rtol=0)
