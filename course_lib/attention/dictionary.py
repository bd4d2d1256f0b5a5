"""Attention as a dictionary: query, key and value matrices set by hand, without training.

A token is two one-hot vectors side by side, of its key and of its value. A question has a key, and a blank as its value. W_k
reads the key off and W_q asks for the same key, so the score before the divisor √d_k of Vaswani et al. 2017, eq. 1
(https://arxiv.org/abs/1706.03762), is 5 √d_k for equal keys and 0 for others; W_v passes the value on, and nothing of a blank.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

__all__ = ["dictionary_matrices"]


def dictionary_matrices(
    n_keys: int, n_values: int
) -> tuple[
    Float[Tensor, "n_keys d"],
    Float[Tensor, "n_keys d"],
    Float[Tensor, "n_values d"],
]:
    """Set W_q, W_k and W_v such that scaled dot-product attention looks the values of keys up.

    A token x is two one-hot vectors side by side: of its key, n_keys numbers, and of its value, n_values + 1 numbers, the last
    of them for the blank of a question. Attention is called with q = x @ W_q.mT, k = x @ W_k.mT and v = x @ W_v.mT.

    Args:
        n_keys: number of different keys, also the size of a query, d_k.
        n_values: number of different values, without the blank.

    Returns:
        W_q, W_k (n_keys, n_keys + n_values + 1) and W_v (n_values, n_keys + n_values + 1): the largest number of a question's
        context is at the value of its key, and other keys together get less than a tenth of its weights.

    Source: Vaswani et al. 2017, eq. 1, with matrices that are not learned.
    """
    W_k = F.pad(torch.eye(n_keys), (0, n_values + 1))
    W_q = 5 * math.sqrt(n_keys) * W_k
    W_v = F.pad(torch.eye(n_values), (n_keys, 1))
    return W_q, W_k, W_v
