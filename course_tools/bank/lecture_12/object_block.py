"""Exercise 12.9, object_block: a decoder layer of DETR; what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import multi_head_attention
from course_lib.blocks import encoder_block, feed_forward, post_norm
from course_lib.models import object_block
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
        "Which rows does the result have: one for each object query, or one for each cell? So where do the queries, keys and "
        "values of each of the two attentions come from? There is no mask: all queries answer at once."
    ),
    (
        "Three steps of add and norm, as in the decoder of lecture 05: over the queries, over the cells, and the network. "
        "Places are added to what is compared and never to what is mixed: queries and keys have them, values do not."
    ),
    (
        "First attention: queries and keys are `x + queries`, and the values are x. Second: the queries are the new x with "
        "`queries`, the keys `cells + positions`. What is added around each step is the bare x, and the values of the second "
        "are the bare cells."
    ),
)


def _among(x, queries, own, n_heads, norm):
    """The first of the three steps, as it should be."""
    return layer_norm(x + multi_head_attention(x + queries, x + queries, x, *own, n_heads).context, *norm)


def _read(x, queries, cells, positions, cross, n_heads, norm):
    """The second of the three steps, as it should be."""
    return layer_norm(x + multi_head_attention(x + queries, cells + positions, cells, *cross, n_heads).context, *norm)


@wrong.idea
def queries_never_meet(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Your queries do not attend to each other: none can know that another has found the same object. The first step is
    self-attention among the queries."""
    x = _read(layer_norm(x, *norms[0]), queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def never_looks_at_the_image(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Your layer never attends to the cells: without cross-attention the result is the same for every image."""
    x = layer_norm(_among(x, queries, own, n_heads, norms[0]), *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def looks_at_the_image_first(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Your cross-attention comes before the self-attention. In DETR's decoder, as in that of lecture 05, the queries attend to
    each other first."""
    x = _read(x, queries, cells, positions, cross, n_heads, norms[0])
    x = _among(x, queries, own, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def takes_one_norm_for_all(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You use the first pair of `norms` after every step. Each of the three steps has a gain and a bias of its own."""
    x = _read(_among(x, queries, own, n_heads, norms[0]), queries, cells, positions, cross, n_heads, norms[0])
    return layer_norm(x + feed_forward(x, *network), *norms[0])


@wrong.idea
def queries_in_an_order(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Your self-attention has a causal mask. Object queries are a set: they have no order, all answer at once, and each
    attends to all of them."""
    mask = causal_mask(x.shape[1], device=x.device)
    x = layer_norm(x + multi_head_attention(x + queries, x + queries, x, *own, n_heads, mask).context, *norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def reads_the_queries_by_the_cells(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You take the values of the cross-attention from the queries. Only its weights then depend on the image; what is mixed
    has to come from the cells."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x + queries, cells + positions, x, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.idea
def cells_attend_to_the_queries(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """In your cross-attention the queries come from the cells, and the keys from x. Its result has a row for each *cell*; a
    layer of the decoder has one for each object query, so the keys and values come from the cells."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(cells + positions, x + queries, x, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_no_places(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add neither `queries` nor `positions` anywhere. Then queries that start alike stay alike, and a cell does not say
    where it is."""
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, cells, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_the_queries_once(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `queries` to x once, at the beginning, as the Transformer adds positions. In DETR they are added in each
    attention to queries and keys, and never enter the values or the sums."""
    x = x + queries
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x, cells + positions, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def places_in_all_values(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `queries` and `positions` to the values, too. They say *where* to look; what is mixed is x in the first attention
    and the cells in the second, without them."""
    y, z = x + queries, cells + positions
    x = layer_norm(x + multi_head_attention(y, y, y, *own, n_heads).context, *norms[0])
    x = layer_norm(x + multi_head_attention(x + queries, z, z, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def queries_in_the_values(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `queries` to the values of the self-attention. Its queries and keys have them; the values are x."""
    y = x + queries
    x = layer_norm(x + multi_head_attention(y, y, y, *own, n_heads).context, *norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def positions_in_the_values(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `positions` to the values of the cross-attention. Only its keys have them; the values are the cells."""
    x = _among(x, queries, own, n_heads, norms[0])
    z = cells + positions
    x = layer_norm(x + multi_head_attention(x + queries, z, z, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def no_positions_in_the_keys(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You never use `positions`. Without them a query cannot find a cell by its place: add them to the keys of the
    cross-attention."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x + queries, cells, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def no_queries_towards_the_cells(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `queries` in the self-attention alone. They belong to the queries of the cross-attention, too: by them a query
    looks at a place of its own."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = layer_norm(x + multi_head_attention(x, cells + positions, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def no_queries_among_themselves(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add `queries` in the cross-attention alone. In the self-attention they belong to queries and keys: they
    are what tells two queries apart."""
    x = layer_norm(x + multi_head_attention(x, x, x, *own, n_heads).context, *norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def keys_without_queries(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """In your self-attention the queries have `queries`, and the keys do not. A query then cannot find another by its
    vector."""
    x = layer_norm(x + multi_head_attention(x + queries, x, x, *own, n_heads).context, *norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def queries_in_the_sums(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add the result of each attention to `x + queries`. The sum around a step takes the bare x: the queries are added
    to queries and keys, and nowhere else."""
    y = x + queries
    x = layer_norm(y + multi_head_attention(y, y, x, *own, n_heads).context, *norms[0])
    y = x + queries
    x = layer_norm(y + multi_head_attention(y, cells + positions, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.detail
def exchanges_the_attentions_weights(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You use the matrices of `cross` among the queries and those of `own` towards the cells. They have the same sizes, so
    there is no error, but each was learned for the other attention."""
    x = _among(x, queries, cross, n_heads, norms[0])
    x = _read(x, queries, cells, positions, own, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_the_first_input_again(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You add what is read from the cells to the layer's own input. What the queries told each other is then in the questions
    alone; each step adds its result to what it was given."""
    h = _among(x, queries, own, n_heads, norms[0])
    read = multi_head_attention(h + queries, cells + positions, cells, *cross, n_heads).context
    x = layer_norm(x + read, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_nothing_to_what_is_read(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """The sum around the cross-attention is missing. Each of the three steps adds its own input before the norm."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = layer_norm(multi_head_attention(x + queries, cells + positions, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def adds_nothing_to_what_is_told(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """The sum around the self-attention is missing: x is added to its result before the norm."""
    x = layer_norm(multi_head_attention(x + queries, x + queries, x, *own, n_heads).context, *norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def normalises_before_each_step(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You normalise what goes into each step and add its result to the bare sum. That is the pre-norm block of later models;
    here each norm follows its sum."""
    seen = layer_norm(x, *norms[0])
    x = x + multi_head_attention(seen + queries, seen + queries, seen, *own, n_heads).context
    seen = layer_norm(x, *norms[1])
    x = x + multi_head_attention(seen + queries, cells + positions, cells, *cross, n_heads).context
    return x + feed_forward(layer_norm(x, *norms[2]), *network)


@wrong.part
def forgets_the_first_norm(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You normalise after the cross-attention and after the network, but not after the self-attention. There are three steps
    and three norms."""
    x = x + multi_head_attention(x + queries, x + queries, x, *own, n_heads).context
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


@wrong.part
def forgets_the_network(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Your layer ends after the two attentions. The feed-forward network follows, with a sum and a norm of its own."""
    return _read(_among(x, queries, own, n_heads, norms[0]), queries, cells, positions, cross, n_heads, norms[1])


@wrong.part
def adds_nothing_to_the_network(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """You leave out the third sum: what the network returns replaces its input. Each of the three steps adds its input."""
    x = _among(x, queries, own, n_heads, norms[0])
    x = _read(x, queries, cells, positions, cross, n_heads, norms[1])
    return layer_norm(feed_forward(x, *network), *norms[2])


@right
def with_torch_functions(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """torch's linear layers, fused attention and layer norm, and no function of the course."""
    d = x.shape[-1]

    def attended(*inputs_and_weights):
        *inputs, weights = inputs_and_weights
        q, k, v = (
            F.linear(y, W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for y, W in zip(inputs, weights[:3], strict=True)
        )
        return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), weights[3])

    x = F.layer_norm(x + attended(x + queries, x + queries, x, own), (d,), *norms[0])
    x = F.layer_norm(x + attended(x + queries, cells + positions, cells, cross), (d,), *norms[1])
    W_1, b_1, W_2, b_2 = network
    return F.layer_norm(x + F.linear(F.linear(x, W_1, b_1).relu(), W_2, b_2), (d,), *norms[2])


@right
def query_by_query(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """One query at a time: it attends to all of them, then to the cells."""
    all_of_them, keys, found = x + queries, cells + positions, []
    for n in range(len(queries)):
        y = x[:, n : n + 1]
        y = layer_norm(y + multi_head_attention(y + queries[n], all_of_them, x, *own, n_heads).context, *norms[0])
        y = layer_norm(y + multi_head_attention(y + queries[n], keys, cells, *cross, n_heads)[0], *norms[1])
        found.append(layer_norm(y + feed_forward(y, *network), *norms[2]))
    return torch.cat(found, 1)


@right
def by_add_and_norm_in_double_precision(x, queries, cells, positions, own, cross, network, norms, n_heads):
    """Everything in float64: three functions and three norms, wrapped one after the other by the library's `post_norm`."""
    queries, cells, positions = queries.double(), cells.double(), positions.double()
    own, cross, network = ([W.double() for W in weights] for weights in (own, cross, network))
    steps = (
        lambda y: multi_head_attention(y + queries, y + queries, y, *own, n_heads)[0],
        lambda y: multi_head_attention(y + queries, cells + positions, cells, *cross, n_heads)[0],
        lambda y: feed_forward(y, *network),
    )
    y = x.double()
    for step, norm in zip(steps, norms, strict=True):
        y = post_norm(y, step, lambda z, pair=norm: layer_norm(z, *(w.double() for w in pair)))
    return y.to(x.dtype)


@stranger
def encoder_over_queries_and_cells(x, queries, cells, positions, own, cross, network, norms, n_heads):
    together = torch.cat([x + queries, cells + positions], 1)
    return encoder_block(together, own, network, norms[::2], n_heads)[:, : x.shape[1]]


@stranger
def layer_of_half_the_cells(x, queries, cells, positions, own, cross, network, norms, n_heads):
    half = cells.shape[1] // 2
    return object_block(x, queries, cells[:, :half], positions[:half], own, cross, network, norms, n_heads)


@stranger
def layer_with_the_norms_turned_round(x, queries, cells, positions, own, cross, network, norms, n_heads):
    return object_block(x, queries, cells, positions, own, cross, network, norms[::-1], n_heads)


@stranger(makes=[queries_in_an_order, no_positions_in_the_keys])
def layer_in_order_and_without_positions(x, queries, cells, positions, own, cross, network, norms, n_heads):
    mask = causal_mask(x.shape[1], device=x.device)
    y = layer_norm(x + multi_head_attention(x + queries, x + queries, x, *own, n_heads, mask).context, *norms[0])
    z = layer_norm(y + multi_head_attention(y + queries, cells, cells, *cross, n_heads).context, *norms[1])
    return layer_norm(z + feed_forward(z, *network), *norms[2])


def _pair(draw: Draw, d: int) -> tuple[Tensor, Tensor]:
    return 1.0 + 0.5 * draw.normal(d), draw.normal(d)


def _four(draw: Draw, d: int, loud: float) -> tuple[Tensor, ...]:
    return (*(draw.normal(d, d, scale=d**-0.5) for _ in range(3)), draw.normal(d, d, scale=loud))


def _layer(draw: Draw, B: int, own: float = 0.5, cross: float = 0.5, thinks: float = 0.5) -> Call:
    """A layer of random weights; the three numbers say how large each part is, 0 = silent."""
    N, L, d_head, d_ff = draw.sizes(4)
    d = 3 * d_head
    network = draw.normal(d_ff, d, scale=0.5), draw.normal(d_ff), draw.normal(d, d_ff, scale=thinks), thinks * draw.normal(d)
    norms = _pair(draw, d), _pair(draw, d), _pair(draw, d)
    x, cells = 0.5 + draw.normal(B, N, d), 0.5 + draw.normal(B, L, d)
    places = draw.normal(N, d), draw.normal(L, d)
    return x, places[0], cells, places[1], _four(draw, d, own), _four(draw, d, cross), network, norms, 3


def _whole(draw: Draw) -> list[Call]:
    return [_layer(draw, 2), _layer(draw, 1)]


def _parts(*loud: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_layer(draw, 1, *loud), _layer(draw, 2, *loud)]


def _bare(draw: Draw, *loud: float) -> list[Call]:
    """Without queries and positions, once for one image and once for two."""
    calls = [_layer(draw, B, *loud) for B in (1, 2)]
    return [(x, 0 * queries, cells, 0 * positions, *rest) for x, queries, cells, positions, *rest in calls]


def _read_cells(draw: Draw) -> list[Call]:
    """Cells of another number than the queries, and as many, so that no wrong source shows by its shape."""
    first, (x, queries, _, _, *rest) = _bare(draw, 0.0, 0.5, 0.0)
    return [first, (x, queries, draw.normal(*x.shape), 0 * queries, *rest)]


exercise = Exercise(
    id="12.9",
    title="A decoder layer of DETR",
    reference=object_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each query.", _whole),
        Property("norms", "Where all three steps return 0, the input is normalised three times.", _parts(0.0, 0.0, 0.0)),
        Property(
            "own", "Each query attends to all queries.", lambda draw: _bare(draw, 0.5, 0.0, 0.0), points=2, needs=("norms",)
        ),
        Property("cells", "Each query attends to the cells.", _read_cells, points=2, needs=("norms",)),
        Property("network", "The network comes last, with its own norm.", _parts(0.0, 0.0, 0.5), needs=("norms",)),
        Property(
            "order", "Queries, then cells, then the network.", lambda draw: _bare(draw), needs=("own", "cells", "network")
        ),
        Property(
            "queries", "Among the queries, `queries` is added to queries and keys.", _parts(0.5, 0.0, 0.0), needs=("own",)
        ),
        Property(
            "positions", "`queries` is added to the queries, `positions` to the keys.", _parts(0.0, 0.5, 0.0), needs=("cells",)
        ),
        has_gradient(_whole, needs=("queries", "positions", "order")),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The sum after the first norm is the function's own, and is not read again.": (
            "in place: layer_norm(x.add_(read), *norms[1])",
        ),
    },
    hints=HINTS,
)
