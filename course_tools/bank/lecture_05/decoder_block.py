"""Exercise 05.6, decoder_block: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.attention import cross_attention, multi_head_attention
from course_lib.blocks import decoder_block, feed_forward, post_norm
from course_lib.primitives import causal_mask, layer_norm
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right = Answers(), Answers()

HINTS = (
    (
        "A translator has written three words and looks for the fourth. What may each written word look at, where does it look "
        "next, and which of the two is asking a question of the other?"
    ),
    (
        "Three steps of add and norm: over the own words (which mask?), over the memory (which mask?), and the network. The "
        "result has a row for each word, so the queries of the second step come from the words, and keys and values do not."
    ),
    (
        "x looks at x with `*own` under `causal_mask(T)`; what comes of it looks at `memory, memory` with `*cross` under "
        "`memory_mask`; then the network. Behind each: add the step's own input and `layer_norm` with the next pair of norms."
    ),
)


def _looked_back(x, own, n_heads, norm):
    """The first of the three steps, as it should be."""
    causal = causal_mask(x.shape[1], device=x.device)
    return layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal).context, *norm)


@wrong
def asks_from_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You take queries and keys from the encoder and only the values from the decoder. Your result has a row for each word of
    the *source*; it is the words being written that ask, and the memory that is looked at, as keys and as values."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(memory, memory, x, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def takes_the_values_from_the_words(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You compare the words with the memory and then mix the words themselves. Nothing of the source ever reaches the result
    but the weights; the values stand beside the keys, one for each, and come from the memory too."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, x, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def looks_into_the_future(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You let every word look at all the words, also at later ones. While training, the block of yours reads the word that it
    should guess; when it writes, the later words are not there."""
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def adds_the_first_input_again(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You add what comes from the memory to the block's own input. What the words learned of each other is then only in the
    question and not in the sum; each step adds its output to what it was given."""
    h = _looked_back(x, own, n_heads, norms[0])
    m = layer_norm(x + multi_head_attention(h, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(m + feed_forward(m, *network), *norms[2])


@wrong
def forgets_the_memory_mask(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You never use the memory's mask. Your words look at the padding behind a short source as if it were part of the
    sentence."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def masks_the_words_by_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You join the memory's mask to the causal one and leave the memory itself in full view. It says which places of the
    *source* are real: it belongs to the second attention, and has as many columns as the source has places."""
    mask = causal_mask(x.shape[1], device=x.device)
    mask = mask if memory_mask is None else mask & memory_mask
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, mask).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def exchanges_the_attentions_weights(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You look at the own words with the matrices of `cross`, and at the memory with those of `own`. They have the same
    sizes, so nothing complains, and each was learned for the other place."""
    x = _looked_back(x, cross, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *own, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def looks_at_the_memory_first(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You look at the memory before the own words. The question that a word puts to the source should depend on what has been
    written before it, so its own past comes first."""
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[0])
    x = _looked_back(x, own, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def adds_nothing_to_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You normalise what came from the memory alone, without the words that asked. What has been written so far is then lost
    in the middle of the block; each of the three steps adds its own input."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def forgets_the_first_norm(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You normalise behind the memory and behind the network, and not behind the own words. There are three steps and three
    norms; your first gain and bias are never used."""
    x = x + multi_head_attention(x, x, x, *own, n_heads, causal_mask(x.shape[1], device=x.device)).context
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong
def normalises_before_each_step(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You normalise what goes into each step and add its output to the bare sum. That is the pre-norm block of later models;
    here each norm stands behind its sum."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *own, n_heads, causal_mask(x.shape[1], device=x.device)).context
    seen = layer_norm(x, *norms[1])
    x = x + multi_head_attention(seen, memory, memory, *cross, n_heads, memory_mask).context
    return x + feed_forward(layer_norm(x, *norms[2]), *network)


@right
def with_torch_functions(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """torch's linear layers, fused attention (causal by its own switch) and layer norm, and no function of the course."""
    B, T, d_model = x.shape
    if memory_mask is not None:
        memory_mask = memory_mask.broadcast_to(B, T, memory.shape[1])[:, None]

    def attended(asking, asked, weights, **masks):
        inputs = zip((asking, asked, asked), weights[:3], strict=True)
        q, k, v = (F.linear(y, W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for y, W in inputs)
        return F.linear(F.scaled_dot_product_attention(q, k, v, **masks).transpose(1, 2).flatten(2), weights[3])

    x = F.layer_norm(x + attended(x, x, own, is_causal=True), (d_model,), *norms[0])
    x = F.layer_norm(x + attended(x, memory, cross, attn_mask=memory_mask), (d_model,), *norms[1])
    W_1, b_1, W_2, b_2 = network
    return F.layer_norm(x + F.linear(F.linear(x, W_1, b_1).relu(), W_2, b_2), (d_model,), *norms[2])


@right
def word_by_word(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """As when it writes: each word looks at those up to it, so that no causal mask is needed."""
    B, T, _ = x.shape
    if memory_mask is not None:
        memory_mask = memory_mask.broadcast_to(B, T, memory.shape[1])
    written = []
    for t in range(T):
        row = None if memory_mask is None else memory_mask[:, t : t + 1]
        past, word = x[:, : t + 1], x[:, t : t + 1]
        word = layer_norm(word + multi_head_attention(word, past, past, *own, n_heads).context, *norms[0])
        word = layer_norm(word + cross_attention(word, memory, *cross, n_heads, row).context, *norms[1])
        written.append(layer_norm(word + feed_forward(word, *network), *norms[2]))
    return torch.cat(written, dim=1)


@right
def by_add_and_norm_in_double_precision(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """Everything in float64: three functions and three norms, wrapped one after the other by the library's `post_norm`."""
    own, cross, network = ([W.double() for W in weights] for weights in (own, cross, network))
    source, mask = memory.double(), causal_mask(x.size(1), device=x.device)
    steps = (
        lambda y: multi_head_attention(y, y, y, *own, n_heads, mask)[0],
        lambda y: multi_head_attention(y, source, source, *cross, n_heads, memory_mask)[0],
        lambda y: feed_forward(y, *network),
    )
    y = x.double()
    for step, norm in zip(steps, norms, strict=True):
        y = post_norm(y, step, lambda z, pair=norm: layer_norm(z, *(w.double() for w in pair)))
    return y.to(x.dtype)


def _pair(draw: Draw, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    return 1.0 + 0.5 * draw.normal(d), draw.normal(d)


def _four(draw: Draw, d: int, loud: float = 0.5) -> tuple[torch.Tensor, ...]:
    return (*(draw.normal(d, d, scale=d**-0.5) for _ in range(3)), draw.normal(d, d, scale=loud))


def _block(draw: Draw, B: int, own: float = 0.5, cross: float = 0.5, thinks: float = 0.5) -> Call:
    """A block of random weights; the three numbers say how large each part is, 0 = silent."""
    T, T_k, d_head, d_ff = draw.sizes(4)
    d = 3 * d_head
    network = draw.normal(d_ff, d, scale=0.5), draw.normal(d_ff), draw.normal(d, d_ff, scale=thinks), thinks * draw.normal(d)
    norms = _pair(draw, d), _pair(draw, d), _pair(draw, d)
    x, memory = 0.5 + draw.normal(B, T, d), 0.5 + draw.normal(B, T_k, d)
    return x, memory, _four(draw, d, own), _four(draw, d, cross), network, norms, 3


def _whole(draw: Draw) -> list[Call]:
    return [_block(draw, 2), _block(draw, 1)]


def _parts(*loud: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_block(draw, 1, *loud), _block(draw, 2, *loud)]


def _cross(draw: Draw) -> list[Call]:
    """Memories of another length, and one of the same, in which no wrong source shows by its shape."""
    x, memory, *rest = _block(draw, 2, own=0.0, thinks=0.0)
    return [(x, memory, *rest), (x, draw.normal(*x.shape), *rest)]


def _masked(draw: Draw) -> list[Call]:
    x, memory, *rest = _block(draw, 2)
    return [(x, memory, *rest, draw.mask(2, 1, memory.shape[1])), (x, memory, *rest, draw.mask(2, x.shape[1], memory.shape[1]))]


exercise = Exercise(
    id="05.6",
    title="A decoder block",
    reference=decoder_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each word of the decoder.", _whole),
        Property("silent", "Where all three parts say nothing, the input is normalised three times.", _parts(0.0, 0.0, 0.0)),
        Property("own words", "A word looks at none that comes later.", _parts(0.5, 0.0, 0.0), points=2, needs=("silent",)),
        Property("memory", "Words ask; the memory has keys and values.", _cross, points=2, needs=("silent",)),
        Property("network", "The network comes last, with a norm of its own.", _parts(0.0, 0.0, 0.5), needs=("silent",)),
        Property("order", "Own words, then memory, then network.", _whole, needs=("own words", "memory", "network")),
        Property("mask", "The memory's mask hides parts of the memory, and nothing else.", _masked, points=2, needs=("order",)),
        has_gradient(lambda draw: [*_whole(draw), *_masked(draw)[:1]], needs=("order",)),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
