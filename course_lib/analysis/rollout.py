"""Attention roll-out: what each output looks at in the input, through all layers and past the residual connections.

Abnar & Zuidema 2020, *Quantifying Attention Flow in Transformers*, section 3.1, eq. 1 (https://arxiv.org/abs/2005.00928):

    A_l = ½ mean_h W_l,h + ½ I        Ã_1 = A_1        Ã_l = A_l Ã_{l-1}

The half of I stands for the residual path. Exact where a layer is x ← ½ (W x + x); of a network with values, feed-forward
networks and norms it is a picture and no gradient.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def rollout(weights: Float[Tensor, "n_layers *batch h T T"]) -> Float[Tensor, "*batch T T"]:
    """Follow the attention of a stack back to its input.

    Args:
        weights: (n_layers, *batch, h, T, T), from the first layer to the last; each row sums to 1.

    Returns:
        (*batch, T, T): row i says how much output i draws from each input; each row sums to 1. Without layers, I.

    Source: Abnar & Zuidema 2020, eq. 1; heads averaged, as in section 3.
    """
    T = weights.shape[-1]
    residual = torch.eye(T, dtype=weights.dtype, device=weights.device)
    drawn = residual.expand(*weights.shape[1:-3], T, T)
    for layer in weights.mean(-3):
        drawn = (layer + residual) / 2 @ drawn
    return drawn
