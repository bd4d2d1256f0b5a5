"""Co-occurrent features for semantic segmentation: attention by a mixture of softmaxes.

Zhang, Zhang, Wang, Xie 2019, *Co-occurrent Features in Semantic Segmentation*, section 3
(https://openaccess.thecvf.com/content_CVPR_2019/html/Zhang_Co-Occurrent_Features_in_Semantic_Segmentation_CVPR_2019_paper.html);
target i and co-occurrent feature j are embedded by one matrix, z = W_k x, cut into M parts z^m, each with its own softmax:

    p(x_j | x_i) = Σ_m π_m softmax_j(z_i^m · z_j^m / √d_k)    π = softmax_m(W_π mean_i z_i)    y_i = Σ_j p(x_j | x_i) W_v x_j

One softmax of a product has few degrees of freedom (rank d_k + 1); a mixture of several has more (Yang et al. 2018,
https://arxiv.org/abs/1711.03953). The softmaxes are computed here and not in `attend`, since they are mixed before the values
are. Everything is computed in float32 or wider: in float16, products beyond 65,504 would be infinite.
"""

import math

from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended
from course_lib.attention.multihead import split_heads
from course_lib.primitives.precision import rounded_from_float32
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Image

__all__ = ["CoOccurrent", "co_occurrent_features"]


@rounded_from_float32
def co_occurrent_features(
    x: Float[Tensor, "*batch N C"],
    W_k: Float[Tensor, "d_k C"],
    W_v: Float[Tensor, "d_v C"],
    W_pi: Float[Tensor, "n_mix d_k"],
) -> Attended:
    """Mix features by how likely they occur together with those of each position, a mixture of softmaxes.

    Each softmax is over dot products of one part of the embeddings, divided by √d_k, where d_k counts all parts.

    Args:
        x: (*batch, N, C), the features of N positions.
        W_k: (d_k, C), embeds queries and keys alike; part m owns the features m·d to (m+1)·d.
        W_v: (d_v, C), makes the values.
        W_pi: (n_mix, d_k), gives the weights of the softmaxes from the mean embedding of an image.

    Returns:
        context (*batch, N, d_v) and weights (*batch, N, N), each row a probability.

    Raises:
        ValueError: the d_k features do not divide into n_mix parts.

    Source: Zhang et al. 2019, section 3.2.
    """
    d_k, n_mix = W_k.shape[-2], W_pi.shape[-2]
    z = x @ W_k.mT
    shares = (z.mean(-2) @ W_pi.mT).softmax(-1)
    parts = split_heads(z, n_mix)
    softmaxes = (parts @ parts.mT / math.sqrt(d_k)).softmax(-1)
    weights = (shares[..., None, None] * softmaxes).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


class CoOccurrent(nn.Module):
    """Co-occurrent features of an image: owns W_k (d_k, d_in), W_v (d_v, d_in) and W_π (n_mix, d_k)."""

    def __init__(self, d_in: int, d_k: int, d_v: int, n_mix: int = 2) -> None:
        """Set up the projections; the embedding has n_mix parts.

        Raises:
            ValueError: n_mix is not positive, or d_k does not divide into n_mix parts.
        """
        super().__init__()
        if n_mix < 1 or d_k % n_mix:
            raise ValueError(f"the {d_k} features of an embedding do not divide into {n_mix} parts.")
        self.d_out = d_v
        self.W_k, self.W_v = nn.Linear(d_in, d_k, bias=False), nn.Linear(d_in, d_v, bias=False)
        self.W_pi = nn.Linear(d_k, n_mix, bias=False)

    @of_tensors
    def forward(self, x: Image) -> Attended:
        """Mix over x (B, d_in, H, W): context (B, d_v, H, W) and weights (B, H·W, H·W)."""
        pixels = x.flatten(2).mT
        context, weights = co_occurrent_features(pixels, self.W_k.weight, self.W_v.weight, self.W_pi.weight)
        return Attended(context.mT.unflatten(2, x.shape[2:]), weights)
