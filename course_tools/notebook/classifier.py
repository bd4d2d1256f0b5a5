"""Loss and accuracy of a classifier."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the cross-entropy of a batch (inputs, labels (B,)), in nats: the loss of a classifier."""
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy_of(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Measure the fraction of inputs x whose largest logit is that of the label (B,); sets the model to evaluation mode."""
    return (model.eval()(x).argmax(-1) == labels).float().mean().item()
