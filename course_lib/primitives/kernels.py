"""Feature maps of linear attention: φ(q)ᵀφ(k) replaces exp(qᵀk), so that sums over the keys do not depend on the query.

Katharopoulos et al. 2020, *Transformers are RNNs*, eq. 7 (https://arxiv.org/abs/2006.16236), positive but not exponential:

    φ(x) = elu(x) + 1

Choromanski et al. 2021, *Rethinking Attention with Performers*, lemma 1 and section 2.4 (https://arxiv.org/abs/2009.14794),
called FAVOR+. For ω ~ N(0, I) the mean is the exponential itself:

    exp(qᵀk) = E[exp(ωᵀq - ‖q‖²/2) · exp(ωᵀk - ‖k‖²/2)]                     positive features
             = E[e^{‖q‖²/2} e^{‖k‖²/2} cos(ωᵀ(q - k))]                       trigonometric features (Rahimi & Recht 2007)

The second has positive and negative terms, which cancel where exp(qᵀk) is small: dividing by their sum causes a large variance.
For the softmax of qᵀk/√d, multiply q and k by d^-¼ first.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.preconditions import of_tensors, under_transform

__all__ = [
    "elu_feature_map",
    "favor_features",
    "gaussian_projection",
    "lean_elu_feature_map",
    "orthogonal_projection",
    "orthogonalised",
    "trigonometric_features",
]

Vectors = Float[Tensor, "*batch d"]
Projection = Float[Tensor, "m d"]


@of_tensors
def elu_feature_map(x: Vectors) -> Vectors:
    """Map every entry to elu(x) + 1: x + 1 where x is positive, and e^x elsewhere.

    Args:
        x: queries or keys, of any shape.

    Returns:
        features of the same shape, all positive down to x = -87 in float32 and bfloat16. `F.elu(x) + 1` computes
        (e^x - 1) + 1, which rounds to 0 from about -17 on; compute e^x itself.

    Source: Katharopoulos et al. 2020, eq. 7.
    """
    positive = x.relu()
    return positive + (x - positive).exp()


def lean_elu_feature_map(x: Vectors) -> Vectors:
    """Compute `elu_feature_map` with fewer tensors, and keep the features alone for its gradient, min(φ, 1)."""
    plain = torch.compiler.is_compiling() or under_transform(x)
    return elu_feature_map(x) if plain else _EluPlusOne.apply(x)


class _EluPlusOne(torch.autograd.Function):
    """Autograd would keep the positive part and e^x as well, and pass over the gradient four times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        phi = x.clamp(max=0).exp_().add_(x.relu())
        ctx.save_for_backward(phi)
        return phi

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (phi,) = ctx.saved_tensors
        slope = torch.where(phi > 1, 1.0, phi) if torch.is_grad_enabled() else phi.clamp(max=1)  # 20 times as fast
        return gradient * slope


def favor_features(x: Vectors, omega: Projection) -> Float[Tensor, "*batch m"]:
    """Map vectors to m positive random features, φ(x) = exp(Ω x - ‖x‖²/2) / √m.

    Args:
        x: queries or keys (*batch, d).
        omega: the random directions Ω (m, d), one per row, from N(0, I) or orthogonalised.

    Returns:
        features (*batch, m), all positive; over the draw of Ω, the mean of φ(q)ᵀφ(k) is exp(qᵀk).

    Source: Choromanski et al. 2021, lemma 1 and eq. 5 with h(x) = exp(-‖x‖²/2), f = exp.
    """
    half_square = x.square().sum(-1, keepdim=True) / 2
    return (x @ omega.mT - half_square).exp() / omega.shape[0] ** 0.5


def trigonometric_features(x: Vectors, omega: Projection) -> Float[Tensor, "*batch 2*m"]:
    """Map vectors to the 2m features e^{‖x‖²/2} [cos Ωx; sin Ωx] / √m: also unbiased, but not positive.

    Args:
        x: queries or keys (*batch, d).
        omega: the random directions Ω (m, d).

    Returns:
        features (*batch, 2m): m cosines, then m sines.

    Source: Rahimi & Recht 2007; Choromanski et al. 2021, eq. 5 with h(x) = exp(‖x‖²/2), f = cos, sin.
    """
    angle = x @ omega.mT
    size = (x.square().sum(-1, keepdim=True) / 2).exp()
    return torch.cat([angle.cos(), angle.sin()], dim=-1) * size / omega.shape[0] ** 0.5


def gaussian_projection(m: int, d: int, generator: torch.Generator | None = None) -> Projection:
    """Draw m directions (m, d) independently from N(0, I), with `generator` if given."""
    return torch.randn(m, d, generator=generator)


def orthogonal_projection(m: int, d: int, generator: torch.Generator | None = None) -> Projection:
    """Draw m directions (m, d) by `generator`, each from N(0, I), but orthogonal within each block of d rows."""
    return orthogonalised(gaussian_projection(m, d, generator))


def orthogonalised(omega: Projection) -> Projection:
    """Orthogonalise the rows of a Gaussian draw within blocks of d rows, and keep the norm of each row.

    The rows are cut into blocks of d, the last of which may be shorter. Within a block this is the Gram-Schmidt
    process: the first row is unchanged; from each other row, its projection onto the rows above is subtracted, and it is
    rescaled to its own norm. Directions and norms are independent, so each single row is still distributed as N(0, I):
    estimates stay unbiased.

    Args:
        omega: independent rows from N(0, I), (m, d).

    Returns:
        (m, d), with rows of the same norms, orthogonal within each block.

    Source: Choromanski et al. 2021, section 2.4; Yu et al. 2016, https://arxiv.org/abs/1610.09072.
    """
    blocks = []
    for rows in omega.split(omega.shape[1]):
        Q, R = torch.linalg.qr(rows.mT)
        directions = Q * R.diagonal().sign()
        blocks.append(directions.mT * rows.norm(dim=1, keepdim=True))
    return torch.cat(blocks)
