"""Performer: linear attention with positive random features, an unbiased estimate of softmax attention's kernel.

Choromanski et al. 2021, *Rethinking Attention with Performers*, eqs. 4-7 (https://arxiv.org/abs/2009.14794), with q and k
divided by d_k^¼, so that qᵀk carries the 1/√d_k of softmax attention:

    φ(x) = exp(Ω x - ‖x‖²/2) / √m          c_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j)

A factor that all features of one query share, or all features of all keys, is in numerator and denominator and cancels; a
feature's factor may move from all keys to the queries. So exponents may be shifted until nothing overflows or vanishes. (The
paper's code adds an ε to each feature instead: where the exponents are large and negative, all features are then nearly ε, and
the context approaches the plain average of the values.)
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention.chunked_linear import chunked_linear_attention
from course_lib.attention.core import ContextOnly, broadcast_shapes
from course_lib.attention.linear import linear_attention, mask_features
from course_lib.primitives.kernels import Projection, orthogonal_projection
from course_lib.primitives.precision import without_autocast
from course_lib.primitives.preconditions import of_tensors, values_are_known
from course_lib.shapes import Context, Keys, Mask, Queries, Values

__all__ = ["PerformerAttention", "causal_performer_attention", "performer_attention"]

_HIGHEST = 60.0
"""e^60 times a long sum of large values is still a number in float32 and bfloat16, which end at e^88."""
_USUAL = 20.0
"""ωᵀk - ‖k‖²/2 of a key that does not depend on m random directions is at most about ln m, whatever its length."""


@of_tensors
def performer_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None, *, omega: Projection) -> ContextOnly:
    """Estimate softmax attention over all keys by the m random directions `omega`, at a cost of (T_q + T_k) · m.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        mask: the visible keys, the same for every query, (*batch, 1, T_k); True = may attend.
        omega: random directions (m, d_k), such as `orthogonal_projection(m, d_k)`.

    Returns:
        context (*batch, T_q, d_v), a mean of values while squared lengths of queries and keys are finite; the weights are None.

    Raises:
        ValueError: the mask differs between queries.
        TypeError: the mask is not bool.

    Source: Choromanski et al. 2021, section 2.3. Each feature's largest exponent among the keys is moved to the queries: the
    normaliser is then at least 1, and nothing vanishes.
    """
    exponent = _key_exponent(k, omega)
    exponent = exponent.expand(*broadcast_shapes(q.shape[:-2], k.shape[:-2]), *exponent.shape[-2:])
    exponent = mask_features(exponent, mask, torch.finfo(exponent.dtype).min)
    largest = exponent.detach().amax(-2, keepdim=True) if k.shape[-2] else exponent.new_zeros(())
    return ContextOnly(linear_attention(query_features(q, omega, largest), (exponent - largest).exp(), v, mask))


@of_tensors
def causal_performer_attention(
    q: Queries,
    k: Keys,
    v: Values,
    mask: Mask | None = None,
    *,
    omega: Projection,
    mix: Callable[..., Tensor] = chunked_linear_attention,
) -> ContextOnly:
    """Estimate causal softmax attention, position by position: no factor is shared with later keys.

    As `performer_attention`, with as many queries as keys. `mix` is one of the causal forms of linear attention;
    `fast.lean_performer_attention` needs the least memory.

    Raises:
        ValueError: as `performer_attention`; or queries and keys are so long that all features of a query's keys vanish
            (qᵀk/√d_k in the hundreds), or overflow.
    """
    return in_range(lambda values: mix(query_features(q, omega), key_features(k, omega), values, mask), q, k, v, mask)


def in_range(form: Callable[[Values], Context], q: Queries, k: Keys, v: Values, mask: Mask | None) -> ContextOnly:
    """Attend causally by `form`; raise a ValueError if a normaliser vanished, which leaves a context of 0, or overflowed.

    A context may be 0, or not finite, because of the values: then that of a value of 1 at each key is 1.
    """
    context = form(v)
    if values_are_known(q, k, v) and not ((context != 0).any(-1) & context.isfinite().all(-1)).all():
        with torch.no_grad():
            total = form(v.new_ones(*v.shape[:-1], 1))
        lost = total == 0
        if q.isfinite().all() and k.isfinite().all():
            lost = lost | ~total.isfinite()
        if mask is not None:
            lost = lost & torch.atleast_2d(mask).mT.cumsum(-2).bool()
        if lost.any():
            raise ValueError(
                f"for {int(lost.sum())} queries the features of all visible keys vanish, or overflow: queries and keys are too "
                "long for random features in this precision. Shorten them (a layer norm before the projection), convert to "
                "float64, or choose causal_attention."
            )
    return ContextOnly(context)


def query_features(q: Queries, omega: Projection, shift: Tensor | float = 0.0) -> Tensor:
    """Map queries (*batch, T, d_k) to features (*batch, T, m) that sum to 1: a common factor cancels in the quotient.

    `shift` (*batch, 1, m) is added to the exponents.
    """
    return (_product(_shortened(q), omega) + shift).softmax(-1)


def key_features(k: Keys, omega: Projection) -> Tensor:
    """Map each key of (*batch, T, d_k) by itself to positive features (*batch, T, m), up to one factor that Ω decides.

    The exponent ωᵀk - ‖k‖²/2 is at most ‖ω‖²/2. It is shifted up as far as a sum of usual ones permits, so that those of long
    keys, far below 0, vanish as late as possible.
    """
    bound = omega.to(torch.promote_types(omega.dtype, torch.float32)).square().sum(-1).amax() / 2
    return (_key_exponent(k, omega) - bound.clamp(max=_USUAL) + _HIGHEST).exp()


def _key_exponent(k: Keys, omega: Projection) -> Tensor:
    k = _shortened(k)
    return _product(k, omega) - k.square().sum(-1, keepdim=True) / 2


def _shortened(x: Tensor) -> Tensor:
    """Divide by d^¼, once for the query and once for the key, in float32 or wider: squares of float16 overflow."""
    return x.to(torch.promote_types(x.dtype, torch.float32)) * x.shape[-1] ** -0.25


def _product(x: Tensor, omega: Projection) -> Tensor:
    """Project x on the directions in its own precision, also under autocast."""
    with without_autocast(x):
        return x @ omega.to(x.dtype).mT


class PerformerAttention(nn.Module):
    """A mechanism `(q, k, v, mask) -> ContextOnly` for `MultiHead` that owns random directions and no trained parameters."""

    def __init__(
        self,
        d_k: int,
        m: int,
        mechanism: Callable[..., ContextOnly] = performer_attention,
        draw: Callable[..., Projection] = orthogonal_projection,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw the directions, the same for every head.

        Args:
            d_k: size of a head's queries and keys.
            m: number of random features; the error falls like 1/√m.
            mechanism: `performer_attention` or `causal_performer_attention`.
            draw: `orthogonal_projection` or `gaussian_projection`.
            generator: source of randomness; torch's default if None.
        """
        super().__init__()
        self.mechanism, self.draw = mechanism, draw
        self.omega: Tensor
        self.register_buffer("omega", draw(m, d_k, generator))

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw the directions again, as the paper does periodically in training."""
        self.omega.copy_(self.draw(*self.omega.shape, generator))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
        """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return self.mechanism(q, k, v, mask, omega=self.omega)
