"""Token mixers: the half of a block in which positions hear of each other. A mixer maps (B, T, d_model) to the same shape.

Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762): self-attention takes queries, keys and values from one
sequence, cross-attention its queries from the decoder and keys and values from the encoder's memory.

Any module `(x, *context) -> (B, T, d_model)` may stand in their place. The weights are not kept: `course_lib.teaching.record`
collects them from the attention inside.
"""

from torch import Tensor, nn

from course_lib.shapes import Mask, Memory, Sequence


class SelfAttention(nn.Module):
    """Each position looks at all positions of its own sequence."""

    def __init__(self, attention: nn.Module) -> None:
        """Take the attention around which to mix, such as `MultiHead(d_model, n_heads)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Sequence, mask: Mask | None = None) -> Tensor:
        """Mix x (B, T, d_model) under a mask that broadcasts to (B, T, T), True = may look; gives (B, T, d_model)."""
        return self.attention(x, x, x, mask).context


class CrossAttention(nn.Module):
    """Each position looks at all positions of another sequence, the memory."""

    def __init__(self, attention: nn.Module) -> None:
        """Take the attention around which to mix; `MultiHead(d_model, n_heads, d_memory=…)` where the sizes differ."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Sequence, memory: Memory, mask: Mask | None = None) -> Tensor:
        """Let x (B, T_q, d_model) look at memory (B, T_k, d_memory) under a mask for (B, T_q, T_k); gives x's shape."""
        return self.attention(x, memory, memory, mask).context
