"""Exercise 05.6, decoder_block: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.attention import multi_head_attention, scaled_dot_product_attention
from course_lib.attention.multihead import merge_heads, split_heads
from course_lib.blocks import decoder_block, encoder_block, feed_forward, post_norm
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

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "A translator has written three tokens and computes the fourth. What may each of them attend to in the first "
        "attention, what in the second, and where do the queries of the second come from?"
    ),
    (
        "Three steps of add and norm: over the target tokens (which mask?), over the memory (which mask?), and the "
        "network. The result has a row for each target token, so the queries of the second step come from the target "
        "tokens, and keys and values do not."
    ),
    (
        "x attends to x with `*own` under `causal_mask(T, device=x.device)`; the result attends to `memory, memory` with "
        "`*cross` under `memory_mask`; then the network. After each: add the step's own input and `layer_norm` with the "
        "next pair of norms."
    ),
)


def _looked_back(x, own, n_heads, norm):
    """The first of the three steps, as it should be."""
    causal = causal_mask(x.shape[1], device=x.device)
    return layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal).context, *norm)


@wrong.idea
def asks_from_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You take queries and keys from the encoder and only the values from the decoder. Your result has a row for each token
    of the *source*; the queries come from the target tokens, keys and values from the memory."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(memory, memory, x, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def lets_the_memory_attend_to_the_words(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You take the queries from the encoder, and keys and values from the decoder. Then the source attends to the target, with
    a row for each *source* token. The queries come from the target tokens, keys and values from the memory."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(memory, x, x, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def takes_the_values_from_the_words(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You take the values of the cross-attention from the target tokens. Only its weights then depend on the source; keys
    and values both come from the memory."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, x, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def looks_into_the_future(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """Your self-attention has no causal mask. In training each position then attends to the token that it should predict;
    in generation the later tokens do not exist."""
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_the_first_input_again(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You add what comes from the memory to the block's own input. The result of the self-attention is then only in the
    queries and not in the sum; each step adds its output to what it was given."""
    h = _looked_back(x, own, n_heads, norms[0])
    m = layer_norm(x + multi_head_attention(h, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(m + feed_forward(m, *network), *norms[2])


@wrong.detail
def forgets_the_memory_mask(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You never use the memory's mask. The target tokens then attend to the padding of a short source."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def inverts_the_memory_mask(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You invert the mask of the memory, as torch's own decoder needs it. In this course True = may attend, so your target
    tokens attend to exactly the padding of the source."""
    real = None if memory_mask is None else ~memory_mask
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, real).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def masks_the_words_by_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You join the memory's mask to the causal one and do not mask the memory. It marks the real tokens of the *source*: it
    belongs to the cross-attention."""
    mask = causal_mask(x.shape[1], device=x.device)
    mask = mask if memory_mask is None else mask & memory_mask
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, mask).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def exchanges_the_attentions_weights(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You use the matrices of `cross` for the self-attention and those of `own` for the cross-attention. They have the same
    sizes, so there is no error, but each was learned for the other attention."""
    x = _looked_back(x, cross, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *own, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def looks_at_the_memory_first(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """Your cross-attention comes before the self-attention. The queries to the source should depend on the tokens before
    them, so the self-attention comes first."""
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[0])
    x = _looked_back(x, own, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_nothing_to_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """The residual around the cross-attention is missing. Each of the three steps adds its own input before the norm."""
    x = _looked_back(x, own, n_heads, norms[0])
    x = layer_norm(multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def forgets_the_first_norm(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You normalise after the cross-attention and after the network, but not after the self-attention. There are three
    steps and three norms; your first gain and bias are never used."""
    x = x + multi_head_attention(x, x, x, *own, n_heads, causal_mask(x.shape[1], device=x.device)).context
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def normalises_before_each_step(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You normalise what goes into each step and add its output to the bare sum. That is the pre-norm block of later
    models; here each norm follows its sum."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *own, n_heads, causal_mask(x.shape[1], device=x.device)).context
    seen = layer_norm(x, *norms[1])
    x = x + multi_head_attention(seen, memory, memory, *cross, n_heads, memory_mask).context
    return x + feed_forward(layer_norm(x, *norms[2]), *network)


@wrong.idea
def forgets_the_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """Your block never attends to the memory: without cross-attention the output is independent of the source sentence."""
    causal = causal_mask(x.shape[1], device=x.device)
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal).context, *norms[0])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_nothing_to_the_words(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """The first residual is missing: the input x is added to the result of the self-attention before the norm."""
    causal = causal_mask(x.shape[1], device=x.device)
    x = layer_norm(multi_head_attention(x, x, x, *own, n_heads, causal).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.case
def inserts_the_head_axis_after_the_first_axis(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You insert the axis of heads after the first axis of the mask. That is right for (B, T, T_k) only: a mask (T, T_k) for
    all sequences needs that axis in front, and `multi_head_attention` puts it there."""
    x = _looked_back(x, own, n_heads, norms[0])
    W_q, W_k, W_v, W_o = cross
    q, k, v = (split_heads(y @ W.mT, n_heads) for y, W in ((x, W_q), (memory, W_k), (memory, W_v)))
    context, _ = scaled_dot_product_attention(q, k, v, None if memory_mask is None else memory_mask.unsqueeze(1))
    x = layer_norm(x + merge_heads(context) @ W_o.mT, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def uses_the_second_norm_twice(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You end with the second norm again, and never use the third. Each of the three steps has its own gain and bias."""
    return decoder_block(x, memory, own, cross, network, (*norms[:2], norms[1]), n_heads, memory_mask)


@wrong.part
def asks_the_memory_with_the_input(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """Your cross-attention takes its queries from the input of the block. It comes second: its queries are what the first step
    made of the input."""
    h = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal_mask(x.shape[1])).context, *norms[0])
    g = layer_norm(h + multi_head_attention(x, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(g + feed_forward(g, *network), *norms[2])


@wrong.detail
def masks_by_the_size_of_the_batch(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You make the causal mask by len(x), the size of the batch. It has a row for each token: x.shape[1]."""
    h = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal_mask(len(x))).context, *norms[0])
    g = layer_norm(h + multi_head_attention(h, memory, memory, *cross, n_heads, memory_mask).context, *norms[1])
    return layer_norm(g + feed_forward(g, *network), *norms[2])


@wrong.part
def reads_the_memory_in_order(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    """You mask the memory causally. The whole source is known before the first word is written: only its padding is hidden."""
    T, mask = x.shape[1], causal_mask(x.shape[1], memory.shape[1])
    h = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads, causal_mask(T)).context, *norms[0])
    mask = mask if memory_mask is None else mask & memory_mask
    g = layer_norm(h + multi_head_attention(h, memory, memory, *cross, n_heads, mask).context, *norms[1])
    return layer_norm(g + feed_forward(g, *network), *norms[2])


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
    """As when it writes: each token looks at those up to it, so that no causal mask is needed."""
    B, T, _ = x.shape
    if memory_mask is not None:
        memory_mask = memory_mask.broadcast_to(B, T, memory.shape[1])
    written = []
    for t in range(T):
        row = None if memory_mask is None else memory_mask[:, t : t + 1]
        past, word = x[:, : t + 1], x[:, t : t + 1]
        word = layer_norm(word + multi_head_attention(word, past, past, *own, n_heads).context, *norms[0])
        word = layer_norm(word + multi_head_attention(word, memory, memory, *cross, n_heads, row).context, *norms[1])
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


@stranger
def decoder_that_looks_at_itself_alone(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return encoder_block(x, own, network, norms[::2], n_heads, causal_mask(x.shape[1]))


@stranger
def decoder_of_zero_memory(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return decoder_block(x, 0 * memory, own, cross, network, norms, n_heads, memory_mask)


@stranger
def decoder_with_the_norms_turned_round(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    return decoder_block(x, memory, own, cross, network, norms[::-1], n_heads, memory_mask)


@stranger(makes=[looks_into_the_future, forgets_the_memory_mask])
def decoder_without_any_mask(x, memory, own, cross, network, norms, n_heads, memory_mask=None):
    h = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    m = layer_norm(h + multi_head_attention(h, memory, memory, *cross, n_heads).context, *norms[1])
    return layer_norm(m + feed_forward(m, *network), *norms[2])


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
    T, T_k = x.shape[1], memory.shape[1]
    return [(x, memory, *rest, draw.mask(*shape)) for shape in ((2, 1, T_k), (2, T, T_k))]


def _masked_alike(draw: Draw) -> list[Call]:
    x, memory, *rest = _block(draw, 2)
    return [(x, memory, *rest, draw.mask(x.shape[1], memory.shape[1]))]


exercise = Exercise(
    id="05.6",
    title="A decoder block, post-norm",
    reference=decoder_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each target token.", _whole),
        Property("norms", "Where all three layers return 0, the input is normalised three times.", _parts(0.0, 0.0, 0.0)),
        Property("causal", "A token attends to no later token.", _parts(0.5, 0.0, 0.0), points=2, needs=("norms",)),
        Property(
            "memory", "Queries come from the target, keys and values from the memory.", _cross, points=2, needs=("norms",)
        ),
        Property("network", "The network comes last, with its own norm.", _parts(0.0, 0.0, 0.5), needs=("norms",)),
        Property(
            "order", "Self-attention, then cross-attention, then the network.", _whole, needs=("causal", "memory", "network")
        ),
        Property("mask", "memory_mask masks the memory, and nothing else.", _masked, needs=("order",)),
        Property("mask of all", "A mask of two axes holds for every sequence.", _masked_alike, needs=("mask",)),
        has_gradient(lambda draw: [*_whole(draw), *_masked(draw)[:1]], needs=("order",)),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "Of these only a size and the device are read; a mask has no gradient and needs no batch axis; one device "
            "holds all."
        ): (
            "detach: x.detach().shape",
            "detach: x.detach().device",
            "detach: multi_head_attention(x, x, x, *own, n_heads, causal.detach())",
            "drop index: causal = causal_mask(x.shape[1], device=x.device)",
            "drop keyword: causal_mask(x.shape[1])[None]",
            "other name: memory.device",
        ),
    },
    hints=HINTS,
)
