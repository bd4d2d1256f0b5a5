"""Add & norm: a layer's output is added to its input, and a normalisation stands behind the sum or before the layer.

He et al. 2016, eq. 1 (https://arxiv.org/abs/1512.03385); behind it as in Vaswani et al. 2017, section 3.1
(https://arxiv.org/abs/1706.03762), before it as in Radford et al. 2019, section 2.3, and Xiong et al. 2020, table 1
(https://arxiv.org/abs/2002.04745):

    post-norm: y = Norm(x + Sublayer(x))        pre-norm: y = x + Sublayer(Norm(x))

Pre-norm leaves a path of plain sums from the last layer to the first; a stack of such layers needs one more norm at its end.
"""

from collections.abc import Callable

from torch import Tensor

Sublayer = Callable[[Tensor], Tensor]
"""Any map of a sequence (B, T, d_model) to one of the same shape."""

Residual = Callable[[Tensor, Sublayer, Sublayer], Tensor]
"""`post_norm` or `pre_norm`: (x, sublayer, norm) -> y."""


def post_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer) -> Tensor:
    """Add the sublayer's output to its input, then normalise the sum. x and result (B, T, d_model).

    Source: Vaswani et al. 2017, section 3.1.
    """
    return norm(x + sublayer(x))


def pre_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer) -> Tensor:
    """Normalise what the sublayer sees, and add its output to the input as it came. x and result (B, T, d_model).

    Source: Xiong et al. 2020, table 1.
    """
    return x + sublayer(norm(x))
