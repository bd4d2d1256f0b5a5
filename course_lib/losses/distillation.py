"""Knowledge distillation: learn from the probabilities of a teacher.

Hinton, Vinyals, Dean 2015 (https://arxiv.org/abs/1503.02531); Touvron et al. 2021, *Training data-efficient image transformers
& distillation through attention*, eq. 2 (https://arxiv.org/abs/2012.12877), with ψ = softmax and y = label:

    (1 - λ) CE(ψ(Z_s), y) + λ τ² KL(ψ(Z_t / τ) ‖ ψ(Z_s / τ))

The KL divergence is that of Hinton et al. and of DeiT's code, with the teacher's probabilities as weights; eq. 2 has its
arguments in the other order.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import shape_checked

__all__ = ["distillation_loss"]

ClassLogits = Float[Tensor, "B n_classes"]
Labels = Int[Tensor, "B"]


@shape_checked()
@float32_under_autocast
@rounded_from_float32
def distillation_loss(
    student: ClassLogits, teacher: ClassLogits, labels: Labels, temperature: float, share: float
) -> Float[Tensor, ""]:
    """Soft distillation loss: true labels, and the probabilities of the teacher.

    Args:
        student: its logits.
        teacher: its logits; no gradient flows into them.
        labels: true classes.
        temperature: τ > 0, divides the logits of both inside the KL; τ² compensates for the smaller gradients.
        share: λ in 0…1, the teacher's fraction of the loss.

    Returns:
        the mean over the batch, in nats.

    Raises:
        ValueError: the temperature is not positive, or the share is not in 0…1.

    Source: Hinton et al. 2015, section 2; Touvron et al. 2021, eq. 2.
    """
    if not temperature > 0 or not 0 <= share <= 1:
        raise ValueError(f"need a temperature above 0 and a share in 0…1, got {temperature} and {share}.")
    log_p = (teacher.detach() / temperature).log_softmax(-1)
    log_q = (student / temperature).log_softmax(-1)
    divergence = (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * divergence
