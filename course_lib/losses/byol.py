"""BYOL loss: predict the target network's projection of another view, without negatives.

Grill et al. 2020, *Bootstrap Your Own Latent*, eq. 2 (https://arxiv.org/abs/2006.07733):

    L = ‖ q̄(z) - z̄' ‖² = 2 - 2 · q(z)ᵀz' / (‖q(z)‖ ‖z'‖)         no gradient flows into z'
"""

from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.normalisation import unit
from course_lib.primitives.preconditions import shape_checked

__all__ = ["byol_loss"]


@shape_checked("Row i of both is of one image.")
def byol_loss(prediction: Float[Tensor, "B d"], target: Float[Tensor, "B d"]) -> Float[Tensor, ""]:
    """Average the squared distance between the directions of prediction and target; the target gets no gradient.

    Args:
        prediction: q(z), the online network's prediction from one view; only the direction counts, not the length.
        target: z', the target network's projection of the other view; it gets no gradient.

    Returns:
        the mean over the batch, from 0 (same directions) to 4 (opposite ones); 2 for a zero vector.

    Raises:
        ValueError: prediction and target differ in shape.

    Source: Grill et al. 2020, eq. 2. The paper adds the same with the two views exchanged.
    """
    cosine = (unit(prediction) * unit(target.detach())).sum(-1)
    return (2 - 2 * cosine).mean()
