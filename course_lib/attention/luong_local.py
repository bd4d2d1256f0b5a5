"""Luong's local attention: each word of a target attends to a window of 2D + 1 words of the source.

Luong, Pham, Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section 3.2
(https://arxiv.org/abs/1508.04025). The window [p_t - D, p_t + D] of the t-th word is centred on an aligned position p_t:

    local-m    p_t = t                                 a_t(s) = align(h_t, h̄_s)
    local-p    p_t = S · σ(v_pᵀ tanh(W_p h_t))         a_t(s) = align(h_t, h̄_s) exp(-(s - p_t)² / (2σ²)), σ = D / 2  (9, 10)

S is the length of the source, and align the softmax of any score over the window. Positions are the paper's, from 1: the key at
index j has s = j + 1. The weights of local-p sum to less than 1. If a window contains no word, weights and context are 0.
Local attention over images, of Ramachandran et al., is in `local.py`; `models.LocalLuongDecoder` decodes by local-m.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, Mechanism, broadcast_shapes, hide_keys, require_mask, require_weights
from course_lib.attention.dot_product import dot_attention
from course_lib.primitives.precision import in_float32_at_least
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Keys, Mask, Queries, Values

__all__ = ["LocalPredictive", "alignment_window", "local_m_attention", "local_p_attention", "predicted_positions"]

Positions = Float[Tensor, "*batch T_q"]


def alignment_window(p: Positions, T_k: int, D: int) -> Bool[Tensor, "*batch T_q T_k"]:
    """Make the mask of a window of ± D words around each aligned position.

    Args:
        p: p_t, the aligned position of each query, counted from 1, (*batch, T_q); need not be a whole number.
        T_k: number of keys.
        D: reach of the window, D ≥ 1: it holds at most 2D + 1 keys.

    Returns:
        bool (*batch, T_q, T_k), True where |s - p_t| ≤ D.

    Raises:
        ValueError: D < 1.

    Source: Luong et al. 2015, section 3.2.
    """
    require_reach(D)
    return _distances(p, T_k).abs() <= D


@of_tensors
def local_m_attention(
    q: Queries, k: Keys, v: Values, p: Positions, D: int, mask: Mask | None = None, mechanism: Mechanism = dot_attention
) -> Attended:
    """Attend within a window around given positions: local-m, where p_t = t.

    Args:
        q: queries (*batch, T_q, d_q), the decoder's states h_t.
        k: keys (*batch, T_k, d_k), the encoder's states h̄_s.
        v: values (*batch, T_k, d_v).
        p: p_t, counted from 1, (*batch, T_q); for local-m of a whole target 1, 2, …, T_q.
        D: reach of the window, D ≥ 1.
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may attend.
        mechanism: aligns and mixes: `dot_attention`, a `GeneralAttention`, a `ConcatAttention`, ….

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k), 0 outside the window.

    Raises:
        ValueError: D < 1, or as the mechanism.
        TypeError: the mask is not bool, or the mechanism is a fused form, which returns no weights.

    Source: Luong et al. 2015, section 3.2.
    """
    return require_weights(mechanism(q, k, v, _within(p, D, q, k, mask)))


@in_float32_at_least
def predicted_positions(
    h: Queries, S: Float[Tensor, "*#batch #T_q"], W_p: Float[Tensor, "d_p d_q"], v_p: Float[Tensor, "d_p"]
) -> Positions:
    """Predict aligned positions, p_t = S · σ(v_pᵀ tanh(W_p h_t)).

    Args:
        h: the decoder's states (*batch, T_q, d_q).
        S: length of the source of each state, (*batch, T_q) or (*batch, 1).
        W_p: (d_p, d_q).
        v_p: (d_p,).

    Returns:
        (*batch, T_q), from 0 to S, in float32 or wider, also under autocast: bfloat16 rounds position 257 to 256.

    Source: Luong et al. 2015, eq. 9.
    """
    return S * torch.sigmoid(torch.tanh(h @ W_p.mT) @ v_p)


@of_tensors
def local_p_attention(
    q: Queries, k: Keys, v: Values, p: Positions, D: int, mask: Mask | None = None, mechanism: Mechanism = dot_attention
) -> Attended:
    """Attend within a window around predicted positions, with Gaussian weights that favour near keys: local-p.

    The arguments, results and errors are those of `local_m_attention`. Gradients reach p through the Gaussian, not
    through the window.

    Source: Luong et al. 2015, eq. 10.
    """
    aligned = require_weights(mechanism(q, k, v[..., :0], _within(p, D, q, k, mask))).weights
    weights = aligned * torch.exp(-2 * (_distances(p, k.shape[-2]) / D).square()).to(aligned.dtype)
    return Attended(weights @ hide_keys(v, aligned != 0), weights)


class LocalPredictive(nn.Module):
    """Luong's local-p around a mechanism: owns W_p (d_p, d_q) and v_p (d_p,), which predict the centre of the window."""

    def __init__(self, d_q: int, D: int, mechanism: Mechanism = dot_attention, d_p: int | None = None) -> None:
        """Draw W_p and v_p uniformly within ± the inverse square root of what they sum over.

        Args:
            d_q: features of a query, the decoder's state.
            D: reach of the window, D ≥ 1; 10 in the paper.
            mechanism: aligns and mixes: `dot_attention`, `GeneralAttention(d_q, d_k)`, `ConcatAttention(d_q, d_k, d_a)`, ….
            d_p: hidden units of the prediction; d_q if None.

        Raises:
            ValueError: D < 1.
        """
        super().__init__()
        require_reach(D)
        d_p = d_q if d_p is None else d_p
        self.D, self.mechanism = D, mechanism
        self.W_p = nn.Parameter(torch.empty(d_p, d_q).uniform_(-(d_q**-0.5), d_q**-0.5))
        self.v_p = nn.Parameter(torch.empty(d_p).uniform_(-(d_p**-0.5), d_p**-0.5))

    @of_tensors
    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v).

        S is the number of keys that the mask allows: real words first, then padding, as in `padding_mask`.
        """
        T_k = k.shape[-2]
        if mask is None:
            S = q.new_full((1,), T_k, dtype=torch.float32)
        else:
            require_mask(mask, _scores_shape(q, k))
            S = torch.atleast_2d(mask).expand(*mask.shape[:-1], T_k).sum(-1, dtype=torch.float32)
        return local_p_attention(q, k, v, predicted_positions(q, S, self.W_p, self.v_p), self.D, mask, self.mechanism)


def require_reach(D: int) -> None:
    """Raise a ValueError unless a window reaches D ≥ 1 words to each side."""
    if D < 1:
        raise ValueError(f"a window reaches D ≥ 1 words to each side, got D = {D}.")


def _distances(p: Positions, T_k: int) -> Float[Tensor, "*batch T_q T_k"]:
    """Return s - p_t for each key, s = 1 … T_k; in float32 or wider, in which positions are exact."""
    wide = p.to(torch.promote_types(p.dtype, torch.float32))
    return torch.arange(1, T_k + 1, device=p.device) - wide.unsqueeze(-1)


def _within(p: Positions, D: int, q: Queries, k: Keys, mask: Mask | None) -> Mask:
    """Combine the windows around p with a mask."""
    shape = _scores_shape(q, k)
    if p.shape[-1:] != shape[-2:-1]:
        raise ValueError(f"each query needs an aligned position: got {shape[-2]} queries, and positions {tuple(p.shape)}.")
    window = alignment_window(p, shape[-1], D)
    if mask is None:
        return window
    require_mask(mask, shape)
    return window & mask


def _scores_shape(q: Queries, k: Keys) -> tuple[int, ...]:
    return (*broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
