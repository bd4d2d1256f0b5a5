"""Linear attention: with the similarity φ(q)ᵀφ(k), sums over the keys are computed once for all queries.

Katharopoulos et al. 2020, *Transformers are RNNs*, eqs. 5 and 9-12, 16-20 (https://arxiv.org/abs/2006.16236):

    c_i = φ(q_i)ᵀ S / φ(q_i)ᵀ z          S = Σ_j φ(k_j) v_jᵀ          z = Σ_j φ(k_j)

Over the keys j ≤ i it is causal, and S_i, z_i are the state of a recurrent network:

    S_i = S_{i-1} + φ(k_i) v_iᵀ          z_i = z_{i-1} + φ(k_i)

All functions here take *features*, φ(q) and φ(k), from any feature map (`course_lib.primitives.kernels`). All give the context
of `kernel_attention`, which is the definition, with its weights and its quadratic cost. A query without similarity to any
visible key has context 0, as has one all of whose keys have features below 10⁻²⁸ (in float64, 10⁻²³⁰). Sums and states are
formed in float32 or wider, also under autocast: in float16 they would overflow.

`chunked_linear_attention` is the causal form to train with: on 1,000 positions 50 times as fast, in a fifteenth of the
memory. `fast.lean_linear_attention` is for long sequences, `fast.inplace_linear_attention_step` for steps without gradients.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import cast

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import (
    Attended,
    ContextOnly,
    Form,
    LayerState,
    attend,
    broadcast_shapes,
    hide_keys,
    require_bool,
    require_mask,
)
from course_lib.primitives.kernels import elu_feature_map
from course_lib.primitives.precision import without_autocast
from course_lib.primitives.preconditions import of_tensors, shape_checked
from course_lib.shapes import Context, Keys, Mask, Queries, Values

__all__ = [
    "LinearAttention",
    "causal_linear_attention",
    "kernel_attention",
    "linear_attention",
    "linear_attention_step",
]

QueryFeatures = Float[Tensor, "*batch T_q f"]
KeyFeatures = Float[Tensor, "*batch T_k f"]


def in_float32(form: Form) -> Form:
    """Make a form compute in float32 or wider, also under autocast, on queries, keys and values of one batch shape.

    The context has the values' dtype. Values that the mask hides are set to 0, since 0 · NaN is NaN.
    """

    @of_tensors
    @wraps(form)
    def run(
        phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None, *rest: object, **options: object
    ) -> Context:
        batch = broadcast_shapes(phi_q.shape[:-2], phi_k.shape[:-2], v.shape[:-2])
        wide = wider(v)
        q, k, values = (x.to(wide).expand(*batch, *x.shape[-2:]) for x in (phi_q, phi_k, v))
        if mask is not None:
            require_key_mask(mask, k)
            values = hide_keys(values, mask)
        with without_autocast(v):
            return form(q, k, values, mask, *rest, **options).to(v.dtype)

    return cast(Form, run)


def of_features(form: Form) -> Form:
    """Make a form compute as by `in_float32`, with each query's features rescaled."""

    @in_float32
    @wraps(form)
    def run(phi_q: QueryFeatures, *rest: object, **options: object) -> Context:
        return form(rescaled(phi_q), *rest, **options)

    return cast(Form, run)


def rescaled(phi_q: QueryFeatures) -> QueryFeatures:
    """Multiply the features of each query by the power of two that brings the largest to 1…2.

    The factor cancels exactly in the quotient. Without it, products of small features would be rounded to 0.
    """
    largest = phi_q.detach().abs().amax(-1, keepdim=True)
    range_end = -math.log2(torch.finfo(phi_q.dtype).tiny)
    return phi_q * largest.log2().floor().clamp(-range_end, range_end).neg().exp2()


def wider(v: Values) -> torch.dtype:
    """Return float32 or the wider type of values; a TypeError for integers, to which a context would be rounded."""
    if not v.is_floating_point():
        raise TypeError(f"values must be floating-point numbers, got {v.dtype}: convert them by `.float()`.")
    return torch.promote_types(v.dtype, torch.float32)


@of_tensors
def kernel_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Attended:
    """Attend with the weights written out, φ(q_i)ᵀφ(k_j) / Σ_j' φ(q_i)ᵀφ(k_j'): the definition, at the cost of T_q · T_k.

    Args:
        phi_q: features of the queries (*batch, T_q, f), ≥ 0.
        phi_k: features of the keys (*batch, T_k, f), ≥ 0.
        v: values (*batch, T_k, d_v).
        mask: any mask, broadcastable to (*batch, T_q, T_k); True = may attend.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k); a similarity of 0 is a weight of 0.

    Source: Katharopoulos et al. 2020, eq. 3, as softmax attention with the scores log φ(q)ᵀφ(k).
    """
    wide = wider(v)
    with without_autocast(v):
        similarity = rescaled(phi_q.to(wide)) @ phi_k.to(wide).mT
        related = similarity != 0
        if mask is not None:
            require_mask(mask, similarity.shape)
            related = related & mask
        context, weights = attend(similarity.masked_fill(~related, 1.0).log(), v.to(wide), related)
    return Attended(context.to(v.dtype), weights.to(v.dtype))


@of_features
def linear_attention(phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None) -> Context:
    """Attend to all keys at a cost that grows with T_q + T_k: sum over the keys once for all queries.

    Args:
        phi_q: features of the queries (*batch, T_q, f).
        phi_k: features of the keys (*batch, T_k, f).
        v: values (*batch, T_k, d_v).
        mask: the visible keys, the same for every query: (*batch, 1, T_k), as `padding_mask` makes it; True = may attend.

    Returns:
        context (*batch, T_q, d_v): c_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j); 0 where the mask hides every key.

    Raises:
        ValueError: the mask differs between queries, which sums over keys cannot follow.
        TypeError: the mask is not bool.

    Source: Katharopoulos et al. 2020, eq. 5.
    """
    phi_k = mask_features(phi_k, mask)
    S = phi_k.mT @ v
    z = phi_k.sum(-2)
    return divide(phi_q @ S, phi_q @ z[..., None])


@shape_checked("To continue a sequence, carry its state S, z with linear_attention_step.")
@of_features
def causal_linear_attention(
    phi_q: Float[Tensor, "*#batch T f"],
    phi_k: Float[Tensor, "*#batch T f"],
    v: Float[Tensor, "*#batch T d_v"],
    mask: Mask | None = None,
) -> Context:
    """Attend from each position to itself and to earlier ones, by prefix sums: every S_i and z_i at once.

    All states are held in memory, T · f · d_v numbers; `chunked_linear_attention` computes the same without them.

    Args:
        phi_q: features of the queries (*batch, T, f).
        phi_k: features of the keys (*batch, T, f).
        v: values (*batch, T, d_v).
        mask: the keys that are visible at all, (*batch, 1, T); True = may attend.

    Returns:
        context (*batch, T, d_v): c_i = φ(q_i)ᵀ S_i / φ(q_i)ᵀ z_i with the sums over j ≤ i; 0 where φ(q_i)ᵀ z_i = 0.

    Raises:
        ValueError: there are not as many queries or values as keys, or the mask differs between queries.
        TypeError: the mask is not bool.

    Source: Katharopoulos et al. 2020, eqs. 9-12.
    """
    phi_k = mask_features(phi_k, mask)
    S = einsum(phi_k, v, "... T f, ... T d_v -> ... T f d_v").cumsum(-3)
    z = phi_k.cumsum(-2)
    return divide(einsum(phi_q, S, "... T f, ... T f d_v -> ... T d_v"), (phi_q * z).sum(-1, keepdim=True))


@shape_checked()
def linear_attention_step(
    S: Float[Tensor, "*batch f d_v"],
    z: Float[Tensor, "*batch f"],
    phi_q: Float[Tensor, "*batch f"],
    phi_k: Float[Tensor, "*batch f"],
    v: Float[Tensor, "*batch d_v"],
) -> tuple[Float[Tensor, "*batch d_v"], Float[Tensor, "*batch f d_v"], Float[Tensor, "*batch f"]]:
    """Add one position to the state of causal linear attention, and attend from it to all positions so far, itself included.

    Args:
        S: the state before, Σ φ(k_j) v_jᵀ over the positions so far, (*batch, f, d_v); zeros at the start.
        z: the state before, Σ φ(k_j), (*batch, f); zeros at the start.
        phi_q: features of this position's query (*batch, f).
        phi_k: features of its key (*batch, f).
        v: its value (*batch, d_v).

    Returns:
        the context of this position (*batch, d_v), 0 where φ(q)ᵀz = 0, as before any visible key; and the new S and z.
        Those given are not changed.

    Source: Katharopoulos et al. 2020, eqs. 18-20.
    """
    wide = torch.promote_types(S.dtype, torch.float32)
    dtype, phi_q, phi_k, v = v.dtype, phi_q.to(wide), phi_k.to(wide), v.to(wide)
    S = S + phi_k[..., :, None] * v[..., None, :]
    z = z + phi_k
    read = (phi_q[..., :, None] * S).sum(-2)
    return divide(read, (phi_q * z).sum(-1, keepdim=True)).to(dtype), S, z


class LinearAttention(nn.Module):
    """A mechanism `(q, k, v, mask) -> ContextOnly` for `MultiHead`: a feature map, and a form of linear attention."""

    def __init__(
        self,
        feature_map: Callable[[Tensor], Tensor] = elu_feature_map,
        mix: Callable[..., Context] = linear_attention,
    ) -> None:
        """Set the feature map and the form; both are functions.

        Args:
            feature_map: φ, from (*batch, T, d_k) to (*batch, T, f), such as `elu_feature_map`.
            mix: `linear_attention`, or one of its causal forms, such as `causal_linear_attention`.
        """
        super().__init__()
        self.feature_map, self.mix = feature_map, mix

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
        """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v); the weights are not built."""
        return ContextOnly(self.mix(self.feature_map(q), self.feature_map(k), v, mask))

    def start(self, k: Keys, v: Values) -> LayerState:
        """Read keys (*batch, T, d_k), T ≥ 0, and values (*batch, T, d_v): S and z of all of them, in float32 or wider.

        Raises:
            ValueError: `mix` is `linear_attention`, which is not causal.
        """
        if getattr(self.mix, "func", self.mix) is linear_attention:  # a partial function has a `func`
            raise ValueError("steps compute causal linear attention, but linear_attention is not causal: choose a causal form.")
        wide = wider(v)
        phi_k, v = self.feature_map(k).to(wide), v.to(wide)
        with without_autocast(v):
            return phi_k.mT @ v, phi_k.sum(-2)

    def step(
        self,
        q: Queries,
        k: Keys,
        v: Values,
        state: LayerState,
        form: Callable[..., tuple[Tensor, Tensor, Tensor]] = linear_attention_step,
    ) -> tuple[ContextOnly, LayerState]:
        """Attend from one more position, q and k (*batch, 1, d_k), to itself and all before; v (*batch, 1, d_v).

        `form` is `linear_attention_step`, or `fast.inplace_linear_attention_step`, which overwrites the given state.
        """
        S, z = state
        phi_q, phi_k, value = (x[..., 0, :].to(S.dtype) for x in (self.feature_map(q), self.feature_map(k), v))
        context, S, z = form(S, z, rescaled(phi_q), phi_k, value)
        return ContextOnly(context[..., None, :].to(v.dtype)), (S, z)


def mask_features(phi_k: KeyFeatures, mask: Mask | None, fill: float = 0.0) -> KeyFeatures:
    """Set the features of keys that the mask hides to `fill`: 0 adds nothing to any sum. Without a mask nothing changes.

    Raises:
        ValueError: the mask is not (*batch, 1, T_k), the same for every query.
        TypeError: the mask is not bool.
    """
    if mask is None:
        return phi_k
    require_key_mask(mask, phi_k)
    return phi_k.masked_fill(~mask.expand(*phi_k.shape[:-2], 1, phi_k.shape[-2]).mT, fill)


def require_key_mask(mask: Mask, phi_k: KeyFeatures) -> None:
    """Raise an error unless the mask is bool and (*batch, 1, T_k), the same for every query."""
    require_bool(mask)
    if mask.dim() > 1 and mask.shape[-2] != 1:
        raise ValueError(
            f"linear attention needs a mask (*batch, 1, T_k), got one of {mask.shape[-2]} queries. For a causal mask use "
            "causal_linear_attention, for any other kernel_attention."
        )
    require_mask(mask, (*phi_k.shape[:-2], 1, phi_k.shape[-2]))


def divide(numerator: Tensor, normaliser: Tensor) -> Tensor:
    """Divide, with quotient and gradient 0 where the normaliser vanishes."""
    return numerator / divisor(normaliser)


def divisor(n: Tensor) -> Tensor:
    """Replace a normaliser that vanishes by infinity, so that the quotient and its gradient are 0.

    It vanishes below 4·10⁻²⁹ (in float64, 10⁻²³¹): at the end of a number's range the quotient could still be formed, but not
    its gradient.
    """
    range_end = torch.finfo(torch.promote_types(n.dtype, torch.float32)).tiny
    return n.masked_fill(n.abs() < range_end**0.75, torch.inf)
