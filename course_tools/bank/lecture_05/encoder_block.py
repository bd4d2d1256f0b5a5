"""Exercise 05.4, encoder_block: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import multi_head_attention, scaled_dot_product_attention
from course_lib.attention.multihead import merge_heads, split_heads
from course_lib.blocks import encoder_block, feed_forward, post_norm
from course_lib.primitives import layer_norm
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
        "Draw the block as two boxes, one above the other. What goes into each box, what is added to its output, and "
        "where is the norm?"
    ),
    (
        "Both halves have one pattern: the norm of (input + output of the layer). The second half does not use x; its "
        "input, and what it adds to, is the result of the first."
    ),
    (
        "First half: `layer_norm` of x plus the `.context` of `multi_head_attention(x, x, x, …)` under the mask, with "
        "`*norms[0]`. Second half: the same pattern on that result, with `feed_forward` and `*norms[1]`."
    ),
)


@wrong.idea
def normalises_before_each_half(x, attention, network, norms, n_heads, mask=None):
    """You normalise what goes into each layer and add its output to the bare input. That is the pre-norm block; here the
    norm follows the sum."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.part
def adds_nothing_to_the_attention(x, attention, network, norms, n_heads, mask=None):
    """You normalise the attention's output alone. Without x in the sum there is no residual connection, and the gradient
    has no direct path back."""
    h = layer_norm(multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.part
def adds_nothing_to_the_network(x, attention, network, norms, n_heads, mask=None):
    """You normalise the network's output alone. The second half has a residual connection like the first: its input is added
    before the norm."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(feed_forward(h, *network), *norms[1])


@wrong.part
def adds_the_first_input_twice(x, attention, network, norms, n_heads, mask=None):
    """You add the block's own input in the second half too. The result of the attention then reaches the output only
    through the network; each half adds its own input, and that of the second is the result of the first."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(x + feed_forward(h, *network), *norms[1])


@wrong.detail
def exchanges_the_norms(x, attention, network, norms, n_heads, mask=None):
    """You use the second norm after the attention and the first after the network. The pairs come in the order of their
    use; the mistake has no effect only while all gains are 1 and all biases 0."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[1])
    return layer_norm(h + feed_forward(h, *network), *norms[0])


@wrong.detail
def uses_the_first_norm_twice(x, attention, network, norms, n_heads, mask=None):
    """You normalise both sums by the same gain and bias. Each norm has its own weights, and those of the second are never
    used."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[0])


@wrong.part
def normalises_before_it_adds(x, attention, network, norms, n_heads, mask=None):
    """You normalise each layer's output and add the input afterwards. The sum itself is then never normalised, and it grows
    from block to block; post-norm is the norm of the whole sum."""
    h = x + layer_norm(multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return h + layer_norm(feed_forward(h, *network), *norms[1])


@wrong.part
def normalises_only_at_the_end(x, attention, network, norms, n_heads, mask=None):
    """You add both layers and normalise once, at the end. There is a norm after each half: the input of your network is
    never normalised, and the first gain and bias are never used."""
    h = x + multi_head_attention(x, x, x, *attention, n_heads, mask).context
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.detail
def forgets_the_mask(x, attention, network, norms, n_heads, mask=None):
    """You do not pass the mask on to the attention. Every token then attends to the padding."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.detail
def adds_the_pair_of_results(x, attention, network, norms, n_heads, mask=None):
    """You add the whole result of `multi_head_attention` to x. It is a pair, context and weights: add its `.context`."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask), *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.idea
def mixes_the_channels_first(x, attention, network, norms, n_heads, mask=None):
    """You run the network first and attend afterwards. Here attention comes first: the network is applied to its result."""
    h = layer_norm(x + feed_forward(x, *network), *norms[0])
    return layer_norm(h + multi_head_attention(h, h, h, *attention, n_heads, mask).context, *norms[1])


@wrong.idea
def lets_the_network_see_the_first_input(x, attention, network, norms, n_heads, mask=None):
    """The input of your network is that of the block, in parallel to the attention and not after it. The network must be
    applied to the result of the attention."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(h + feed_forward(x, *network), *norms[1])


@wrong.detail
def takes_true_for_hidden(x, attention, network, norms, n_heads, mask=None):
    """You invert the mask, as torch's own encoder needs it. In this course True = may attend, so your tokens attend to
    exactly the forbidden positions."""
    hidden = None if mask is None else ~mask
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, hidden).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.part
def forgets_the_activation(x, attention, network, norms, n_heads, mask=None):
    """Your network has no ReLU between its two layers: without it both are one linear map."""
    W_1, b_1, W_2, b_2 = network
    x = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(x + (x @ W_1.mT + b_1) @ W_2.mT + b_2, *norms[1])


@wrong.case
def inserts_the_head_axis_after_the_first_axis(x, attention, network, norms, n_heads, mask=None):
    """You insert the axis of heads after the first axis of the mask. That is right for (B, T, T) only: a mask (T, T) for all
    sequences needs that axis in front, and `multi_head_attention` puts it there."""
    W_q, W_k, W_v, W_o = attention
    q, k, v = (split_heads(x @ W.mT, n_heads) for W in (W_q, W_k, W_v))
    context, _ = scaled_dot_product_attention(q, k, v, None if mask is None else mask.unsqueeze(1))
    h = layer_norm(x + merge_heads(context) @ W_o.mT, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@wrong.detail
def exchanges_mask_and_number_of_heads(x, attention, network, norms, n_heads, mask=None):
    """You give `multi_head_attention` the mask before the number of heads. It takes n_heads first, and then the mask."""
    h = layer_norm(x + multi_head_attention(x, x, x, *attention, mask, n_heads).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


@right
def with_torch_functions(x, attention, network, norms, n_heads, mask=None):
    """torch's linear layers, its fused attention and its layer norm, and no function of the course."""
    B, T, d_model = x.shape
    W_q, W_k, W_v, W_o = attention
    W_1, b_1, W_2, b_2 = network
    q, k, v = (F.linear(x, W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for W in (W_q, W_k, W_v))
    if mask is not None:
        mask = mask.broadcast_to(B, T, T).unsqueeze(1)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
    h = F.layer_norm(x + F.linear(context, W_o), (d_model,), *norms[0])
    inner = F.linear(h, W_1, b_1).relu()
    return F.layer_norm(h + F.linear(inner, W_2, b_2), (d_model,), *norms[1])


@right
def sentence_by_sentence(x, attention, network, norms, n_heads, mask=None):
    """A loop over the batch, in which each sentence has its own T × T mask."""
    B, T, _ = x.shape
    masks = [None] * B if mask is None else mask.broadcast_to(B, T, T)
    result = torch.empty_like(x)
    for b in range(B):
        attended = multi_head_attention(x[b], x[b], x[b], *attention, n_heads, masks[b])
        h = layer_norm(attended.context + x[b], *norms[0])
        result[b] = layer_norm(feed_forward(h, *network) + h, *norms[1])
    return result


@right
def head_by_head(x, attention, network, norms, n_heads, mask=None):
    """Each head attends by itself and adds its part, through its own columns of W_o, to the sum that the norm waits for."""
    W_q, W_k, W_v, W_o = attention
    total = x
    pieces = (W_q.chunk(n_heads), W_k.chunk(n_heads), W_v.chunk(n_heads), W_o.chunk(n_heads, dim=1))
    for Q, K, V, out in zip(*pieces, strict=True):
        context, _ = scaled_dot_product_attention(x @ Q.mT, x @ K.mT, x @ V.mT, mask)
        total = total + context @ out.mT
    h = layer_norm(total, *norms[0])
    W_1, b_1, W_2, b_2 = network
    inner = torch.einsum("btd,fd->btf", h, W_1).add(b_1).clamp(min=0)
    return layer_norm(torch.einsum("btf,df->btd", inner, W_2).add(b_2) + h, *norms[1])


@right
def by_add_and_norm_in_double_precision(x, attention, network, norms, n_heads, mask=None):
    """Everything in float64, each half a function that the library's `post_norm` wraps, and cast back at the end."""
    attention, network = ([W.double() for W in weights] for weights in (attention, network))
    first, second = ([w.double() for w in pair] for pair in norms)

    def attend(y):
        return multi_head_attention(y, y, y, *attention, n_heads, mask).context

    h = post_norm(x.double(), attend, lambda y: layer_norm(y, *first))
    return post_norm(h, lambda y: feed_forward(y, *network), lambda y: layer_norm(y, *second)).to(x.dtype)


@stranger
def post_with_half_the_attention(x, attention, network, norms, n_heads, mask=None):
    *others, W_o = attention
    return encoder_block(x, (*others, W_o / 2), network, norms, n_heads, mask)


@stranger
def post_without_network(x, attention, network, norms, n_heads, mask=None):
    return layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])


@stranger
def post_twice(x, attention, network, norms, n_heads, mask=None):
    return encoder_block(encoder_block(x, attention, network, norms, n_heads, mask), attention, network, norms, n_heads, mask)


@stranger(makes=[adds_nothing_to_the_attention, forgets_the_mask])
def post_without_mask_and_sum(x, attention, network, norms, n_heads, mask=None):
    h = layer_norm(multi_head_attention(x, x, x, *attention, n_heads).context, *norms[0])
    return layer_norm(h + feed_forward(h, *network), *norms[1])


def _pair(draw: Draw, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    return 1.0 + 0.5 * draw.normal(d), draw.normal(d)


def _block(draw: Draw, B: int, n_heads: int = 3, attends: float = 0.5, thinks: float = 0.5) -> Call:
    """A block of random weights; `attends` and `thinks` say how large its two halves are, 0 = silent."""
    T, d_head, d_ff = draw.sizes(3)
    d = n_heads * d_head
    attention = (*(draw.normal(d, d, scale=d**-0.5) for _ in range(3)), draw.normal(d, d, scale=attends))
    network = draw.normal(d_ff, d, scale=0.5), draw.normal(d_ff), draw.normal(d, d_ff, scale=thinks), thinks * draw.normal(d)
    return 0.5 + draw.normal(B, T, d), attention, network, (_pair(draw, d), _pair(draw, d)), n_heads


def _whole(draw: Draw) -> list[Call]:
    return [_block(draw, 2), _block(draw, 1, n_heads=2)]


def _masked(draw: Draw) -> list[Call]:
    x, *rest = _block(draw, 2)
    T = x.shape[1]
    return [(x, *rest, draw.mask(2, T, T)), (x, *rest, draw.mask(2, 1, T))]


def _masked_alike(draw: Draw) -> list[Call]:
    x, *rest = _block(draw, 2)
    return [(x, *rest, draw.mask(x.shape[1], x.shape[1]))]


exercise = Exercise(
    id="05.4",
    title="An encoder block, post-norm",
    reference=encoder_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each vector.", _whole),
        Property(
            "norms",
            "Where both layers return 0, the input is normalised twice.",
            lambda draw: [_block(draw, 1, attends=0.0, thinks=0.0)],
            points=2,
        ),
        Property(
            "tokens",
            "The attention alone: its sum with the input is normalised.",
            lambda draw: [_block(draw, 1, thinks=0.0), _block(draw, 2, thinks=0.0)],
            points=2,
            needs=("norms",),
        ),
        Property(
            "channels",
            "The network alone, with its own norm and its own sum.",
            lambda draw: [_block(draw, 1, attends=0.0), _block(draw, 2, attends=0.0)],
            points=2,
            needs=("norms",),
        ),
        Property(
            "order",
            "Each sum is normalised, and nothing else. The input of the network contains the attention.",
            _whole,
            needs=("tokens", "channels"),
        ),
        Property("mask", "The mask is passed on to the attention: True = may attend.", _masked, points=2, needs=("order",)),
        Property("mask of all", "A mask of two axes holds for every sequence.", _masked_alike, needs=("mask",)),
        has_gradient(_whole, needs=("order",)),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
