"""Non-local embedded Gaussian by one product for queries, keys and values, and torch's fused kernel."""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import ContextOnly
from course_lib.attention.non_local import PixelFeatures
from course_lib.fast.dot_product import fused_dot_attention

__all__ = ["fused_embedded_gaussian"]


def fused_embedded_gaussian(
    x: PixelFeatures, W_theta: Float[Tensor, "d_k C"], W_phi: Float[Tensor, "d_k C"], W_g: Float[Tensor, "d C"]
) -> ContextOnly:
    """Compute the context of `non_local_embedded_gaussian` by one product and torch's fused kernel; weights are None."""
    sizes = len(W_theta), len(W_phi), len(W_g)
    theta, phi, g = (x @ torch.cat([W_theta, W_phi, W_g]).mT).split(sizes, dim=-1)
    return fused_dot_attention(theta, phi, g)
