"""Attention masks: causal, a window of tokens, a window with sinks, and padding.

A mask is bool, True = may attend, and broadcasts to scores (*batch, T_q, T_k).

Masks combine with `&`: `causal_mask(T) & padding_mask(lengths, T)`. A causal mask of more queries than keys is refused with a
ValueError, as by causal attention: the first queries would come before the first key.

Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762): position i of the decoder attends to positions up to
and including i. Windows: Beltagy et al. 2020, section 3.1 (https://arxiv.org/abs/2004.05150); those of a decoder end
at the token itself: Jiang et al. 2023, section 2 (https://arxiv.org/abs/2310.06825). Sinks: Xiao et al. 2023, section 3
(https://arxiv.org/abs/2309.17453).
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from course_lib.primitives.preconditions import of_tensors, requires, values_are_known
from course_lib.shapes import Lengths, Tokens

__all__ = ["causal_mask", "padding_first", "padding_mask", "window_of_tokens", "window_with_sinks"]


def _require_keys(T_q: int, T_k: int | None = None, device: torch.device | str | None = None) -> None:
    """Raise a ValueError for more queries than keys."""
    if T_k is not None and T_q > T_k:
        raise ValueError(f"a causal mask needs a key at each query's own position, got {T_q} queries and {T_k} keys.")


@requires(_require_keys)
def causal_mask(T_q: int, T_k: int | None = None, device: torch.device | str | None = None) -> Bool[Tensor, "T_q T_k"]:
    """Make a causal mask: each query may attend to its own position and earlier ones.

    Args:
        T_q: number of queries.
        T_k: number of keys; T_q if None. If T_k > T_q, the queries are the *last* T_q positions of the keys, as in cached
            decoding: query i has position i + T_k - T_q.
        device: of the mask.

    Returns:
        bool (T_q, T_k), True at [i, j] where j ≤ i + T_k - T_q.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    T_k = T_q if T_k is None else T_k
    position_q = torch.arange(T_q, device=device) + T_k - T_q
    position_k = torch.arange(T_k, device=device)
    return position_k <= position_q[:, None]


def _require_a_token(T: int, size: int, device: torch.device | str | None = None) -> None:
    """Raise a ValueError for a window in which not even the token itself has a place."""
    if size < 1:
        raise ValueError(f"a window of tokens holds at least the token itself, so size must be 1 or more, got {size}.")


@requires(_require_a_token)
def window_of_tokens(T: int, size: int, device: torch.device | str | None = None) -> Bool[Tensor, "T T"]:
    """Make the causal mask of a window: each query may attend to its own position and the size - 1 positions before it.

    Args:
        T: number of queries, and of keys.
        size: number of keys in a whole window, the query's own included; the windows of the first size - 1 queries are shorter.
        device: of the mask.

    Returns:
        bool (T, T), True at [i, j] where i - size < j ≤ i; with size ≥ T it is the causal mask.

    Raises:
        ValueError: size is below 1.

    Source: Beltagy et al. 2020, section 3.1, and Jiang et al. 2023, section 2, where size is W.
    """
    position = torch.arange(T, device=device)
    distance = position[:, None] - position
    return (distance >= 0) & (distance < size)


def _require_sinks(T: int, size: int, sinks: int, device: torch.device | str | None = None) -> None:
    """Raise a ValueError for a negative number of sinks, or for a window without the token itself."""
    _require_a_token(T, size, device)
    if sinks < 0:
        raise ValueError(f"the number of sinks cannot be negative, got {sinks}; 0 is a plain window.")


@requires(_require_sinks)
def window_with_sinks(T: int, size: int, sinks: int, device: torch.device | str | None = None) -> Bool[Tensor, "T T"]:
    """Make the causal mask of a window with attention sinks: each query may also attend to the first tokens of the text.

    Args:
        T: number of queries, and of keys.
        size: number of keys in a whole window, the query's own included.
        sinks: number of first tokens that stay; with 0 the mask is `window_of_tokens`.
        device: of the mask.

    Returns:
        bool (T, T), True at [i, j] where i - size < j ≤ i, and where j < sinks and j ≤ i. A row has at most size + sinks True.

    Raises:
        ValueError: size is below 1, or sinks is negative.

    Source: Xiao et al. 2023, section 3.2.
    """
    position = torch.arange(T, device=device)
    distance = position[:, None] - position
    return (distance >= 0) & ((distance < size) | (position < sinks))


def _require_lengths(lengths: Lengths, T_k: int) -> None:
    """Raise an error unless there is one number of tokens for each sequence, from 0 to T_k."""
    if lengths.dim() != 1:
        raise ValueError(
            f"lengths are one number for each sequence, (B,), got {tuple(lengths.shape)}. A mask (B, T), 1 at real "
            "tokens, is converted by `mask.sum(1)`, or, without lengths, by `mask.bool()[:, None]`."
        )
    if lengths.dtype == torch.bool or lengths.is_floating_point():
        raise TypeError(f"lengths are numbers of tokens, of type torch.int64, got {lengths.dtype}: convert by `.long()`.")
    if not lengths.numel() or not values_are_known(lengths):
        return
    shortest, longest = torch.stack(lengths.aminmax()).tolist()  # one transfer from a GPU
    if longest > T_k:
        raise ValueError(f"a sequence of {longest} tokens does not fit a padded length of {T_k}.")
    if shortest < 0:
        raise ValueError(f"a sequence cannot have {shortest} tokens: lengths are 0 to T_k = {T_k}.")


@of_tensors
@requires(_require_lengths)
def padding_mask(lengths: Lengths, T_k: int) -> Bool[Tensor, "B 1 T_k"]:
    """Make a padding mask: every query may attend to the real tokens of its own sequence, not to the padding after them.

    Args:
        lengths: (B,), the number of real tokens of each sequence, from 0 to T_k.
        T_k: the padded length.

    Returns:
        bool (B, 1, T_k), True at [b, 0, j] where j < lengths[b]; the middle axis broadcasts over queries.

    Raises:
        ValueError: a length is negative or longer than T_k, or there is not one number for each sequence.
        TypeError: lengths are not integers.
    """
    position = torch.arange(T_k, device=lengths.device)
    return (position < lengths[:, None])[:, None, :]


def padding_first(tokens: Tokens, lengths: Lengths) -> tuple[Tokens, Bool[Tensor, "B 1 T"]]:
    """Move the padding after each sequence before it, so that sequences go on without a gap: a gap would add to distances.

    Args:
        tokens: (B, T), each sequence followed by its padding.
        lengths: (B,), the number of real tokens of each sequence, from 0 to T.

    Returns:
        tokens (B, T), each sequence at the end of its row, and the mask of its keys (B, 1, T), False at padding.

    Raises:
        ValueError: as `padding_mask`.
    """
    T = tokens.shape[1]
    real = padding_mask(lengths, T).flip(-1)
    order = (torch.arange(T, device=tokens.device) + lengths[:, None]) % max(T, 1)
    return tokens.gather(1, order), real
