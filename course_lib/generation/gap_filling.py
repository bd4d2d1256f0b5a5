"""Generate with a masked language model, as masked diffusion does: fill one gap of a text in each step, the surest first.

Chang et al. 2022, *MaskGIT*, section 3.2 (https://arxiv.org/abs/2202.04200), with one token in each step:

    i = argmax_i max_v p(x_i = v | text)        over the gaps i        x_i = argmax_v p(x_i = v | text)
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Tokens

__all__ = ["fill_surest"]


def fill_surest(logits: Float[Tensor, "B T n_tokens"], tokens: Tokens, mask: int) -> Tokens:
    """Fill one gap of each text: the one whose likeliest token has the largest probability of all gaps.

    Args:
        logits: (B, T, n_tokens); those at t predict the token at t.
        tokens: (B, T); a gap is where the token is [MASK].
        mask: the index of [MASK], which is never written, whatever its logit.

    Returns:
        (B, T): each text with one gap less; a text without a gap is the same. The input is not changed.

    Source: Chang et al. 2022, section 3.2, with one token in each step.
    """
    is_mask = torch.arange(logits.shape[-1], device=logits.device) == mask
    p, likeliest = logits.masked_fill(is_mask, -torch.inf).softmax(-1).max(-1)
    gap = tokens == mask
    surest = p.masked_fill(~gap, -1.0).argmax(-1, keepdim=True)
    filled = tokens.scatter(-1, surest, likeliest.gather(-1, surest))
    return torch.where(gap, filled, tokens)
