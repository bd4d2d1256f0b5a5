"""Non-local blocks: attention between all positions of an image or a video.

Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, sections 3.1 to 3.3 (https://arxiv.org/abs/1711.07971):

    y_i = 1/C(x) Σ_j f(x_i, x_j) g(x_j)        z_i = W_z y_i + x_i

    Gaussian            f = exp(x_iᵀ x_j)              C = Σ_j f
    embedded Gaussian   f = exp(θ(x_i)ᵀ φ(x_j))        C = Σ_j f: the softmax of `dot_attention`
    dot product         f = θ(x_i)ᵀ φ(x_j)             C = N
    concatenation       f = ReLU(w_fᵀ [θ(x_i), φ(x_j)])  C = N

with θ = W_θ x, φ = W_φ x, g = W_g x at each of the N positions. Without a softmax the product may be taken from the right,
θ (φᵀ g) / N, and the N × N weights are never built. The sum φᵀ g over all positions is formed in float32 or wider, also under
autocast: in float16 it would overflow. `fast.fused_embedded_gaussian` is the embedded Gaussian where no weights are needed.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, ContextOnly, attend
from course_lib.attention.dot_product import dot_attention
from course_lib.primitives.precision import in_float32_at_least
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Keys, Queries, Values

__all__ = [
    "NonLocal",
    "NonLocalBlock",
    "associative_dot_product",
    "non_local_block",
    "non_local_concatenation",
    "non_local_dot_product",
    "non_local_embedded_gaussian",
]

PixelFeatures = Float[Tensor, "*batch N C"]
Map = Float[Tensor, "B C *positions"]
"""An image (B, C, H, W), a video (B, C, T, H, W), or a sequence (B, C, T)."""
unbiased = partial(nn.Linear, bias=False)


@runtime_checkable
class PairwiseMechanism(Protocol):
    """A function or module `(theta, phi, g)` over all pairs of positions, without a mask; every `Mechanism` is one."""

    def __call__(self, theta: Queries, phi: Keys, g: Values, /) -> Attended | ContextOnly:
        """Mix g (*batch, N, d) by theta (*batch, N_q, d_k) and phi (*batch, N, d_k)."""


@runtime_checkable
class MapAttention(Protocol):
    """A module that attends over a feature map (B, C, *positions) and has `d_out` features, such as `NonLocal`."""

    d_out: int

    def __call__(self, x: Map, /) -> Attended | ContextOnly:
        """Attend over x (B, C, *positions); the context is a map (B, d_out, *positions)."""


def non_local_embedded_gaussian(
    x: PixelFeatures, W_theta: Float[Tensor, "d_k C"], W_phi: Float[Tensor, "d_k C"], W_g: Float[Tensor, "d C"]
) -> Attended:
    """Non-local embedded Gaussian, softmax(θ φᵀ) g: dot-product attention without a scale.

    Args:
        x: (*batch, N, C), the features of N positions.
        W_theta: (d_k, C), makes the queries θ = W_θ x.
        W_phi: (d_k, C), makes the keys φ = W_φ x.
        W_g: (d, C), makes the values g = W_g x.

    Returns:
        context (*batch, N, d) and weights (*batch, N, N).

    Source: Wang et al. 2018, eq. 3.
    """
    theta = x @ W_theta.mT
    phi = x @ W_phi.mT
    g = x @ W_g.mT
    return attend(theta @ phi.mT, g)


@of_tensors
def non_local_dot_product(theta: Queries, phi: Keys, g: Values) -> Attended:
    """Non-local dot product, θ φᵀ g / N: the products divided by the number of keys, not by their sum.

    Args:
        theta: queries (*batch, N_q, d_k).
        phi: keys (*batch, N, d_k).
        g: values (*batch, N, d).

    Returns:
        context (*batch, N_q, d) and weights (*batch, N_q, N), which may be negative and need not sum to 1.

    Source: Wang et al. 2018, eq. 4.
    """
    weights = theta @ phi.mT / phi.shape[-2]
    return Attended(weights @ g, weights)


def _summed_in_float32(form: Callable[..., ContextOnly]) -> Callable[..., ContextOnly]:
    """Make a form sum in float32 or wider, and return its context in the values' dtype."""

    @of_tensors
    @wraps(form)
    def run(theta: Queries, phi: Keys, g: Values) -> ContextOnly:
        return ContextOnly(in_float32_at_least(form)(theta, phi, g).context.to(g.dtype))

    return run


@_summed_in_float32
def associative_dot_product(theta: Queries, phi: Keys, g: Values) -> ContextOnly:
    """Compute the context of `non_local_dot_product` from the right, θ (φᵀ g) / N, with N keys; the weights are None.

    Time and memory grow with N · d_k · d, not with N².
    """
    return ContextOnly(theta @ (phi.mT @ g / phi.shape[-2]))


def non_local_concatenation(theta: Queries, phi: Keys, g: Values, w_f: Float[Tensor, "two_d_k"]) -> Attended:
    """Non-local concatenation: weights ReLU(w_fᵀ [θ_i, φ_j]) / N of concatenated queries and keys.

    Args:
        theta: (*batch, N_q, d_k).
        phi: (*batch, N, d_k).
        g: (*batch, N, d).
        w_f: (2 · d_k,), its first half acts on θ_i, the second on φ_j.

    Returns:
        context (*batch, N_q, d) and weights (*batch, N_q, N), ≥ 0; they need not sum to 1.

    Source: Wang et al. 2018, eq. 5.
    """
    w_theta, w_phi = w_f.unsqueeze(-1).chunk(2)
    scores = theta @ w_theta + (phi @ w_phi).mT
    weights = scores.relu() / phi.shape[-2]
    return Attended(weights @ g, weights)


@of_tensors
def non_local_block(
    x: Map,
    W_theta: Float[Tensor, "d_k C"],
    W_phi: Float[Tensor, "d_k C"],
    W_g: Float[Tensor, "d C"],
    W_z: Float[Tensor, "C d"],
) -> Map:
    """Apply a non-local block to an image or a video: attention between all positions plus a residual, z = W_z y + x.

    y is the embedded Gaussian, softmax(θ φᵀ) g, without a scale 1/√d_k.

    Args:
        x: (B, C, *positions): an image (B, C, H, W), or a video (B, C, T, H, W), with the positions of all its frames.
        W_theta: (d_k, C), makes the queries.
        W_phi: (d_k, C), makes the keys.
        W_g: (d, C), makes the values; d is commonly C / 2, the bottleneck.
        W_z: (C, d), projects the context back to C features.

    Returns:
        (B, C, *positions), the sum of x and the projected context.

    Source: Wang et al. 2018, eqs. 3 and 6, figure 2.
    """
    tokens = x.flatten(2).mT
    y = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g).context
    return x + (y @ W_z.mT).mT.unflatten(2, x.shape[2:])


class NonLocal(nn.Module):
    """Attention over all positions of an image or a video: owns W_θ, W_φ (d, C) and W_g (d, C), without biases."""

    def __init__(
        self,
        d_in: int,
        d: int | None = None,
        mechanism: PairwiseMechanism = dot_attention,
        embed: Callable[[int, int], nn.Module] = unbiased,
        pool: nn.Module | None = None,
    ) -> None:
        """Set up the projections.

        Args:
            d_in: features of a position, C.
            d: features inside the block, the bottleneck; half of d_in if None.
            mechanism: how the positions attend; `dot_attention` makes the embedded Gaussian, `non_local_dot_product` the form
                without a softmax.
            embed: `embed(d_in, d)` makes θ, and φ; with `nn.Identity` the Gaussian form, which has neither.
            pool: subsamples keys and values, (B, d, *positions) to fewer positions, such as `nn.MaxPool2d(2)`, or
                `nn.MaxPool3d((1, 2, 2))` for videos; the queries keep all positions.
        """
        super().__init__()
        d = max(1, d_in // 2) if d is None else d
        self.d_out = d
        self.mechanism = mechanism
        self.W_theta = embed(d_in, d)
        self.W_phi = embed(d_in, d)
        self.W_g = nn.Linear(d_in, d, bias=False)
        self.pool = nn.Identity() if pool is None else pool

    @of_tensors
    def forward(self, x: Map) -> Attended | ContextOnly:
        """Attend over x (B, C, *positions); the context is a map (B, d, *positions), the weights are (B, N, N_pooled)."""
        tokens, positions = x.flatten(2).mT, x.shape[2:]
        phi, g = (self.pool(W(tokens).mT.unflatten(2, positions)).flatten(2).mT for W in (self.W_phi, self.W_g))
        attended = self.mechanism(self.W_theta(tokens), phi, g)
        return attended._replace(context=attended.context.mT.unflatten(2, positions))


class NonLocalBlock(nn.Module):
    """Non-local block with a norm, z = x + norm(W_z y). The gain of the norm starts at 0, so it starts as the identity."""

    def __init__(self, d_in: int, attention: MapAttention, norm: Callable[[int], nn.BatchNorm1d] = nn.BatchNorm1d) -> None:
        """Set the attention whose context (B, attention.d_out, *positions) is added, such as `NonLocal(d_in)`.

        `norm(d_in)` has a gain `weight` and acts on (B, d_in, N).
        """
        super().__init__()
        self.attention = attention
        self.W_z = nn.Linear(attention.d_out, d_in, bias=False)
        self.norm = norm(d_in)
        nn.init.zeros_(self.norm.weight)

    @of_tensors
    def forward(self, x: Map) -> Map:
        """Add the projected context to x (B, C, *positions). Wang et al. 2018, eq. 6, and section 4.1 for the norm."""
        context = self.attention(x).context.flatten(2).mT
        return x + self.norm(self.W_z(context).mT).unflatten(2, x.shape[2:])
