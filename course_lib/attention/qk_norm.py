"""Query-key normalisation (QK-norm): queries and keys of each head pass a norm, so that no score grows with their length.

Dehghani et al. 2023, *Scaling Vision Transformers to 22 Billion Parameters*, section 2 (https://arxiv.org/abs/2302.05442):

    head_i = softmax(Norm(Q_i) Norm(K_i)ᵀ / √d_k) V_i

There, Norm is layer norm; it is RMSNorm in Qwen 3 (Yang et al. 2025, section 2, https://arxiv.org/abs/2505.09388). All heads
share one norm of queries and one of keys. With gains of 1, a query and a key have length √d_k at most, and a score is in
[-√d_k, √d_k].

    MultiHead(64, 8, QKNorm(8, RotaryAttention(8)))

Where queries and keys are rotated too, the norm stands outside, as here: gains of a pair that differ do not turn with it.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from course_lib.attention.core import AnyMechanism, Attended, ContextOnly, LayerState, require_mechanism, shown
from course_lib.attention.dot_product import causal_attention
from course_lib.attention.multihead import stepwise
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import GroupKeys, GroupValues, Mask, Queries

__all__ = ["QKNorm"]


class QKNorm(nn.Module):
    """A mechanism that normalises queries and keys, never values, before they meet."""

    def __init__(
        self,
        d_k: int,
        mechanism: AnyMechanism = causal_attention,
        norm: Callable[[int], nn.Module] = lambda d_k: nn.RMSNorm(d_k, eps=1e-6),
    ) -> None:
        """Set the mechanism that attends from normalised queries to normalised keys.

        Args:
            d_k: features of a query or key, of one head.
            mechanism: such as `causal_attention`, or a `RotaryAttention`.
            norm: makes a norm of d_k features, one for queries and one for keys; without its ε, that of `nn.RMSNorm` would
                depend on the precision.
        """
        super().__init__()
        require_mechanism(mechanism)
        self.mechanism = mechanism
        self.norm_q, self.norm_k = norm(d_k), norm(d_k)

    def extra_repr(self) -> str:
        """Show a mechanism that is a function."""
        return shown(self.mechanism)

    @property
    def causal(self) -> bool:
        """Whether the mechanism inside is marked as causal; a `RotaryAttention` never is, but has `start` and `step`."""
        return getattr(self.mechanism, "causal", False)

    @of_tensors
    def forward(self, q: Queries, k: GroupKeys, v: GroupValues, mask: Mask | None = None) -> Attended | ContextOnly:
        """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return self.mechanism(self.norm_q(q), self.norm_k(k), v, mask)

    def start(self, k: GroupKeys, v: GroupValues) -> LayerState:
        """Keep normalised keys (*batch, T, d_k), T ≥ 0, and values (*batch, T, d_v), as the mechanism keeps them.

        Raises:
            ValueError: the mechanism has no step-by-step form.
        """
        return stepwise(self.mechanism).start(self.norm_k(k), v)

    def step(
        self, q: Queries, k: GroupKeys, v: GroupValues, state: LayerState, *form: Any
    ) -> tuple[Attended | ContextOnly, LayerState]:
        """Attend from one more position, q and k (*batch, 1, d_k), to itself and all before; v (*batch, 1, d_v)."""
        return stepwise(self.mechanism).step(self.norm_q(q), self.norm_k(k), v, state, *form)
