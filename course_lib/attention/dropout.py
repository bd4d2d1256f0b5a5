"""Attention dropout: in training, weights of a mechanism are set to 0 at random, as in BERT and GPT.

Devlin et al. 2019, appendix A.2 (https://arxiv.org/abs/1810.04805): "a dropout probability of 0.1 on all layers"; the layers of
its code and of GPT's drop attention weights too, by the rule of Srivastava et al. 2014, section 4
(https://jmlr.org/papers/v15/srivastava14a.html), scaled so that the expectation is kept:

    α̃_ij = α_ij m_ij / (1 - p)        m_ij = 0 with probability p, else 1        c_i = Σ_j α̃_ij v_j

A row of α̃ no longer sums to 1. The Transformer of Vaswani et al. drops no attention weights.
"""

from torch import nn

from course_lib.attention.core import Attended, Mechanism, hide_keys, require_mechanism, require_weights, shown
from course_lib.shapes import Keys, Mask, Queries, Values

__all__ = ["AttentionDropout"]


class AttentionDropout(nn.Module):
    """A mechanism whose weights are dropped in training: `MultiHead(64, 8, AttentionDropout(causal_attention, 0.1))`."""

    def __init__(self, mechanism: Mechanism, p: float) -> None:
        """Set the mechanism.

        Args:
            mechanism: computes the weights; its context must be weights · v, as that of every mechanism that ends in `attend`.
                A fused form has no weights to drop.
            p: probability with which, in training, a weight is set to 0, from 0 to 1.

        Raises:
            ValueError: p is not in 0…1.
        """
        super().__init__()
        require_mechanism(mechanism)
        self.mechanism = mechanism
        self.dropout = nn.Dropout(p)

    def extra_repr(self) -> str:
        """Show a mechanism that is a function."""
        return shown(self.mechanism)

    @property
    def causal(self) -> bool:
        """Whether the mechanism inside is causal: then `MultiHead` can attend step by step, as a fused or any other form."""
        return getattr(self.mechanism, "causal", False)

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend as the mechanism does; in training, mix v (*batch, T_k, d_v) by its weights after dropout.

        Returns:
            context (*batch, T_q, d_v), and the weights (*batch, T_q, T_k) that mixed it.

        Raises:
            TypeError: the mechanism is a fused form, which returns no weights; or what the mechanism itself raises.
        """
        if not self.training:
            return require_weights(self.mechanism(q, k, v, mask))
        weights = require_weights(self.mechanism(q, k, v[..., :0], mask)).weights
        dropped = self.dropout(weights)
        return Attended(dropped @ hide_keys(v, weights != 0), dropped)
