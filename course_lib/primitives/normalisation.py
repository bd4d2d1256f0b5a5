"""Normalisation: layer norm, batch norm, RMSNorm, and unit length.

Ba, Kiros, Hinton 2016, *Layer Normalization*, eq. 3 (https://arxiv.org/abs/1607.06450) and
Ioffe, Szegedy 2015, *Batch Normalization*, algorithm 1 (https://arxiv.org/abs/1502.03167), differ in what they average:

    y = (x - μ) / √(σ² + ε) ⊙ g + b        μ, σ²: over the features of one position (layer),
                                                  over all positions of the batch, for one feature (batch)

RMSNorm, in Llama and its successors, keeps the mean and has no bias (Zhang & Sennrich 2019, *Root Mean Square Layer
Normalization*, eq. 4, https://arxiv.org/abs/1910.07467; ε as in the code of Llama):

    y = x / √(Σ_i x_i² / d + ε) ⊙ g

`unit` divides a vector by its length, so that dot products are cosines, as contrastive losses compare them (Chen et al. 2020,
section 2.1, https://arxiv.org/abs/2002.05709):

    sim(u, v) = uᵀv / (‖u‖ ‖v‖)

Squares of numbers above 255 overflow float16: the norms compute in float32 or wider, and round the result.
"""

from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.precision import rounded_from_float32
from course_lib.primitives.preconditions import shape_checked

__all__ = ["batch_norm", "layer_norm", "rms_norm", "unit"]


@rounded_from_float32
def layer_norm(
    x: Float[Tensor, "*batch d"], gain: Float[Tensor, "d"], bias: Float[Tensor, "d"], epsilon: float = 1e-5
) -> Float[Tensor, "*batch d"]:
    """Normalise each position by the mean and the variance of its own features.

    Args:
        x: (*batch, d); every vector along the last axis is normalised by itself.
        gain: g, (d,).
        bias: b, (d,).
        epsilon: ε, added to the variance, so that a constant vector does not divide by 0.

    Returns:
        (*batch, d); before gain and bias, mean 0 and, where the variance is far above ε, variance 1 (divided by d, not d - 1).

    Source: Ba et al. 2016, eq. 3.
    """
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / (variance + epsilon).sqrt() * gain + bias


@rounded_from_float32
def batch_norm(
    x: Float[Tensor, "*batch d"], gain: Float[Tensor, "d"], bias: Float[Tensor, "d"], epsilon: float = 1e-5
) -> Float[Tensor, "*batch d"]:
    """Normalise each feature by its mean and its variance over the whole batch, as in training.

    Args:
        x: (*batch, d); all axes except the last are averaged over, so that each position depends on every other.
        gain: g, (d,).
        bias: b, (d,).
        epsilon: ε, added to the variance.

    Returns:
        (*batch, d).

    Raises:
        ValueError: there is at most one vector: its variance is 0.

    Source: Ioffe & Szegedy 2015, algorithm 1.
    """
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) < 2:
        raise ValueError(f"batch normalisation needs at least two vectors to average over, got x of shape {tuple(x.shape)}.")
    centred = x - rows.mean(0)
    return centred / (rows.var(0, correction=0) + epsilon).sqrt() * gain + bias


@shape_checked()
@rounded_from_float32
def rms_norm(x: Float[Tensor, "*batch d"], gain: Float[Tensor, "d"], epsilon: float = 1e-6) -> Float[Tensor, "*batch d"]:
    """Divide each position by the root mean square of its own features; `nn.RMSNorm(d, eps=1e-6)` is the module.

    Args:
        x: (*batch, d); every vector along the last axis is normalised by itself.
        gain: g, (d,).
        epsilon: ε, added to the mean square, so that a vector of zeros stays 0.

    Returns:
        (*batch, d); before the gain, mean square 1 where that of x is far above ε.

    Raises:
        ValueError: x and the gain differ in d.

    Source: Zhang & Sennrich 2019, eq. 4.
    """
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain


def unit(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Divide each vector by its Euclidean length; the zero vector, which has no direction, stays 0.

    Args:
        x: vectors (*batch, d) of any length: scaled first, so that squares neither overflow nor underflow.

    Returns:
        vectors (*batch, d) of length 1, or 0; gradients are finite, also at 0.

    Source: Chen et al. 2020, section 2.1, sim(u, v) (https://arxiv.org/abs/2002.05709).
    """
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1.0)
    length = x.norm(dim=-1, keepdim=True)
    return x / length.masked_fill(length == 0, 1.0)
