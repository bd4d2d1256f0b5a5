"""Exercise 05.5, pre_norm_encoder_block: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import multi_head_attention, scaled_dot_product_attention
from course_lib.attention.multihead import merge_heads, split_heads
from course_lib.blocks import feed_forward, pre_norm, pre_norm_encoder_block
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
        "If attention and network both gave 0, what should leave the block? Follow x through the block: is it ever "
        "changed other than by an addition?"
    ),
    (
        "Each half: normalise a copy, apply the layer to the copy, add its output to the original. The second norm acts "
        "on the sum, which contains the output of the attention."
    ),
    (
        "Give queries, keys and values all as `layer_norm(x, *norms[0])`, and add the context to x itself. Then add to "
        "that sum `feed_forward` of its `layer_norm(…, *norms[1])`; nothing follows."
    ),
)


@wrong.idea
def normalises_after_each_sum(x, attention, network, norms, n_heads, mask=None):
    """You normalise the sums, as in the original Transformer. In a pre-norm block the norms come before the layers, and the
    residual sum is never normalised."""
    x = layer_norm(x + multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return layer_norm(x + feed_forward(x, *network), *norms[1])


@wrong.part
def adds_to_the_normalised_input(x, attention, network, norms, n_heads, mask=None):
    """You overwrite x by its normalised form before each layer, and add to that. The residual path is then no longer a
    plain sum: it contains two norms in each block."""
    x = layer_norm(x, *norms[0])
    x = x + multi_head_attention(x, x, x, *attention, n_heads, mask).context
    x = layer_norm(x, *norms[1])
    return x + feed_forward(x, *network)


@wrong.part
def adds_the_attention_to_its_normalised_input(x, attention, network, norms, n_heads, mask=None):
    """Your second half is right, but the first adds the attention's output to the normalised copy of x. It is added to x
    itself; the copy is only what the attention reads."""
    seen = layer_norm(x, *norms[0])
    x = seen + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.part
def adds_the_network_to_its_normalised_input(x, attention, network, norms, n_heads, mask=None):
    """Your first half is right, but the second adds the network's output to the input of the network, the normalised sum.
    It is added to the sum before that norm."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    seen = layer_norm(x, *norms[1])
    return seen + feed_forward(seen, *network)


@wrong.detail
def normalises_only_the_queries(x, attention, network, norms, n_heads, mask=None):
    """You give the attention normalised queries and raw keys and values. All three are the same sequence here, and the norm
    comes before the whole layer."""
    x = x + multi_head_attention(layer_norm(x, *norms[0]), x, x, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.idea
def shows_the_network_the_first_input(x, attention, network, norms, n_heads, mask=None):
    """Your network gets the norm of the block's input, without the attention. Its input is the norm of the sum after the
    attention."""
    seen = layer_norm(x, *norms[0])
    h = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return h + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.detail
def normalises_the_result_too(x, attention, network, norms, n_heads, mask=None):
    """You add one more norm after the last sum. The final norm belongs to the whole stack and has its own weights; inside a
    block there is none."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    x = x + feed_forward(layer_norm(x, *norms[1]), *network)
    return layer_norm(x, *norms[1])


@wrong.detail
def forgets_the_mask(x, attention, network, norms, n_heads, mask=None):
    """You do not pass the mask on to the attention. Every token then attends to the padding."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.detail
def uses_the_first_norm_twice(x, attention, network, norms, n_heads, mask=None):
    """You normalise before both layers by the same gain and bias. Each norm has its own weights, and those of the second
    are never used."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[0]), *network)


@wrong.part
def forgets_the_norm_before_the_network(x, attention, network, norms, n_heads, mask=None):
    """You normalise before the attention only; your network gets the sum as it is. That sum grows from block to block, and
    each half needs its own norm before it."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(x, *network)


@wrong.part
def adds_nothing_to_the_attention(x, attention, network, norms, n_heads, mask=None):
    """You go on with the attention's output alone and never add x to it: the first residual connection is missing."""
    seen = layer_norm(x, *norms[0])
    h = multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return h + feed_forward(layer_norm(h, *norms[1]), *network)


@wrong.part
def normalises_what_each_layer_says(x, attention, network, norms, n_heads, mask=None):
    """You normalise the output of each layer before it is added. The norm is applied to the input of the layer, not to its
    output."""
    x = x + layer_norm(multi_head_attention(x, x, x, *attention, n_heads, mask).context, *norms[0])
    return x + layer_norm(feed_forward(x, *network), *norms[1])


@wrong.part
def adds_the_first_input_twice(x, attention, network, norms, n_heads, mask=None):
    """You add the network's output to the block's own input instead of to the sum so far. The result of the attention then
    reaches the output only through the network."""
    seen = layer_norm(x, *norms[0])
    h = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(h, *norms[1]), *network)


@wrong.part
def adds_nothing_to_the_network(x, attention, network, norms, n_heads, mask=None):
    """You return the output of the network alone. Its input is added to it, as it was before the norm: x + FFN(LN(x))."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.part
def forgets_the_activation(x, attention, network, norms, n_heads, mask=None):
    """Your network has no ReLU between its two layers: without it both are one linear map."""
    W_1, b_1, W_2, b_2 = network
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + (layer_norm(x, *norms[1]) @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong.detail
def inverts_the_mask(x, attention, network, norms, n_heads, mask=None):
    """You invert the mask, as torch's own encoder needs it. In this course True = may attend, so your tokens attend to
    exactly the forbidden positions."""
    return pre_norm_encoder_block(x, attention, network, norms, n_heads, None if mask is None else ~mask)


@wrong.detail
def leaves_the_values_raw(x, attention, network, norms, n_heads, mask=None):
    """You give the attention normalised queries and keys and raw values. All three are the same normalised sequence."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, x, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.detail
def exchanges_the_norms(x, attention, network, norms, n_heads, mask=None):
    """You normalise before the attention by the second norm and before the network by the first. norms[0] belongs to the
    attention."""
    return pre_norm_encoder_block(x, attention, network, norms[::-1], n_heads, mask)


@wrong.part
def forgets_the_norm_before_the_attention(x, attention, network, norms, n_heads, mask=None):
    """You normalise before the network only; your attention gets x as it is, and the first norm is never used."""
    x = x + multi_head_attention(x, x, x, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.idea
def adds_nothing_at_all(x, attention, network, norms, n_heads, mask=None):
    """You leave out both residual connections: the output is that of the network alone. What each layer returns is added to
    what came before."""
    seen = layer_norm(x, *norms[0])
    x = multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.case
def adds_in_place(x, attention, network, norms, n_heads, mask=None):
    """You add with `+=`, into the input itself. The caller's x is changed, and autograd raises an error if it is a leaf."""
    seen = layer_norm(x, *norms[0])
    x += multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.detail
def adds_the_pair_of_results(x, attention, network, norms, n_heads, mask=None):
    """You add all that the attention returns, context and weights. Add its context: `multi_head_attention(…).context`."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask)
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.case
def inserts_the_head_axis_after_the_first_axis(x, attention, network, norms, n_heads, mask=None):
    """You insert the axis of heads after the first axis of the mask. That is right for (B, T, T) only: a mask (T, T) for all
    sequences needs that axis in front, and `multi_head_attention` puts it there."""
    normalised = layer_norm(x, *norms[0])
    W_q, W_k, W_v, W_o = attention
    q, k, v = (split_heads(normalised @ W.mT, n_heads) for W in (W_q, W_k, W_v))
    context, _ = scaled_dot_product_attention(q, k, v, None if mask is None else mask.unsqueeze(1))
    x = x + merge_heads(context) @ W_o.mT
    return x + feed_forward(layer_norm(x, *norms[1]), *network)


@wrong.part
def shows_the_network_the_attentions_input(x, attention, network, norms, n_heads, mask=None):
    """Your network reads the normalised input of the attention a second time. It must read the second norm of the sum, with
    what the attention made of it."""
    y = layer_norm(x, *norms[0])
    return x + multi_head_attention(y, y, y, *attention, n_heads, mask).context + feed_forward(y, *network)


@wrong.part
def normalises_what_the_network_says(x, attention, network, norms, n_heads, mask=None):
    """You apply the second norm to the result of the network. It belongs before the network, as the first belongs before the
    attention."""
    y = layer_norm(x, *norms[0])
    x = x + multi_head_attention(y, y, y, *attention, n_heads, mask).context
    return x + layer_norm(feed_forward(x, *network), *norms[1])


@right
def with_torch_functions(x, attention, network, norms, n_heads, mask=None):
    """torch's layer norm, linear layers and fused attention, and no function of the course."""
    B, T, d_model = x.shape
    W_q, W_k, W_v, W_o = attention
    W_1, b_1, W_2, b_2 = network
    seen = F.layer_norm(x, (d_model,), *norms[0])
    q, k, v = (F.linear(seen, W).view(B, T, n_heads, -1).transpose(1, 2) for W in (W_q, W_k, W_v))
    if mask is not None:
        mask = mask.broadcast_to(B, T, T)[:, None]
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(B, T, -1)
    h = x + F.linear(context, W_o)
    inner = F.relu(F.linear(F.layer_norm(h, (d_model,), *norms[1]), W_1, b_1))
    return torch.add(F.linear(inner, W_2, b_2), h)


@right
def with_the_norms_inside_the_weights(x, attention, network, norms, n_heads, mask=None):
    """Gains multiplied into the columns of the matrices after them, biases turned into biases of the projections; what is
    left of each norm has no weights."""
    (gain_1, bias_1), (gain_2, bias_2) = norms
    W_1, b_1, W_2, b_2 = network
    bare = F.layer_norm(x, x.shape[-1:])
    q, k, v = (bare @ (W * gain_1).mT + W @ bias_1 for W in attention[:3])
    total = x
    pieces = (q.tensor_split(n_heads, -1), k.tensor_split(n_heads, -1), v.tensor_split(n_heads, -1))
    for q_h, k_h, v_h, W_o in zip(*pieces, attention[3].tensor_split(n_heads, -1), strict=True):
        total = total + scaled_dot_product_attention(q_h, k_h, v_h, mask)[0] @ W_o.mT
    bare = F.layer_norm(total, x.shape[-1:])
    return total + feed_forward(bare, W_1 * gain_2, b_1 + W_1 @ bias_2, W_2, b_2)


@right
def by_add_and_norm_in_double_precision(x, attention, network, norms, n_heads, mask=None):
    """Everything in float64, each half a function that the library's `pre_norm` wraps, and cast back at the end."""
    attention, network = ([W.double() for W in weights] for weights in (attention, network))
    first, second = ([w.double() for w in pair] for pair in norms)

    def attend(y):
        return multi_head_attention(y, y, y, *attention, n_heads, mask).context

    h = pre_norm(x.double(), attend, lambda y: layer_norm(y, *first))
    return pre_norm(h, lambda y: feed_forward(y, *network), lambda y: layer_norm(y, *second)).to(x.dtype)


@stranger
def pre_with_half_the_attention(x, attention, network, norms, n_heads, mask=None):
    *others, W_o = attention
    return pre_norm_encoder_block(x, (*others, W_o / 2), network, norms, n_heads, mask)


@stranger
def pre_without_network(x, attention, network, norms, n_heads, mask=None):
    seen = layer_norm(x, *norms[0])
    return x + multi_head_attention(seen, seen, seen, *attention, n_heads, mask).context


@stranger
def pre_with_a_relu_at_the_end(x, attention, network, norms, n_heads, mask=None):
    return pre_norm_encoder_block(x, attention, network, norms, n_heads, mask).relu()


@stranger(makes=[forgets_the_mask, uses_the_first_norm_twice])
def pre_without_mask_and_second_norm(x, attention, network, norms, n_heads, mask=None):
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen, seen, seen, *attention, n_heads).context
    return x + feed_forward(layer_norm(x, *norms[0]), *network)


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
    id="05.5",
    title="An encoder block, pre-norm",
    extra=True,
    reference=pre_norm_encoder_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each vector.", _whole),
        Property(
            "residual",
            "Where both layers return 0, the output equals the input.",
            lambda draw: [_block(draw, 1, attends=0.0, thinks=0.0)],
            points=0,
        ),
        Property(
            "tokens",
            "The attention alone: a normalised input, and the sum as it is.",
            lambda draw: [_block(draw, 1, thinks=0.0), _block(draw, 2, thinks=0.0)],
            points=3,
            needs=("residual",),
        ),
        Property(
            "channels",
            "The network alone, with its own norm and its own sum.",
            lambda draw: [_block(draw, 1, attends=0.0), _block(draw, 2, attends=0.0)],
            points=3,
            needs=("residual",),
        ),
        Property(
            "order",
            "Each half gets a normalised input; the residual sum is not normalised. The input of the network contains the "
            "attention.",
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
    equivalent_mutants={
        ("The sum is a tensor of its own by then, no longer the input, and its backward pass does not need its value."): (
            "in place: return x.add_(feed_forward(layer_norm(x, *norms[1]), *network))",
        ),
    },
    hints=HINTS,
)
