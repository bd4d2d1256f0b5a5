"""Local self-attention with relative positions: every pixel attends to a window around it.

Ramachandran, Parmar, Vaswani, Bello, Levskaya, Shlens 2019, *Stand-Alone Self-Attention in Vision Models*, eqs. 2-3
(https://arxiv.org/abs/1906.05909), with windows 𝒩 of size × size pixels, no scale, and r a learned vector for each offset:

    y_ij = Σ_(a,b ∈ 𝒩(i,j)) softmax_ab(q_ijᵀ k_ab + q_ijᵀ r_(a-i, b-j)) v_ab        r_(a-i, b-j) = [row_(a-i) ; column_(b-j)]

Pixels outside the image have weight 0. A leading `*batch` may hold the heads. Scores, softmax and sums are computed in float32
or wider: in float16, scores beyond 65,504 would be infinite.

`fast.sliced_local_attention` is three to four times as fast for windows of 3 × 3, `fast.tiled_local_attention` five to twelve
times from 5 × 5 on, where no weights are needed.
"""

from typing import Protocol, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, ContextOnly, attend, without_overflow
from course_lib.primitives.preconditions import of_tensors, shape_checked
from course_lib.primitives.windows import local_windows, require_window, window_mask
from course_lib.shapes import Image

__all__ = ["LocalAttention", "local_attention", "relative_logits"]

LocalQueries = Float[Tensor, "*#batch H_q W_q d_k"]
LocalKeys = Float[Tensor, "*#batch H W d_k"]
LocalValues = Float[Tensor, "*#batch H W d_v"]
RowEmbeddings = Float[Tensor, "*#heads size d_row"]
ColumnEmbeddings = Float[Tensor, "*#heads size d_column"]


@runtime_checkable
class LocalMechanism(Protocol):
    """A form of `local_attention`: with the weights, as the equation, or without them."""

    def __call__(
        self, q: LocalQueries, k: LocalKeys, v: LocalValues, rows: RowEmbeddings, columns: ColumnEmbeddings, stride: int = 1, /
    ) -> Attended | ContextOnly:
        """Attend from each query to the window around it, with the shapes of `local_attention`."""


def relative_logits(q: LocalQueries, rows: RowEmbeddings, columns: ColumnEmbeddings) -> Float[Tensor, "*batch H_q W_q window"]:
    """Score each position of a window by its relative position: q_ijᵀ [row_a ; column_b].

    Args:
        q: (*batch, H, W, d_row + d_column): the first d_row features act on the rows, the others on the columns.
        rows: (*heads, size, d_row), a vector for each row of a window, from top to bottom; one set for each head, where q is
            (*batch, h, H, W, …), or one for all.
        columns: (*heads, size, d_column), a vector for each column, from left to right.

    Returns:
        (*batch, H, W, size²), row by row as in `local_windows`.

    Source: Ramachandran et al. 2019, eq. 3.
    """
    d_row = rows.shape[-1]
    from_rows = q[..., :d_row] @ rows.unsqueeze(-3).mT
    from_columns = q[..., d_row:] @ columns.unsqueeze(-3).mT
    return (from_rows.unsqueeze(-1) + from_columns.unsqueeze(-2)).flatten(-2)


@shape_checked()
@without_overflow
def local_attention(
    q: LocalQueries, k: LocalKeys, v: LocalValues, rows: RowEmbeddings, columns: ColumnEmbeddings, stride: int = 1
) -> Attended:
    """Attend from each pixel to the window around it, by content and by relative position.

    A score is q · k plus the relative logit of the offset, without a factor 1 / √d_k. Only the size² positions of a
    window are scored: time and memory grow with H · W · size², not with (H · W)².

    Args:
        q: (*batch, ⌈H / stride⌉, ⌈W / stride⌉, d_k), the queries, of every stride-th pixel.
        k: (*batch, H, W, d_k), the keys of all pixels.
        v: (*batch, H, W, d_v), the values of all pixels.
        rows: (*heads, size, d_row), a vector for each row of a window; its length is the side of the window, an odd number.
        columns: (*heads, size, d_k - d_row), a vector for each column. With zeros in both, positions have no effect.
        stride: steps between two queries.

    Returns:
        context (*batch, ⌈H / stride⌉, ⌈W / stride⌉, d_v) and weights (*batch, ⌈H / stride⌉, ⌈W / stride⌉, size²), 0 outside
        the image.

    Raises:
        ValueError: the side of the window is even, or the sizes of queries, keys, values and offsets do not fit.

    Source: Ramachandran et al. 2019, eq. 3.
    """
    size = window_side(q, k, rows, stride)
    scores = (local_windows(k, size, stride) @ q.unsqueeze(-1)).squeeze(-1) + relative_logits(q, rows, columns)
    mask = window_mask(k.shape[-3], k.shape[-2], size, stride, device=k.device)
    context, weights = attend(scores.unsqueeze(-2), local_windows(v, size, stride), mask.unsqueeze(-2))
    return Attended(context.squeeze(-2), weights.squeeze(-2))


def window_side(q: LocalQueries, k: LocalKeys, rows: RowEmbeddings, stride: int) -> int:
    """Return the side of the window; raise a ValueError for a side or a stride that the queries do not fit."""
    size, (H, W) = rows.shape[-2], k.shape[-3:-1]
    require_window(size, stride)
    if q.shape[-3:-1] != (wanted := (-(-H // stride), -(-W // stride))):
        raise ValueError(f"need {wanted} queries for {H} × {W} keys: take every stride-th, `q[..., ::stride, ::stride, :]`.")
    return size


class LocalAttention(nn.Module):
    """Local attention over images: owns W_q, W_k, W_v (d_out, d_in), and for each head the vectors of rows and columns.

    The paper's text splits the *input* into heads too, but its 18.0 million parameters for ResNet-50 correspond to full
    matrices, as here.
    """

    def __init__(
        self, d_in: int, d_out: int, n_heads: int, size: int, stride: int = 1, mechanism: LocalMechanism = local_attention
    ) -> None:
        """Set up projections and offsets.

        Args:
            d_in: features of a pixel of the input.
            d_out: features of a pixel of the output; each head has d_out / n_heads.
            n_heads: number of heads.
            size: side of the window, odd.
            stride: distance between two queries.
            mechanism: `local_attention`, or a faster form.

        Raises:
            ValueError: the window has no centre, or d_out / n_heads is not an even integer (half for rows, half for columns).
        """
        super().__init__()
        require_window(size, stride)
        if n_heads < 1 or d_out % (2 * n_heads):
            raise ValueError(f"half of a head's features are for rows, half for columns: {d_out} / {n_heads} is not even.")
        self.d_out, self.n_heads, self.stride, self.mechanism = d_out, n_heads, stride, mechanism
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        d_half = d_out // n_heads // 2
        self.rows, self.columns = (nn.Parameter(torch.randn(n_heads, size, d_half) * d_half**-0.5) for _ in range(2))

    @of_tensors
    def forward(self, x: Image) -> Attended | ContextOnly:
        """Attend over x (B, d_in, H, W): context (B, d_out, H_q, W_q), weights (B, h, H_q, W_q, size²); H_q = ⌈H / stride⌉."""
        pixels = rearrange(x, "B C H W -> B H W C")
        queried = pixels[:, :: self.stride, :: self.stride]
        projected = self.W_q(queried), self.W_k(pixels), self.W_v(pixels)
        q, k, v = (rearrange(y, "B H W (h d) -> B h H W d", h=self.n_heads) for y in projected)
        attended = self.mechanism(q, k, v, self.rows, self.columns, self.stride)
        return attended._replace(context=rearrange(attended.context, "B h H W d -> B (h d) H W"))
