"""Exercise 11.3, rollout: what students answer, wrong and right."""

from functools import reduce

import torch

from course_lib.analysis import rollout
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
        "Two layers, two tokens, one head. Output 1 attends to token 2 of the first layer, and that attended to input 1: "
        "which two numbers must you multiply, and where do the residual connections enter?"
    ),
    (
        "Average the heads of each layer, then make A = ½ W + ½ I, whose rows still sum to 1. Begin with the identity; "
        "each layer, from the first to the last, is multiplied from the left."
    ),
    (
        "Start with the identity, of the weights' type and size. For each layer, from the first on: average its heads, "
        "add the identity and halve, and multiply from the *left* to what has been drawn so far."
    ),
)


def _identity(weights):
    """I for every member of the batch."""
    T = weights.shape[-1]
    return torch.eye(T, dtype=weights.dtype).expand(*weights.shape[1:-3], T, T)


def _rolled(weights, layers):
    """The product of the layers, the last one on the left."""
    return reduce(lambda drawn, layer: layer @ drawn, layers, _identity(weights))


def _with_residual(layers, weights):
    return (layers + torch.eye(weights.shape[-1], dtype=weights.dtype)) / 2


@wrong.detail
def multiplies_from_the_right(weights):
    """You multiply each new layer from the right. Your product has the layers in reverse order: a later layer is the left
    factor."""
    return reduce(torch.matmul, _with_residual(weights.mean(-3), weights), _identity(weights))


@wrong.part
def forgets_the_residual(weights):
    """You multiply the attention alone. The residual connection adds ½ I in every layer."""
    return _rolled(weights, weights.mean(-3))


@wrong.detail
def adds_the_residual_in_full(weights):
    """You add I and do not halve. Your rows sum to 2 after one layer and to 2^L after L: they must sum to 1."""
    return _rolled(weights, 2 * _with_residual(weights.mean(-3), weights))


@wrong.detail
def halves_only_the_residual(weights):
    """You add ½ I to the whole attention. Attention and residual have weight ½ each: ½ W + ½ I has rows that sum to 1."""
    return _rolled(weights, weights.mean(-3) + torch.eye(weights.shape[-1], dtype=weights.dtype) / 2)


@wrong.part
def takes_the_residual_once(weights):
    """You multiply the attention of all layers and mix in I at the end. Each layer has its own residual connection."""
    return _with_residual(_rolled(weights, weights.mean(-3)), weights)


@wrong.detail
def adds_up_the_heads(weights):
    """You sum over the heads. Each head's row sums to 1, so h of them sum to h; the rollout takes their mean."""
    return _rolled(weights, _with_residual(weights.sum(-3), weights))


@wrong.part
def believes_the_strongest_head(weights):
    """You take the largest weight over the heads, as some published code does. Such rows sum to more than 1; the equation here
    takes the mean of the heads."""
    return _rolled(weights, _with_residual(weights.amax(-3), weights))


@wrong.detail
def follows_each_head_alone(weights):
    """You roll out each head separately and average at the end. The heads are averaged in each layer, before the product."""
    layers = _with_residual(weights, weights)
    start = torch.eye(weights.shape[-1], dtype=weights.dtype).expand(weights.shape[1:])
    return reduce(lambda drawn, layer: layer @ drawn, layers, start).mean(-3)


@wrong.idea
def looks_at_the_last_layer(weights):
    """You take the last layer alone. Its inputs are mixtures already: multiply the matrices of all layers."""
    return _rolled(weights, _with_residual(weights.mean(-3), weights)[-1:])


@wrong.idea
def averages_the_layers(weights):
    """You take the mean of all layers. Layers are applied one after the other: a path through two layers is a product."""
    layers = _with_residual(weights.mean(-3), weights)
    return layers.mean(0) if len(layers) else _identity(weights)


@wrong.idea
def multiplies_entry_by_entry(weights):
    """You multiply the layers entry by entry. A path may go through any token in between, and the matrix product sums over
    all of them."""
    return _with_residual(weights.mean(-3), weights).prod(0)


@wrong.detail
def turns_the_result(weights):
    """You return the transpose. Row i must hold the weights of output i over the inputs."""
    return _rolled(weights, _with_residual(weights.mean(-3), weights)).mT


@wrong.case
def expects_a_batch_where_no_layer_is(weights):
    """Without layers, you give the identity one axis of a batch. The weights have as many batch axes as they have, possibly
    none: they are the axes between the layers and the heads."""
    if len(weights) == 0:
        return torch.eye(weights.shape[-1]).expand(weights.shape[1], -1, -1)
    return rollout(weights)


@wrong.case
def starts_from_the_first_layer(weights):
    """You start from the first layer, and without layers there is none. Start from the identity."""
    layers = _with_residual(weights.mean(-3), weights)
    return reduce(lambda drawn, layer: layer @ drawn, layers[1:], layers[0])


@right
def from_the_top(weights):
    """From the last layer down to the first, the residual path as a sum."""
    drawn = _identity(weights)
    for layer in reversed(weights.mean(dim=-3).unbind(0)):
        drawn = 0.5 * drawn @ layer + 0.5 * drawn
    return drawn


@right
def by_marked_inputs(weights):
    """Every input is marked, and the marks go through the layers as vectors do: x ← ½ (mean of the heads' W x + x)."""
    marks = list(_identity(weights).unbind(-1))
    for layer in weights:
        marks = [(torch.einsum("...hij,...j->...hi", layer, x).mean(-2) + x) / 2 for x in marks]
    return torch.stack(marks, dim=-1)


@right
def example_by_example(weights):
    """A loop over the batch, in which torch multiplies each chain in the order that it likes best."""
    n_layers, T = len(weights), weights.shape[-1]
    one = torch.eye(T, dtype=weights.dtype)
    if n_layers == 0:
        return one.repeat(*weights.shape[1:-3], 1, 1)
    flat = weights.reshape(n_layers, -1, *weights.shape[-3:]).sum(2) / weights.shape[-3]
    chains = [[one, *(0.5 * (layer + one) for layer in flat[:, i].flip(0))] for i in range(flat.shape[1])]
    return torch.stack([torch.linalg.multi_dot(chain) for chain in chains]).reshape(*weights.shape[1:-3], T, T)


@right
def over_all_subsets(weights):
    """All 2^L ways, each through some of the layers and past the others, averaged."""
    ways = [_identity(weights)]
    for layer in weights.mean(-3):
        ways += [layer @ way for way in ways]
    return torch.stack(ways).mean(0)


@stranger
def flow_of_the_first_head(weights):
    return rollout(weights[..., :1, :, :])


@stranger
def flow_back_to_the_second_layer(weights):
    return rollout(weights[1:])


@stranger
def flow_of_a_weaker_residual(weights):
    eye = torch.eye(weights.shape[-1])
    drawn = eye.expand(*weights.shape[1:-3], *eye.shape)
    for layer in weights.mean(-3):
        drawn = (0.9 * layer + 0.1 * eye) @ drawn
    return drawn


@stranger(makes=[multiplies_from_the_right])
def flow_from_the_other_end(weights):
    return rollout(weights.flip(0))


@stranger(makes=[forgets_the_residual, adds_up_the_heads])
def flow_without_residual_of_added_heads(weights):
    drawn = torch.eye(weights.shape[-1]).expand(*weights.shape[1:-3], *weights.shape[-2:])
    for layer in weights.sum(-3):
        drawn = layer @ drawn
    return drawn


def _stack(draw: Draw, n_layers: int, *batch: int, h: int = 3) -> Call:
    T = draw.sizes(1)[0] + 2
    return (draw.normal(n_layers, *batch, h, T, T, scale=2.0).softmax(-1),)


def _stacks(draw: Draw) -> list[Call]:
    return [_stack(draw, 4, 2), _stack(draw, 3)]


exercise = Exercise(
    id="11.3",
    title="Rollout",
    extra=True,
    reference=rollout,
    properties=(
        runs_on(_stacks),
        has_shape("A weight of every input for every output: (*batch, T, T).", _stacks),
        Property(
            "one head",
            "One layer of one head: half attention, half identity.",
            lambda draw: [_stack(draw, 1, 2, h=1)],
            points=2,
        ),
        Property("heads", "The heads of a layer are averaged.", lambda draw: [_stack(draw, 1, 2)], needs=("one head",)),
        Property(
            "layers",
            "The matrices of the layers are multiplied.",
            lambda draw: [_stack(draw, 3, 2, h=1)],
            points=2,
            needs=("one head",),
        ),
        Property(
            "all",
            "Several layers of several heads, in any batch.",
            lambda draw: [*_stacks(draw), _stack(draw, 2, 2, 3)],
            needs=("heads", "layers"),
        ),
        Property("none", "Without layers, the result is the identity.", lambda draw: [_stack(draw, 0, 2), _stack(draw, 0)]),
        has_gradient(lambda draw: [_stack(draw, 3, 2)], needs=("all",)),
        leaves_inputs(_stacks),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        ("Only a size, a kind or a device is read from the detached tensor, I carries no gradient, and the map is square."): (
            "detach: weights.detach().shape",
            "constant: weights.shape[-2]",
            "detach: residual.detach().expand",
            "detach: weights.detach().dtype",
            "detach: weights.detach().device",
            "detach: weights.detach().shape (2)",
            "detach: layer + residual.detach()",
        ),
        "The checks draw float32 on the CPU, which is what torch.eye makes by itself.": (
            "drop keyword: residual = torch.eye(T, device=weights.device)",
            "drop keyword: residual = torch.eye(T, dtype=weights.dtype)",
        ),
    },
    hints=HINTS,
)
