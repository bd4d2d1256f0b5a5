"""The delta rule in chunks: the form to train with, by one triangular system of equations for each chunk.

Yang et al. 2024, *Parallelizing Linear Transformers with the Delta Rule over Sequence Length*, section 3
(https://arxiv.org/abs/2406.06484); with a decay, *Gated Delta Networks*, section 3.3 (https://arxiv.org/abs/2412.06464).

Inside a chunk, position i writes k_i u_iᵀ. Its error u_i depends on the memory S before the chunk and on what the chunk wrote
before i. With L = decay_mask(g), the decay since before the chunk a_i = exp(g_1 + … + g_i), and A = tril(L ⊙ K Kᵀ, -1):

    u_i = β_i (v_i - a_i Sᵀ k_i - Σ_{j<i} A_ij u_j)        (I + Diag(β) A) U = Diag(β) (V - Diag(a) K S)

    C = Diag(a) Q S + (L ⊙ Q Kᵀ) U        S' = a_T S + Kᵀ Diag(L_T) U

The matrix is triangular with ones on its diagonal, so the system is solved by substitution. One chunk after the other reads the
memory and passes it on, by about a dozen operations, where the loop takes as many for each position.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import broadcast_shapes
from course_lib.attention.decay import AllContexts, AllKeys, AllValues, decay_mask, rounded_to_values
from course_lib.attention.delta import delta_attention
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["chunked_delta_attention"]


def _require_positions(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None, chunk: int = 64) -> None:
    """Raise a ValueError for chunks without positions."""
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}.")


@shape_checked(of=delta_attention)
@requires(_require_positions)
@rounded_to_values
def chunked_delta_attention(
    q: AllKeys,
    k: AllKeys,
    v: AllValues,
    beta: Float[Tensor, "*#batch T"],
    log_decay: Float[Tensor, "*#batch T"] | None = None,
    chunk: int = 64,
) -> AllContexts:
    """Compute the same as `delta_attention` in chunks of positions, each by one triangular system and products of matrices.

    Args:
        q: queries (*batch, T, d_k).
        k: keys (*batch, T, d_k), of length 1.
        v: values (*batch, T, d_v).
        beta: β (*batch, T), from 0 to 1.
        log_decay: natural logarithm of each position's gate, ≤ 0, (*batch, T); None keeps everything.
        chunk: positions in a chunk, the last of which may be shorter; it changes speed and rounding, not the result.

    Returns:
        context (*batch, T, d_v).

    Raises:
        ValueError: a log_decay is positive, or not finite.

    Source: Yang et al. 2024, *Parallelizing Linear Transformers with the Delta Rule over Sequence Length*, section 3.
    """
    batch, d_k, d_v = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]), k.shape[-1], v.shape[-1]
    log_decay = torch.zeros_like(beta) if log_decay is None else log_decay
    S, contexts = v.new_zeros(*batch, d_k, d_v), [v[..., :0, :].expand(*batch, 0, d_v)]
    for start in range(0, v.shape[-2], chunk):
        at = slice(start, start + chunk)
        Q, K, V, b = q[..., at, :], k[..., at, :], v[..., at, :], beta[..., at, None]
        L, since = decay_mask(log_decay[..., at]), log_decay[..., at].cumsum(-1).exp()[..., None]
        A = (K @ K.mT * L).tril(-1)
        U = torch.linalg.solve_triangular(b * A, b * (V - since * (K @ S)), upper=False, unitriangular=True)
        contexts.append(since * (Q @ S) + (Q @ K.mT * L) @ U)
        S = since[..., -1:, :] * S + (L[..., -1, :, None] * K).mT @ U
    return torch.cat(contexts, dim=-2)
