"""Linear probe of a frozen representation, fine-tuning of a head, and the singular spectrum of embeddings.

Alain & Bengio 2016 (https://arxiv.org/abs/1610.01644) for linear probes; here by least squares, which has a unique solution
and needs no step size (Hoerl & Kennard 1970, https://doi.org/10.1080/00401706.1970.10488634); without examples, or with
a negative λ, a ValueError is raised:

    min over W, b of  Σ_i ‖W x_i + b - y_i‖² + λ ‖W‖²        y_i: 1 at the class of example i, else 0

Jing, Vincent, LeCun, Tian 2022, section 3 (https://arxiv.org/abs/2110.09348) for the spectrum: the singular values of the
embeddings distinguish a collapse, in which directions are no longer used, from a representation that fills its space.

For a new task of a trained model, its last layer is replaced by a new one that starts at 0.

Dosovitskiy et al. 2021, section 3.2 and appendix B.1.1 (https://arxiv.org/abs/2010.11929): a zero-initialised layer D × K
replaces the head, and is trained with SGD and momentum 0.9 (Polyak 1964, https://doi.org/10.1016/0041-5553(64)90137-5):

    v ← μ v + ∂L/∂W        W ← W - η v        L = mean cross-entropy of softmax(W x + b)

At the first step, all classes are equally likely, and no gradient reaches the layers below the head.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives.preconditions import requires

__all__ = ["LinearProbe", "fine_tuned_head", "linear_probe", "spectrum"]


class LinearProbe(NamedTuple):
    """A linear read-out: class scores are x Wᵀ + b."""

    weight: Float[Tensor, "n_classes d"]
    bias: Float[Tensor, "n_classes"]


def _require_examples(features: Tensor, labels: Tensor, n_classes: int, penalty: float) -> None:
    if len(features) == 0 or not penalty >= 0:
        raise ValueError(f"need one or more examples and a penalty ≥ 0, got {len(features)} and {penalty}.")


@requires(_require_examples)
def linear_probe(features: Float[Tensor, "n d"], labels: Int[Tensor, "n"], n_classes: int, penalty: float) -> LinearProbe:
    """Fit a linear read-out of frozen features by ridge regression on one-hot labels, in closed form.

    Args:
        features: (n, d), one row per example, used without normalisation.
        labels: (n,), classes from 0 to n_classes - 1.
        n_classes: number of classes; classes without examples are allowed.
        penalty: λ > 0 on the weights; the bias is not penalised.

    Returns:
        the weight W (n_classes, d) and the bias b (n_classes,) at the minimum.

    Raises:
        RuntimeError: a label is not a class, or the system is exactly singular, which is only possible with λ = 0.

    Source: Hoerl & Kennard 1970, with the features and the labels centred, so that b is not penalised.
    """
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    gram = x.mT @ x + penalty * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    W = torch.linalg.solve(gram, x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


def spectrum(embeddings: Float[Tensor, "n d"]) -> Float[Tensor, "k"]:
    """Compute the spread of the directions of embeddings along each of their principal axes, the largest first.

    Args:
        embeddings: (n, d), n ≥ 1; only their directions count: each is divided by its length.

    Returns:
        the min(n, d) singular values of the centred directions, divided by √n: standard deviations along orthogonal axes.
        Their squares sum to at most 1, and to 0 where all embeddings point the same way.

    Source: Jing et al. 2022, section 3.
    """
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(0)) / len(embeddings) ** 0.5


def fine_tuned_head(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, "n"],
    n_classes: int,
    learning_rate: float,
    momentum: float,
    n_steps: int,
) -> LinearProbe:
    """Train a new head on frozen features, from 0, by gradient descent with momentum on all examples at once.

    Args:
        features: (n, d), the output of the frozen layers for each example, n ≥ 1.
        labels: (n,), classes from 0 to n_classes - 1.
        n_classes: number of classes of the new task.
        learning_rate: η.
        momentum: μ in 0…1, the fraction of the last step's velocity that is kept; velocities start at 0.
        n_steps: number of steps; 0 returns the initial head.

    Returns:
        LinearProbe(weight (n_classes, d), bias (n_classes,)).

    Source: Dosovitskiy et al. 2021, section 3.2 and appendix B.1.1; momentum as in torch.optim.SGD.
    """
    W, b = features.new_zeros(n_classes, features.shape[1]), features.new_zeros(n_classes)
    v_W, v_b = torch.zeros_like(W), torch.zeros_like(b)
    targets = F.one_hot(labels, n_classes).to(features.dtype)
    for _ in range(n_steps):
        error = ((features @ W.mT + b).softmax(-1) - targets) / len(features)
        v_W = momentum * v_W + error.mT @ features
        v_b = momentum * v_b + error.sum(0)
        W, b = W - learning_rate * v_W, b - learning_rate * v_b
    return LinearProbe(W, b)
