"""The delta rule in chunks: the form to train with, by one triangular system of equations for each chunk.

Yang et al. 2024, *Parallelizing Linear Transformers with the Delta Rule over Sequence Length*, section 3
(https://arxiv.org/abs/2406.06484); with a decay, *Gated Delta Networks*, section 3.3 (https://arxiv.org/abs/2412.06464).

Inside a chunk, position i writes k_i u_iᵀ. Its error u_i depends on the memory S before the chunk and on what the chunk wrote
before i. With L = decay_mask(g), the decay since before the chunk a_i = exp(g_1 + … + g_i), and A = tril(L ⊙ K Kᵀ, -1):

    u_i = β_i (v_i - a_i Sᵀ k_i - Σ_{j<i} A_ij u_j)        (I + Diag(β) A) U = Diag(β) (V - Diag(a) K S)

    C = Diag(a) Q S + (L ⊙ Q Kᵀ) U        S' = a_T S + Kᵀ Diag(L_T) U

The matrix is triangular with ones on its diagonal, so the system is solved by substitution, for V and K of all chunks at once.
Then one chunk after the other reads the memory and passes it on.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.chunked_linear import in_chunks
from course_lib.attention.core import broadcast_shapes
from course_lib.attention.decay import AllContexts, AllKeys, AllValues, State, decay_mask, rounded_to_values
from course_lib.attention.delta import delta_attention, require_decay_if_any
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["chunked_delta_attention"]


@shape_checked(of=delta_attention)
@requires(require_decay_if_any)
@rounded_to_values
def chunked_delta_attention(
    q: AllKeys,
    k: AllKeys,
    v: AllValues,
    beta: Float[Tensor, "*#batch T"],
    log_decay: Float[Tensor, "*#batch T"] | None = None,
    chunk: int = 64,
) -> AllContexts:
    """Compute the same as `delta_attention` in chunks; `chunk` changes speed and rounding.

    Source: Yang et al. 2024, section 3.2.
    """
    return contexts_and_memory(q, k, v, beta, log_decay, chunk)[0]


def contexts_and_memory(
    q: AllKeys, k: AllKeys, v: AllValues, beta: Tensor, log_decay: Tensor | None = None, chunk: int = 64
) -> tuple[AllContexts, State]:
    """Compute the contexts of `delta_attention` in the precision of its arguments, and the memory after the last position."""
    batch, T = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]), v.shape[-2]
    chunk = max(1, min(chunk, T))
    gates = beta, torch.zeros_like(beta) if log_decay is None else log_decay
    q, k, v, beta, log_decay = (
        in_chunks(x.expand(*batch, *x.shape[-2:]), chunk) for x in (q, k, v, *(gate[..., None] for gate in gates))
    )
    log_decay = log_decay[..., 0]  # (N, n_chunks, chunk)
    kept, since_before = decay_mask(log_decay), log_decay.cumsum(-1).exp()[..., None]
    A = (k @ k.mT * kept).tril(-1)
    right = torch.cat([beta * v, beta * since_before * k], dim=-1)
    u, w = torch.linalg.solve_triangular(beta * A, right, upper=False, unitriangular=True).split(
        [v.shape[-1], k.shape[-1]], dim=-1
    )
    inside, q, written = q @ k.mT * kept, since_before * q, k * kept[..., -1:, :].mT
    S, contexts = v.new_zeros(v.shape[0], k.shape[-1], v.shape[-1]), [v[:, :0].flatten(1, 2)]
    for c in range(v.shape[1]):
        error = u[:, c] - w[:, c] @ S
        contexts.append(q[:, c] @ S + inside[:, c] @ error)
        S = since_before[:, c, -1:] * S + written[:, c].mT @ error
    context = torch.cat(contexts, dim=1)[:, :T]
    return context.reshape(*batch, T, v.shape[-1]), S.reshape(*batch, *S.shape[1:])
