"""A new task for a trained model: its last layer is thrown away, and a new one starts at 0.

Dosovitskiy et al. 2021, section 3.2 and appendix B.1.1 (https://arxiv.org/abs/2010.11929): a zero-initialised layer D × K takes
the head's place, and is trained with SGD and momentum 0.9 (Polyak 1964, https://doi.org/10.1016/0041-5553(64)90137-5):

    v ← μ v + ∂L/∂W        W ← W - η v        L = mean cross-entropy of softmax(W x + b)

At the first step, every class is as likely as any other, and no gradient reaches what lies below the head.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.models.probe import Probe


def zero_head(d_model: int, n_classes: int) -> nn.Linear:
    """Make a linear layer (n_classes, d_model) whose weights and biases are all 0, to take the place of a trained head."""
    head = nn.Linear(d_model, n_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def fine_tuned_head(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, "n"],
    n_classes: int,
    learning_rate: float,
    momentum: float,
    n_steps: int,
) -> Probe:
    """Train a new head on frozen features, from 0, by gradient descent with momentum on all examples at once.

    Args:
        features: (n, d), what the body makes of each example, n ≥ 1.
        labels: (n,), classes from 0 to n_classes - 1.
        n_classes: number of classes of the new task.
        learning_rate: η.
        momentum: μ in 0…1, the share of the last step's velocity that stays; velocities start at 0.
        n_steps: steps to take; 0 leaves the head as it starts.

    Returns:
        Probe(weight (n_classes, d), bias (n_classes,)).

    Source: Dosovitskiy et al. 2021, section 3.2 and appendix B.1.1; momentum as torch.optim.SGD has it.
    """
    W, b = features.new_zeros(n_classes, features.shape[1]), features.new_zeros(n_classes)
    v_W, v_b = torch.zeros_like(W), torch.zeros_like(b)
    targets = F.one_hot(labels, n_classes).to(features.dtype)
    for _ in range(n_steps):
        error = ((features @ W.mT + b).softmax(-1) - targets) / len(features)
        v_W = momentum * v_W + error.mT @ features
        v_b = momentum * v_b + error.sum(0)
        W, b = W - learning_rate * v_W, b - learning_rate * v_b
    return Probe(W, b)
