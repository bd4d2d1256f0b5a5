"""CLIP's loss: of a batch of images and texts, which text belongs to each image, and which image to each text?

Radford, Kim, Hallacy et al. 2021, *Learning Transferable Visual Models From Natural Language Supervision*, figure 3
(https://arxiv.org/abs/2103.00020):

    s_ij = sim(x_i, y_j) / τ                                      sim(u, v) = uᵀv / (‖u‖ ‖v‖)
    L = 1/2N · Σ_i ( -log softmax over the row i of s, at i    -log softmax over the column i of s, at i )

Unlike in NT-Xent, images are not compared with images, nor texts with texts. It is computed in float32 at least.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.losses.nt_xent import require_pairs
from course_lib.primitives.normalisation import unit
from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["clip_loss"]


@shape_checked("Row i of both is one image and its text.")
@float32_under_autocast
@rounded_from_float32
@requires(require_pairs)
def clip_loss(images: Float[Tensor, "N d"], texts: Float[Tensor, "N d"], temperature: float) -> Float[Tensor, ""]:
    """Average -log of the probability of the right text for each image, and of the right image for each text.

    Args:
        images: (N, d), N ≥ 1; only directions count; a zero vector has cosine 0 with all.
        texts: (N, d); row i belongs to row i of the images.
        temperature: τ > 0. In the paper 1 / τ is learned, at most 100.

    Returns:
        the mean of the two cross-entropies, in nats; 0 for N = 1, log N if all vectors are equal.

    Raises:
        ValueError: there is no pair, `images` and `texts` differ in shape, or τ is not positive.

    Source: Radford et al. 2021, figure 3.
    """
    similarity = unit(images) @ unit(texts).mT / temperature
    own = torch.arange(len(images), device=images.device)
    return (F.cross_entropy(similarity, own) + F.cross_entropy(similarity.mT, own)) / 2
