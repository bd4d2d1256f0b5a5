"""Relative positional attention of Transformer-XL: a score depends on the distance between query and key.

Dai et al. 2019, *Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context*, section 3.3
(https://arxiv.org/abs/1901.02860), causal. With R_n the sinusoids of the distance n = i - j, r_n = W_r R_n (the paper's
W_{k,R}), and two learned vectors of each head:

    e_ij = ((q_i + u)ᵀ k_j + (q_i + v)ᵀ r_{i-j}) / √d_k

u and v replace the terms in which absolute positions would enter the query. Here they are called `bias_u` and `bias_v`, because
v denotes the values; each layer owns its own. The queries are the last T_q positions of the keys; the positions before are a
memory. `relative_attention` looks up r_{i-j} for each pair, T_q · T_k vectors. `shifted_relative_attention`, the default of the
module, is six times as fast: it multiplies each query by all T_k vectors, and shifts row i of the products into place
(appendix B).
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, attend, causal_and, without_overflow
from course_lib.attention.multihead import head_size, split_heads
from course_lib.primitives.positions import sinusoids
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Keys, Mask, Queries, Scores, Values

__all__ = ["RelativeAttention", "relative_attention", "shifted_relative_attention"]

Distances = Float[Tensor, "*heads T_k d_k"]
HeadBias = Float[Tensor, "*heads d_k"]


@without_overflow
def relative_attention(
    q: Queries, k: Keys, v: Values, r: Distances, bias_u: HeadBias, bias_v: HeadBias, mask: Mask | None = None
) -> Attended:
    """Attend from each position to itself and to earlier ones by content and by distance.

    Args:
        q: queries (*batch, T_q, d_k), those of the last T_q positions of the keys.
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        r: (*heads, T_k, d_k), row n for the distance n = i - j between a query and a key, 0 to T_k - 1.
        bias_u: u (*heads, d_k), added to the query in products with keys.
        bias_v: v (*heads, d_k), added to the query in products with distances.
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may attend. It may forbid more than causality does.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k).

    Raises:
        ValueError: there are more queries than keys, or the number of distances is not that of the keys; or as `attend`.
        TypeError: the mask is not bool.

    Source: Dai et al. 2019, section 3.3.
    """
    require_distances(k, r)
    allowed = causal_and(mask, q, k)
    T_q, T_k = q.shape[-2], k.shape[-2]
    position = torch.arange(T_k, device=q.device)
    distance = (position[T_k - T_q :, None] - position).clamp(min=0)
    by_content = (q + bias_u.unsqueeze(-2)) @ k.mT
    by_distance = (r[..., distance, :] @ (q + bias_v.unsqueeze(-2)).unsqueeze(-1)).squeeze(-1)
    return attend((by_content + by_distance) / math.sqrt(k.shape[-1]), v, allowed)


@without_overflow
def shifted_relative_attention(
    q: Queries, k: Keys, v: Values, r: Distances, bias_u: HeadBias, bias_v: HeadBias, mask: Mask | None = None
) -> Attended:
    """Compute `relative_attention` with one product of queries (*batch, T_q, d_k) and distances (*heads, T_k, d_k)."""
    require_distances(k, r)
    allowed = causal_and(mask, q, k)
    by_content = (q + bias_u.unsqueeze(-2)) @ k.mT
    by_distance = relative_shift((q + bias_v.unsqueeze(-2)) @ r.flip(-2).mT)
    return attend((by_content + by_distance) / math.sqrt(k.shape[-1]), v, allowed)


def relative_shift(x: Scores) -> Scores:
    """Shift row i of products by distance to the left by T_q - 1 - i columns, so that column j belongs to key j.

    Args:
        x: (*batch, T_q, T_k), column c for the distance T_k - 1 - c.

    Returns:
        (*batch, T_q, T_k), column j for the distance of query i and key j. If key j is later than the query, there is no
        such distance, and the number is arbitrary.

    Source: Dai et al. 2019, appendix B: a column of zeros is put in front, and the rows are cut again.
    """
    *batch, T_q, T_k = x.shape
    return F.pad(x, (1, 0)).reshape(*batch, T_k + 1, T_q)[..., 1:, :].reshape(*batch, T_q, T_k)


class RelativeAttention(nn.Module):
    """Mechanism of Transformer-XL for all heads of a layer: owns `W_r` (h · d_k, d_model), `bias_u` and `bias_v` (h, d_k).

    `MultiHead(d_model, n_heads, RelativeAttention(d_model, n_heads))` attends by it, as does any model that takes a mechanism.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        form: Callable[..., Attended] = shifted_relative_attention,
        d_k: int | None = None,
    ) -> None:
        """Set up the parameters; u and v start at 0, unless a model initialises them, as `blocks.draw_weights` does.

        Args:
            d_model: features of a sinusoid.
            n_heads: number of heads, equal to that of the `MultiHead` around it.
            form: `shifted_relative_attention`, or `relative_attention`, which looks up a vector for each pair, in memory that
                grows with T_q · T_k · d_k.
            d_k: size of a head's queries and keys; d_model / n_heads if None.

        Raises:
            ValueError: d_k is None and n_heads does not divide d_model.
        """
        super().__init__()
        d_k = head_size(d_model, n_heads, d_k)
        self.n_heads, self.form = n_heads, form
        self.W_r = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.bias_u, self.bias_v = (nn.Parameter(torch.zeros(n_heads, d_k)) for _ in range(2))

    @of_tensors
    def forward(
        self,
        q: Float[Tensor, "*batch h T_q d_k"],
        k: Float[Tensor, "*batch h T_k d_k"],
        v: Float[Tensor, "*batch h T_k d_v"],
        mask: Mask | None = None,
    ) -> Attended:
        """Attend from q (*batch, h, T_q, d_k), the last positions of k (*batch, h, T_k, d_k) and v (*batch, h, T_k, d_v).

        Raises:
            ValueError: there are more queries than keys; or as `relative_attention`.
        """
        distances = sinusoids(0, k.shape[-2], self.W_r.in_features, k.device).to(k.dtype)
        return self.form(q, k, v, split_heads(self.W_r(distances), self.n_heads), self.bias_u, self.bias_v, mask)


def require_distances(k: Keys, r: Distances) -> None:
    """Raise a ValueError unless there is a vector for each distance between the keys."""
    T_k = k.shape[-2]
    if r.shape[-2] != T_k:
        raise ValueError(f"{T_k} keys are 0 to {T_k - 1} positions away: r needs {T_k} rows, got {r.shape[-2]}.")
