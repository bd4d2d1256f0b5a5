"""BYOL: an online network learns to predict a target network, and the target follows it slowly.

Grill et al. 2020, *Bootstrap Your Own Latent*, section 3.1 (https://arxiv.org/abs/2006.07733):

    ξ ← τ ξ + (1 - τ) θ         the exponential moving average of the online weights θ
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def ema_update(target: Sequence[Tensor], online: Sequence[Tensor], decay: float) -> list[Tensor]:
    """Move each weight of the target a little towards the online one: τ ξ + (1 - τ) θ.

    Args:
        target: ξ, tensors of any shapes; they are not changed.
        online: θ, as many tensors of the same shapes in the same order; they are not changed.
        decay: τ from 0 (the target becomes the online network) to 1 (the target stays).

    Returns:
        new tensors in the same order.

    Raises:
        ValueError: there are not as many online tensors as target tensors.

    Source: Grill et al. 2020, section 3.1.
    """
    return [torch.lerp(xi, theta, 1 - decay) for xi, theta in zip(target, online, strict=True)]
