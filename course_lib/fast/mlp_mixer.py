"""Token mixing of MLP-Mixer without a transposition."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.blocks.mlp_mixer import PatchFeatures

__all__ = ["lean_token_mixing"]


def lean_token_mixing(
    x: PatchFeatures,
    W_1: Float[Tensor, "d_s N"],
    b_1: Float[Tensor, "d_s"],
    W_2: Float[Tensor, "N d_s"],
    b_2: Float[Tensor, "N"],
) -> PatchFeatures:
    """Compute `token_mixing` with the weights as left factors, so that nothing has to be transposed."""
    images = x.flatten(0, -3) if x.dim() > 2 else x[None]
    B = len(images)
    hidden = F.gelu(b_1[:, None].baddbmm(W_1.expand(B, -1, -1), images))
    return b_2[:, None].baddbmm(W_2.expand(B, -1, -1), hidden).view(x.shape)
