"""A new head from 0: its steps are those of torch's SGD with momentum."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.blocks import zero_head
from course_lib.metrics import fine_tuned_head

n, d, K = 7, 5, 3
LABELS = torch.tensor([0, 2, 1, 1, 2, 0, 2])


def by_torch(features, labels, n_classes, learning_rate, momentum, n_steps):
    head = zero_head(features.shape[1], n_classes).to(features.dtype)
    optimizer = torch.optim.SGD(head.parameters(), learning_rate, momentum)
    for _ in range(n_steps):
        optimizer.zero_grad()
        F.cross_entropy(head(features), labels).backward()
        optimizer.step()
    return head.weight.detach(), head.bias.detach()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("n_steps", [0, 1, 2, 13])
def test_each_step_is_that_of_torchs_sgd(momentum, n_steps, normal):
    features = normal(n, d).detach()
    ours = fine_tuned_head(features, LABELS, K, 0.3, momentum, n_steps)
    torch.testing.assert_close(tuple(ours), by_torch(features, LABELS, K, 0.3, momentum, n_steps))


def test_the_first_step_by_hand():
    """Two examples, two classes, softmax ½ each: a row moves towards its own features, and away from the others."""
    head = fine_tuned_head(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1]), 2, 1.0, 0.9, 1)
    assert head.weight.tolist() == [[0.5, -1.0], [-0.5, 1.0]]
    assert head.bias.tolist() == [0.0, 0.0]


def test_classes_stay_in_balance(normal):
    """The rows of the gradient sum to 0, and so do those of a head that started at 0."""
    head = fine_tuned_head(normal(n, d), LABELS, K, 0.3, 0.9, 11)
    assert head.weight.sum(0).abs().max() < 1e-12
    assert head.bias.sum().abs() < 1e-12


def test_it_learns_what_is_linear():
    torch.manual_seed(0)
    features = torch.randn(101, d) + 4 * F.one_hot(torch.arange(101) % K, d)
    head = fine_tuned_head(features, torch.arange(101) % K, K, 0.5, 0.9, 100)
    right = (features @ head.weight.mT + head.bias).argmax(-1) == torch.arange(101) % K
    assert right.float().mean() > 0.95


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(lambda x: tuple(fine_tuned_head(x, LABELS, K, 0.3, 0.9, 3)), [normal(n, d)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_head_has_the_numbers_of_its_features(dtype, normal):
    head = fine_tuned_head(normal(n, d).detach().to(dtype), LABELS, K, 0.3, 0.9, 3)
    assert (head.weight.dtype, head.bias.dtype) == (dtype, dtype)


def test_a_head_starts_at_0():
    head = zero_head(d, K)
    assert head.weight.shape == (K, d)
    assert not head.weight.any()
    assert not head.bias.any()
