"""BYOL: an online network learns to predict a target network, whose weights are a moving average of its own.

Grill et al. 2020, *Bootstrap Your Own Latent*, section 3.1 and figure 2 (https://arxiv.org/abs/2006.07733):

    online:  q_θ(g_θ(f_θ(v)))        target:  g_ξ(f_ξ(v'))        encoder f, projector g, predictor q
    ξ ← τ ξ + (1 - τ) θ              the exponential moving average of the online weights
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives.preconditions import requires
from course_lib.shapes import Image

__all__ = ["BYOL", "ema_update"]


def _require_counterparts(target: Sequence[Tensor], online: Sequence[Tensor], decay: float) -> None:
    """Raise a ValueError unless each weight has a counterpart of its shape, and the decay is in 0…1."""
    if not 0 <= decay <= 1:
        raise ValueError(f"the decay is the share that the target keeps, 0 to 1, got {decay}.")
    ours, theirs = ([tuple(x.shape) for x in weights] for weights in (target, online))
    if ours != theirs:
        raise ValueError(f"the target's weights have shapes {ours}, the online network's {theirs}: pass both in one order.")


@requires(_require_counterparts)
def ema_update(target: Sequence[Tensor], online: Sequence[Tensor], decay: float) -> list[Tensor]:
    """Move each weight of the target a little towards the online one: τ ξ + (1 - τ) θ.

    Args:
        target: ξ, tensors of any shapes; they are not changed.
        online: θ, as many tensors of the same shapes in the same order; they are not changed.
        decay: τ from 0 (the target becomes the online network) to 1 (the target stays).

    Returns:
        new tensors in the same order.

    Raises:
        ValueError: the numbers or shapes of online and target tensors differ, or the decay is not in 0…1.

    Source: Grill et al. 2020, section 3.1.
    """
    return [torch.lerp(xi, theta, 1 - decay) for xi, theta in zip(target, online, strict=True)]


@torch.no_grad()
@requires(_require_counterparts)
def ema_update_(target: Sequence[Tensor], online: Sequence[Tensor], decay: float) -> Sequence[Tensor]:
    """Write the result of `ema_update` into `target`, all tensors in one call of a fused kernel; return `target`."""
    torch._foreach_lerp_(list(target), list(online), 1 - decay)
    return target


class Bootstrapped(NamedTuple):
    """For each of the 2B views, the online network's prediction, and the target network's projection of the *other* view."""

    predictions: Float[Tensor, "views d"]
    targets: Float[Tensor, "views d"]


class BYOL(nn.Module):
    """Online network, target network and predictor around an encoder; `model.online[0]` is the encoder to keep.

    Train it on `byol_loss(*model(first, second))`, and call `model.update()` after every step.
    """

    def __init__(
        self, encoder: nn.Module, d_encoder: int, d_hidden: int = 128, d_projection: int = 64, decay: float = 0.99
    ) -> None:
        """Add a projector to an encoder of d_encoder features, and initialise the target as a copy; `decay` is τ."""
        super().__init__()
        self.decay = decay
        self.online = nn.Sequential(encoder, _perceptron(d_encoder, d_hidden, d_projection))
        self.predictor = _perceptron(d_projection, d_hidden, d_projection)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, first: Image, second: Image) -> Bootstrapped:
        """Predict each view of (B, C, H, W) from the other; the target network gets no gradient."""
        views = torch.cat([first, second])
        with torch.no_grad():
            targets = self.target(views).roll(first.shape[0], 0)
        return Bootstrapped(self.predictor(self.online(views)), targets)

    def update(self) -> None:
        """Update the target: ξ ← τ ξ + (1 - τ) θ. Each network keeps its own batch-normalisation statistics."""
        ema_update_(list(self.target.parameters()), list(self.online.parameters()), self.decay)


def _perceptron(d_in: int, d_hidden: int, d_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(d_in, d_hidden), nn.BatchNorm1d(d_hidden), nn.ReLU(), nn.Linear(d_hidden, d_out))
