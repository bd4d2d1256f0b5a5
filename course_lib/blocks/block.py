"""Add & norm: a layer's output is added to its input, and a normalisation stands behind the sum or before the layer.

He et al. 2016, eq. 1 (https://arxiv.org/abs/1512.03385); behind it as in Vaswani et al. 2017, section 3.1
(https://arxiv.org/abs/1706.03762), before it as in Radford et al. 2019, section 2.3, and Xiong et al. 2020, table 1
(https://arxiv.org/abs/2002.04745):

    post-norm: y = Norm(x + Sublayer(x))        pre-norm: y = x + Sublayer(Norm(x))

Pre-norm leaves a path of plain sums from the last layer to the first; a stack of such layers needs one more norm at its end.

Token mixers: the half of a block in which positions hear of each other. A mixer maps (B, T, d_model) to the same shape.

Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762): self-attention takes queries, keys and values from one
sequence, cross-attention its queries from the decoder and keys and values from the encoder's memory.

Any module `(x, *context) -> (B, T, d_model)` may stand in their place. The weights are not kept: `course_lib.analysis.record`
collects them from the attention inside.

A block = mix tokens, then mix channels, each inside add & norm. What mixes the tokens is an argument.

Vaswani et al. 2017, section 3.1 and figure 1 (https://arxiv.org/abs/1706.03762), with R = post-norm:

    h = R(x, Mixer)        y = R(h, FFN)                              encoder
    h = R(x, Self)         m = R(h, Cross(·, memory))    y = R(m, FFN)    decoder

The blocks of the Transformer by their equations, with their weights passed in.

Vaswani et al. 2017, section 3.1 (https://arxiv.org/abs/1706.03762), LN = layer norm; pre-norm as in Xiong et al. 2020, table 1
(https://arxiv.org/abs/2002.04745):

    encoder:   h = LN(x + MHA(x, x, x))                  y = LN(h + FFN(h))
    pre-norm:  n = LN(x)    h = x + MHA(n, n, n)         y = h + FFN(LN(h))
    decoder:   h = LN(x + MHA(x, x, x; causal))    m = LN(h + MHA(h, memory, memory))    y = LN(m + FFN(m))

`attention` = (W_q, W_k, W_v, W_o) as in `multi_head_attention`, `network` = (W_1, b_1, W_2, b_2) as in `feed_forward`, and
`norms` = pairs (gain, bias) as in `layer_norm`, in the order of their use. `block.py` has the modules that own them.
"""

from collections.abc import Callable

from torch import Tensor, nn

from course_lib.attention import multi_head_attention
from course_lib.blocks.feedforward import feed_forward
from course_lib.primitives import causal_mask, layer_norm
from course_lib.shapes import Mask, Memory, TokenFeatures

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


class SelfAttention(nn.Module):
    """Each position looks at all positions of its own sequence."""

    def __init__(self, attention: nn.Module) -> None:
        """Take the attention around which to mix, such as `MultiHead(d_model, n_heads)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: TokenFeatures, mask: Mask | None = None) -> Tensor:
        """Mix x (B, T, d_model) under a mask that broadcasts to (B, T, T), True = may look; gives (B, T, d_model)."""
        return self.attention(x, x, x, mask).context


class CrossAttention(nn.Module):
    """Each position looks at all positions of another sequence, the memory."""

    def __init__(self, attention: nn.Module) -> None:
        """Take the attention around which to mix; `MultiHead(d_model, n_heads, d_memory=…)` where the sizes differ."""
        super().__init__()
        self.attention = attention

    def forward(self, x: TokenFeatures, memory: Memory, mask: Mask | None = None) -> Tensor:
        """Let x (B, T_q, d_model) look at memory (B, T_k, d_memory) under a mask for (B, T_q, T_k); gives x's shape."""
        return self.attention(x, memory, memory, mask).context


class Block(nn.Module):
    """Mix tokens, then mix channels: the one block of encoder, GPT, BERT, ViT, Mixer and linear transformer."""

    def __init__(
        self,
        mixer: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        """Put the parts together.

        Args:
            mixer: mixes tokens, `(x, *context) -> (B, T, d_model)`, such as `SelfAttention(MultiHead(d_model, n_heads))`.
            feed_forward: mixes channels, `x -> (B, T, d_model)`.
            d_model: number of features.
            residual: `post_norm` or `pre_norm`.
            norm: makes a normalisation of d_model features.
        """
        super().__init__()
        self.mixer, self.feed_forward, self.residual = mixer, feed_forward, residual
        self.norm_1, self.norm_2 = norm(d_model), norm(d_model)

    def forward(self, x: TokenFeatures, *context: object) -> Tensor:
        """Transform x (B, T, d_model); what else is given, such as a mask, goes to the mixer."""
        x = self.residual(x, lambda y: self.mixer(y, *context), self.norm_1)
        return self.residual(x, self.feed_forward, self.norm_2)


class DecoderBlock(nn.Module):
    """A block that looks at its own sequence, then at a memory, then mixes channels."""

    def __init__(
        self,
        mixer: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        """Put the parts together: as `Block`, with `cross`, `(x, memory, mask) -> (B, T, d_model)`, between the two."""
        super().__init__()
        self.mixer, self.cross, self.feed_forward, self.residual = mixer, cross, feed_forward, residual
        self.norm_1, self.norm_2, self.norm_3 = norm(d_model), norm(d_model), norm(d_model)

    def forward(self, x: TokenFeatures, memory: Memory, mask: Mask | None = None, memory_mask: Mask | None = None) -> Tensor:
        """Transform x (B, T_q, d_model), looking at itself under `mask` and at memory (B, T_k, d) under `memory_mask`."""
        x = self.residual(x, lambda y: self.mixer(y, mask), self.norm_1)
        x = self.residual(x, lambda y: self.cross(y, memory, memory_mask), self.norm_2)
        return self.residual(x, self.feed_forward, self.norm_3)


Four = tuple[Tensor, Tensor, Tensor, Tensor]
Pair = tuple[Tensor, Tensor]


def encoder_block(
    x: TokenFeatures, attention: Four, network: Four, norms: tuple[Pair, Pair], n_heads: int, mask: Mask | None = None
) -> TokenFeatures:
    """Mix tokens by self-attention, then channels by the network; add and normalise behind each (post-norm).

    Args:
        x: (B, T, d_model).
        attention: (W_q, W_k, W_v, W_o) of `multi_head_attention`, stored as (out, in).
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: (gain, bias) of the norm behind the attention, and of the one behind the network.
        n_heads: number of heads.
        mask: bool, broadcastable to (B, T, T); True = may look.

    Returns:
        (B, T, d_model).

    Source: Vaswani et al. 2017, section 3.1.
    """
    x = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(x + feed_forward(x, *network), *norms[1])


def pre_norm_encoder_block(
    x: TokenFeatures, attention: Four, network: Four, norms: tuple[Pair, Pair], n_heads: int, mask: Mask | None = None
) -> TokenFeatures:
    """Mix tokens, then channels, each on a normalised input; what is added up is never normalised (pre-norm).

    Args:
        x: (B, T, d_model).
        attention: (W_q, W_k, W_v, W_o) of `multi_head_attention`, stored as (out, in).
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: (gain, bias) of the norm before the attention, and of the one before the network.
        n_heads: number of heads.
        mask: bool, broadcastable to (B, T, T); True = may look.

    Returns:
        (B, T, d_model).

    Source: Xiong et al. 2020, table 1.
    """
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


def decoder_block(
    x: TokenFeatures,
    memory: Memory,
    own: Four,
    cross: Four,
    network: Four,
    norms: tuple[Pair, Pair, Pair],
    n_heads: int,
    memory_mask: Mask | None = None,
) -> TokenFeatures:
    """Look back over the own words, then over the encoder's memory, then mix channels; post-norm behind each.

    Args:
        x: (B, T, d_model), the words written so far; none may look at a later one.
        memory: (B, T_k, d_model), what the encoder made of the source.
        own: (W_q, W_k, W_v, W_o) of the attention over x.
        cross: (W_q, W_k, W_v, W_o) of the attention from x over the memory.
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: three pairs (gain, bias), in the order of their use.
        n_heads: number of heads, in both attentions.
        memory_mask: bool, broadcastable to (B, T, T_k), over the memory only; True = may look.

    Returns:
        (B, T, d_model).

    Source: Vaswani et al. 2017, sections 3.1 and 3.2.3.
    """
    causal = causal_mask(x.shape[1], device=x.device)
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])
