"""Attention rollout: the contribution of each input position to each output, through all layers and residual connections.

Abnar & Zuidema 2020, *Quantifying Attention Flow in Transformers*, section 3.1, eq. 1 (https://arxiv.org/abs/2005.00928):

    A_l = ½ mean_h W_l,h + ½ I        Ã_1 = A_1        Ã_l = A_l Ã_{l-1}

The half of I accounts for the residual connection. Exact if a layer is x ← ½ (W x + x); for a network with values,
feed-forward networks and norms it is an approximation, and not a gradient.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["rollout"]


def rollout(weights: Float[Tensor, "n_layers *batch h T T"]) -> Float[Tensor, "*batch T T"]:
    """Compute the attention rollout of a stack of layers.

    Args:
        weights: (n_layers, *batch, h, T, T), from the first layer to the last; each row sums to 1.

    Returns:
        (*batch, T, T): row i is the contribution of each input to output i and sums to 1. Without layers, the identity I.

    Source: Abnar & Zuidema 2020, eq. 1; heads averaged, as in section 3.
    """
    T = weights.shape[-1]
    residual = torch.eye(T, dtype=weights.dtype, device=weights.device)
    flow = residual.expand(*weights.shape[1:-3], T, T)
    for layer in weights.mean(-3):
        flow = (layer + residual) / 2 @ flow
    return flow
