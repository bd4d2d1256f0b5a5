"""Losses over sequences of tokens.

Teacher forcing (Williams & Zipser 1989, https://doi.org/10.1162/neco.1989.1.2.270): the decoder reads the true tokens and is
asked, at each position, for the next one:

    L = - mean over real targets of log p(y_{t+1} | y_1 … y_t)
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Tokens


def teacher_forced_loss(logits: Float[Tensor, "B T n_tokens"], target: Tokens, padding: int) -> Float[Tensor, ""]:
    """Average the cross-entropy of each next token over the real tokens of a batch.

    Args:
        logits: (B, T, n_tokens), what the decoder said after it had read target[:, :t+1]; so logits[:, t] speaks about
            target[:, t+1], and the last logits about nothing.
        target: (B, T) token indices: begin-of-sequence first, then the sentence and its end, then padding.
        padding: the index of the padding token; it is never a target that counts.

    Returns:
        the mean of -log p(next token), in nats a token, over all next tokens of the batch that are not padding; NaN, the mean
        of nothing, where there is none.

    Raises:
        ValueError: logits and target disagree on B or T.
        IndexError: a token is not one of the n_tokens.

    Source: Williams & Zipser 1989; Sutskever et al. 2014, section 2 (https://arxiv.org/abs/1409.3215).
    """
    predictions = logits[:, :-1].flatten(0, 1)
    next_tokens = target[:, 1:].flatten()
    return F.cross_entropy(predictions, next_tokens, ignore_index=padding)
