"""The blocks of the Transformer by their equations, with their weights passed in.

Vaswani et al. 2017, section 3.1 (https://arxiv.org/abs/1706.03762), LN = layer norm; pre-norm as in Xiong et al. 2020, table 1
(https://arxiv.org/abs/2002.04745):

    encoder:   h = LN(x + MHA(x, x, x))                  y = LN(h + FFN(h))
    pre-norm:  n = LN(x)    h = x + MHA(n, n, n)         y = h + FFN(LN(h))
    decoder:   h = LN(x + MHA(x, x, x; causal))    m = LN(h + MHA(h, memory, memory))    y = LN(m + FFN(m))

`attention` = (W_q, W_k, W_v, W_o) as in `multi_head_attention`, `network` = (W_1, b_1, W_2, b_2) as in `feed_forward`, and
`norms` = pairs (gain, bias) as in `layer_norm`, in the order of their use. `block.py` has the modules that own them.
"""

from torch import Tensor

from course_lib.attention import multi_head_attention
from course_lib.blocks.feedforward import feed_forward
from course_lib.primitives import causal_mask, layer_norm
from course_lib.shapes import Mask, Memory, Sequence

Four = tuple[Tensor, Tensor, Tensor, Tensor]
Pair = tuple[Tensor, Tensor]


def encoder_block(
    x: Sequence, attention: Four, network: Four, norms: tuple[Pair, Pair], n_heads: int, mask: Mask | None = None
) -> Sequence:
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
    x: Sequence, attention: Four, network: Four, norms: tuple[Pair, Pair], n_heads: int, mask: Mask | None = None
) -> Sequence:
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
    x: Sequence,
    memory: Memory,
    own: Four,
    cross: Four,
    network: Four,
    norms: tuple[Pair, Pair, Pair],
    n_heads: int,
    memory_mask: Mask | None = None,
) -> Sequence:
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
