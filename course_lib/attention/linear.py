"""The fast form of causal linear attention: whole blocks inside a chunk, one state between chunks, and a backward of its own.

Hua et al. 2022, *Transformer Quality in Linear Time*, section 3.2 (https://arxiv.org/abs/2202.10447), and Yang et al. 2024,
section 2.2 (https://arxiv.org/abs/2312.06635). With the chunk's queries Q, keys K (features) and values V, the state S, z of
all that stands before it, and M the lower triangle of ones:

    A = M ⊙ Q Kᵀ        N = A V + Q S        n = A 1 + Q z        C = N / n

Given the gradient G of C, with G' = G / n and the rows g = -Σ (G' ⊙ C), the triangle B = M ⊙ (G' Vᵀ + g 1ᵀ) and the sums R, r
of Qᵀ G' and Qᵀ g over all that stands *behind* the chunk:

    dQ = B K + G' Sᵀ + g zᵀ        dK = Bᵀ Q + V Rᵀ + 1 rᵀ        dV = Aᵀ G' + K R

Autograd would keep every product of the first line, and go through each once more.

Linear attention: where the similarity is φ(q)ᵀφ(k), the sums over keys do not wait for the query.

Katharopoulos et al. 2020, *Transformers are RNNs*, eqs. 5 and 9-12, 16-20 (https://arxiv.org/abs/2006.16236):

    c_i = φ(q_i)ᵀ S / φ(q_i)ᵀ z          S = Σ_j φ(k_j) v_jᵀ          z = Σ_j φ(k_j)

Over all keys that is attention without looking back at any of them. Over the keys j ≤ i it is causal, and S_i, z_i are the
state of a recurrent network:

    S_i = S_{i-1} + φ(k_i) v_iᵀ          z_i = z_{i-1} + φ(k_i)

All functions here take *features*, φ(q) and φ(k); no matter which map made them (`course_lib.primitives.kernels`). All give the
context of `kernel_attention`, which is the definition, with its weights and its square of a cost. A query that finds no
similarity at all, as where each key is hidden, gets context 0.
"""

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from course_lib.attention.core import Attended, attend, require_mask
from course_lib.primitives.kernels import elu_feature_map
from course_lib.shapes import Context, Keys, Mask, Queries, Values


class ChunkedCausal(torch.autograd.Function):
    """Causal linear attention of chunks: Q, K (N, n_chunks, chunk, f) and V (N, n_chunks, chunk, d_v) give C, of V's shape."""

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute C; keep the inputs, C, n and the states."""
        A = (q @ k.mT).tril_()
        S, z = _before(k.mT @ v), _before(k.sum(-2, keepdim=True))
        n = divisor(A.sum(-1, keepdim=True) + q @ z.mT)
        context = (A @ v).add_(q @ S).div_(n)
        ctx.save_for_backward(q, k, v, context, n, S, z)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute dQ, dK, dV from the gradient of C."""
        q, k, v, context, n, S, z = ctx.saved_tensors
        G = gradient / n
        g = -(G * context).sum(-1, keepdim=True)
        B = (G @ v.mT).add_(g).tril_()
        A = (q @ k.mT).tril_()
        R, r = _behind(q.mT @ G), _behind((q * g).sum(-2, keepdim=True))
        dq = (B @ k).add_(G @ S.mT).add_(g * z)
        dk = (B.mT @ q).add_(v @ R.mT).add_(r)
        dv = (A.mT @ G).add_(k @ R)
        return dq, dk, dv


def divisor(n: Tensor) -> Tensor:
    """Put infinity where a normaliser vanishes, so that what is divided by it, and its gradient, is 0.

    It vanishes below 4·10⁻²⁹ (in float64, 10⁻²³¹): at the end of a number's range the quotient could still be formed, but not
    its gradient.
    """
    range_end = torch.finfo(torch.promote_types(n.dtype, torch.float32)).tiny
    return n.masked_fill(n.abs() < range_end**0.75, torch.inf)


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cut (*batch, T, f) into (N, n_chunks, chunk, f); zeros fill the last chunk up, which add nothing to any sum."""
    missing = -x.shape[-2] % chunk
    if missing:
        x = F.pad(x, (0, 0, 0, missing))
    x = x.flatten(end_dim=-3) if x.dim() > 2 else x[None]
    return rearrange(x, "N (n_chunks chunk) f -> N n_chunks chunk f", chunk=chunk)


def _before(x: Tensor) -> Tensor:
    """Sum over all earlier chunks, (N, n_chunks, …) -> the same; in float32 at least, as a long sum of short numbers stalls.

    No chunk is added and taken away again: beside a huge one, all that stands before it would be rounded away.
    """
    earlier = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1).to(torch.promote_types(x.dtype, torch.float32))
    if x.is_cuda:
        return earlier.cumsum(1).to(x.dtype)
    for sums, part in itertools.pairwise(earlier.unbind(1)):  # several times as fast as cumsum, on a CPU
        part += sums
    return earlier.to(x.dtype)


def _behind(x: Tensor) -> Tensor:
    """Sum over all later chunks."""
    return _before(x.flip(1)).flip(1)


QueryFeatures = Float[Tensor, "*batch T_q f"]
KeyFeatures = Float[Tensor, "*batch T_k f"]


def kernel_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Attended:
    """Attend with the weights written out, φ(q_i)ᵀφ(k_j) / Σ_j' φ(q_i)ᵀφ(k_j'): the definition, at the cost of T_q · T_k.

    Args:
        phi_q: features of the queries (*batch, T_q, f), ≥ 0.
        phi_k: features of the keys (*batch, T_k, f), ≥ 0.
        v: values (*batch, T_k, d_v).
        mask: any mask, broadcastable to (*batch, T_q, T_k); True = may look.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k); a similarity of 0 is a weight of 0.

    Source: Katharopoulos et al. 2020, eq. 3, as softmax attention with the scores log φ(q)ᵀφ(k).
    """
    similarity = phi_q @ phi_k.mT
    related = similarity != 0
    if mask is not None:
        require_mask(mask, similarity.shape)
        related = related & mask
    return attend(similarity.masked_fill(~related, 1.0).log(), v, related)


def linear_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Context:
    """Attend to all keys at a cost that grows with T_q + T_k: sum over the keys once, then ask with each query.

    Args:
        phi_q: features of the queries (*batch, T_q, f).
        phi_k: features of the keys (*batch, T_k, f).
        v: values (*batch, T_k, d_v).
        mask: which keys are there, the same for every query: (*batch, 1, T_k), as `padding_mask` makes it; True = may look.

    Returns:
        context (*batch, T_q, d_v): c_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j); 0 where every key is hidden.

    Raises:
        ValueError: the mask differs from query to query: these sums cannot.
        TypeError: the mask is not bool.

    Source: Katharopoulos et al. 2020, eq. 5.
    """
    phi_k = silence(phi_k, mask)
    S = phi_k.mT @ v
    z = phi_k.sum(-2)
    return divide(phi_q @ S, phi_q @ z[..., None])


def causal_linear_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Context:
    """Attend from each position to itself and to earlier ones, by prefix sums: every S_i and z_i at once.

    All states are held in memory, T · f · d_v numbers; `chunked_linear_attention` computes the same without.

    Args:
        phi_q: features of the queries (*batch, T, f).
        phi_k: features of the keys (*batch, T, f).
        v: values (*batch, T, d_v).
        mask: which keys are there at all, (*batch, 1, T); True = may look.

    Returns:
        context (*batch, T, d_v): c_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i with the sums over j ≤ i.

    Raises:
        ValueError: there are not as many queries or values as keys, or the mask differs from query to query.
        TypeError: the mask is not bool.

    Source: Katharopoulos et al. 2020, eqs. 9-12.
    """
    require_one_length(phi_q, phi_k, v)
    phi_k = silence(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    z = phi_k.cumsum(-2)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * z).sum(-1, keepdim=True))


def linear_attention_step(
    S: Float[Tensor, "*batch f d_v"],
    z: Float[Tensor, "*batch f"],
    phi_q: Float[Tensor, "*batch f"],
    phi_k: Float[Tensor, "*batch f"],
    v: Float[Tensor, "*batch d_v"],
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch f d_v"], Float[Tensor, "*batch f"]]:
    """Take in one more position, and let it look at all that the state has seen, itself included.

    Args:
        S: the state before, Σ φ(k_j) v_jᵀ over the positions so far, (*batch, f, d_v); zeros at the start.
        z: the state before, Σ φ(k_j), (*batch, f); zeros at the start.
        phi_q: features of this position's query (*batch, f).
        phi_k: features of its key (*batch, f).
        v: its value (*batch, d_v).

    Returns:
        the context of this position (*batch, d_v), and the new S and z; those given are left as they are.

    Source: Katharopoulos et al. 2020, eqs. 18-20.
    """
    S = S + phi_k[..., :, None] * v[..., None, :]
    z = z + phi_k
    read = phi_q[..., None, :] @ S
    return divide(read[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


def chunked_linear_attention(
    phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None, chunk: int = 64
) -> Context:
    """Compute the same as `causal_linear_attention` in chunks, with few of its states; `chunk` changes speed and rounding."""
    require_one_length(phi_q, phi_k, v)
    T = v.shape[-2]
    chunk = max(1, min(chunk, T))
    chunks = ChunkedCausal.apply(*(in_chunks(x, chunk) for x in (phi_q, silence(phi_k, mask), v)))
    return chunks.flatten(1, 2)[:, :T].reshape(v.shape)


def recurrent_linear_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Context:
    """Compute the same as `causal_linear_attention` one position after the other, by `linear_attention_step`.

    The state is held in float32 at least: a sum of many terms of 8 bits would stop growing.
    """
    require_one_length(phi_q, phi_k, v)
    precise = torch.promote_types(v.dtype, torch.float32)
    phi_q, phi_k = phi_q.to(precise), silence(phi_k, mask).to(precise)
    S, z = v.new_zeros(*v.shape[:-2], phi_k.shape[-1], v.shape[-1], dtype=precise), torch.zeros_like(phi_k[..., :1, :]).sum(-2)
    contexts = []
    for q_t, k_t, v_t in zip(phi_q.unbind(-2), phi_k.unbind(-2), v.to(precise).unbind(-2), strict=True):
        context, S, z = linear_attention_step(S, z, q_t, k_t, v_t)
        contexts.append(context)
    return torch.stack(contexts, dim=-2).to(v.dtype) if contexts else v.clone()


def inplace_linear_attention_step(
    S: Tensor, z: Tensor, phi_q: Tensor, phi_k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the same as `linear_attention_step`, for generation alone: S and z are overwritten, and nothing new is kept."""
    S.addcmul_(phi_k[..., :, None], v[..., None, :])
    z.add_(phi_k)
    read = phi_q[..., None, :] @ S
    return divide(read[..., 0, :], (phi_q * z).sum(-1, keepdim=True)), S, z


class LinearAttention(nn.Module):
    """A mechanism `(q, k, v, mask) -> Attended` for `MultiHead`: a feature map, and how the features are summed."""

    def __init__(
        self,
        feature_map: Callable[[Tensor], Tensor] = elu_feature_map,
        mix: Callable[..., Context] = linear_attention,
    ) -> None:
        """Put the two together; both are functions.

        Args:
            feature_map: φ, from (*batch, T, d_k) to (*batch, T, f), such as `elu_feature_map`.
            mix: `linear_attention`, or one of its causal forms, such as `chunked_linear_attention`.
        """
        super().__init__()
        self.feature_map, self.mix = feature_map, mix

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend by features; the weights are never built, so None stands in their place."""
        return Attended(self.mix(self.feature_map(q), self.feature_map(k), v, mask), None)


def silence(phi_k: KeyFeatures, mask: Mask | None, silent: float = 0.0) -> KeyFeatures:
    """Set the features of hidden keys to `silent`: at 0 they add nothing to any sum. With None, all stay as they are.

    Raises:
        ValueError: the mask is not (*batch, 1, T_k), the same for every query.
        TypeError: the mask is not bool.
    """
    if mask is None:
        return phi_k
    if mask.dim() > 1 and mask.shape[-2] != 1:
        raise ValueError(
            f"linear attention sums over the keys once for all queries, so its mask must be (*batch, 1, T_k), got "
            f"{tuple(mask.shape)}. For a causal mask use causal_linear_attention, for any other kernel_attention."
        )
    require_mask(mask, (*phi_k.shape[:-2], 1, phi_k.shape[-2]))
    return phi_k.masked_fill(~mask.expand(*phi_k.shape[:-2], 1, phi_k.shape[-2]).mT, silent)


def divide(numerator: Tensor, normaliser: Tensor) -> Tensor:
    """Divide, with 0 where the normaliser vanishes: there is nothing to share out, and no gradient."""
    return numerator / divisor(normaliser)


def require_one_length(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> None:
    """Refuse queries, keys and values that are not those of the same positions."""
    if phi_q.shape[-2] != phi_k.shape[-2]:
        raise ValueError(
            f"causal linear attention needs a query for each key, got {phi_q.shape[-2]} queries and {phi_k.shape[-2]} keys. "
            "To go on behind a text that is read already, carry its S and z along with linear_attention_step."
        )
    if v.shape[-2] != phi_k.shape[-2]:
        raise ValueError(
            f"there are {phi_k.shape[-2]} keys, but values {tuple(v.shape)} hold {v.shape[-2]}: each key needs one."
        )
