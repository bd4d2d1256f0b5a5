"""REINFORCE loss for hard attention, where each step attends to one sampled region.

Xu et al. 2015, *Show, Attend and Tell*, section 4.1 (https://arxiv.org/abs/1502.03044). At each word one region s_t is drawn
from the weights α_t. The gradient of E[log p(y | s)] is estimated from the samples (REINFORCE; Williams 1992,
https://doi.org/10.1007/BF00992696), with a baseline b that reduces the variance without changing the expectation:

    ∂ log p(y | s) + (log p(y | s) - b) Σ_t ∂ log α_t,s_t + λ Σ_t ∂H(α_t)

The function returns a scalar whose gradient is the negative of this, for an optimiser to minimise.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives.preconditions import shape_checked

__all__ = ["hard_attention_loss"]


@shape_checked("Give one look for each word, and one log p for each caption.")
def hard_attention_loss(
    log_p: Float[Tensor, "B"],
    weights: Float[Tensor, "B T L"],
    looks: Int[Tensor, "B T"],
    baseline: float,
    entropy_weight: float = 0.0,
) -> Float[Tensor, ""]:
    """REINFORCE loss of hard attention: raise log p of the captions, and of samples that beat the baseline.

    Args:
        log_p: log p(y | s) of each true caption given the sampled regions.
        weights: α ≥ 0, from which the regions were sampled; each row sums to 1. In the logarithm, a weight
            rounded to 0 counts as the smallest normal number, and has no gradient.
        looks: s, the region that was sampled for each word.
        baseline: b, a typical value of log p.
        entropy_weight: λ ≥ 0, weight of the entropy bonus, which favours exploration: H(α_t) = -Σ_i α_ti log α_ti, summed over
            the words.

    Returns:
        a scalar, averaged over the batch: -(log p + (log p - b) Σ_t log α_t,s_t + λ Σ_t H(α_t)), where (log p - b) is a
        constant: no gradient flows through it.

    Source: Xu et al. 2015, section 4.1, with λ_r = 1.
    """
    log_weights = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    log_looks = log_weights.gather(-1, looks[..., None]).sum((1, 2))
    entropy = -(weights * log_weights).sum((1, 2))
    return -(log_p + (log_p.detach() - baseline) * log_looks + entropy_weight * entropy).mean()
