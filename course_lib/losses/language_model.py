"""Losses over sequences of tokens.

Teacher forcing (Williams & Zipser 1989, https://doi.org/10.1162/neco.1989.1.2.270): the decoder reads the true tokens and
predicts, at each position, the next one:

    L = - mean over real targets of log p(y_{t+1} | y_1 … y_t)

Label smoothing (Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567) gives the true token the target probability
1 - ε + ε / K and each of the K - 1 others ε / K.
"""

from collections.abc import Callable
from typing import TypeVar

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.primitives.precision import float32_under_autocast, rounded_from_float32
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Tokens

__all__ = ["label_smoothed_loss", "next_token_loss", "teacher_forced_loss"]

Loss = TypeVar("Loss", bound=Callable[..., Tensor])


def _of_tokens(loss: Loss) -> Loss:
    """Check the shapes, and sum in float32 or wider: in float16 the sum over a batch of tokens overflows."""
    checked = shape_checked("Pass both whole: the loss itself takes each position with the next token.")
    return checked(float32_under_autocast(rounded_from_float32(loss)))


@_of_tokens
def teacher_forced_loss(logits: Float[Tensor, "B T n_tokens"], target: Tokens, padding: int) -> Float[Tensor, ""]:
    """Average the cross-entropy of each next token over the real tokens of a batch.

    Args:
        logits: (B, T, n_tokens), next-token logits given target[:, :t+1]; so logits[:, t] predicts
            target[:, t+1], and the last logits are not used.
        target: (B, T) token indices: begin-of-sequence first, then the sentence and its end, then padding.
        padding: the index of the padding token; it is never a target that counts.

    Returns:
        the mean of -log p(next token), in nats per token, over all next tokens of the batch that are not padding; NaN, the
        mean of an empty set, if there is none.

    Raises:
        ValueError: logits and target disagree on B or T.
        IndexError: a token is not one of the n_tokens.

    Source: Williams & Zipser 1989; Sutskever et al. 2014, section 2 (https://arxiv.org/abs/1409.3215).
    """
    predictions = logits[:, :-1].flatten(0, 1)
    next_tokens = target[:, 1:].flatten()
    return F.cross_entropy(predictions, next_tokens, ignore_index=padding)


@_of_tokens
def label_smoothed_loss(
    logits: Float[Tensor, "B T n_tokens"], target: Tokens, padding: int, smoothing: float = 0.1
) -> Float[Tensor, ""]:
    """Average the cross-entropy with smoothed labels over the real tokens of a batch; else as `teacher_forced_loss`.

    Args:
        logits: (B, T, n_tokens); logits[:, t] predicts target[:, t+1], and the last logits are not used.
        target: (B, T) token indices: begin-of-sequence first, then the sentence and its end, then padding.
        padding: the index of the padding token; it is never a target that counts.
        smoothing: ε, 0 ≤ ε < 1, the probability that is spread over all n_tokens; 0.1 in the Transformer.

    Returns:
        the mean, in nats per token; with ε > 0 it is above 0 even for perfect predictions.

    Raises:
        ValueError: logits and target disagree on B or T, or ε is not in [0, 1).

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4 (https://arxiv.org/abs/1706.03762).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing is the share of probability that is spread, from 0 to below 1, got {smoothing}.")
    predictions = logits[:, :-1].flatten(0, 1)
    return F.cross_entropy(predictions, target[:, 1:].flatten(), ignore_index=padding, label_smoothing=smoothing)


@_of_tokens
def next_token_loss(
    logits: Float[Tensor, "B T n_tokens"], tokens: Tokens, counts: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, ""]:
    """Average the cross-entropy of each next token: the training loss of a language model.

    Args:
        logits: (B, T, n_tokens); logits[:, t] predicts tokens[:, t+1]; the last logits are not used.
        tokens: the text (B, T).
        counts: (B, T), False at tokens that do not count, such as padding or a prompt; None = every token
            counts except the first.

    Returns:
        the mean of -log p(next token), in nats per token; divided by ln 2, in bits. NaN if no token counts.

    Source: Radford et al. 2018, eq. 1 (https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf).
    """
    predictions, targets = logits[:, :-1], tokens[:, 1:]
    if counts is None:
        return F.cross_entropy(predictions.flatten(0, 1), targets.flatten())
    asked = counts[:, 1:]
    return F.cross_entropy(predictions[asked], targets[asked])
