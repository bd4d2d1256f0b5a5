"""Exercise 13.5, reordered_token_mixing: what students answer, wrong and right."""

import torch

from course_lib.blocks import reordered_token_mixing
from course_tools.checks.comparisons import right_result
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
        "Three positions and order = (2, 0, 1): the first position of the permuted image is position 2 of the old one. "
        "Which column of W_1 belongs to that position, and where must it be now?"
    ),
    (
        "The columns of W_1 belong to input positions. The rows of W_2 and the entries of b_2 belong to output positions. "
        "The hidden units are independent of positions."
    ),
    (
        "What stood at position order[n] stands at n now, so each axis that counts *input* positions is indexed by "
        "`order`, and each that counts *output* positions too; all other axes stay. Which axes these are, hint 2 "
        "says. Compare both sides of the equation on random numbers."
    ),
)


@wrong.part
def uses_the_inverse(W_1, b_1, W_2, b_2, order):
    """You index by the inverse order, `argsort`. The new position i holds the old position order[i], so it needs the
    weights of order[i]."""
    back = order.argsort()
    return W_1[:, back], b_1, W_2[back], b_2[back]


@wrong.detail
def inverts_only_the_input_side(W_1, b_1, W_2, b_2, order):
    """You index the columns of W_1 by the inverse order. Column i is multiplied by the new position i, which was order[i]:
    use `order` on both sides."""
    return W_1[:, order.argsort()], b_1, W_2[order], b_2[order]


@wrong.detail
def inverts_only_the_output_side(W_1, b_1, W_2, b_2, order):
    """You index W_2 and b_2 by the inverse order. The result should be permuted like the input, so index them by `order`
    too."""
    back = order.argsort()
    return W_1[:, order], b_1, W_2[back], b_2[back]


@wrong.part
def reorders_only_the_input_side(W_1, b_1, W_2, b_2, order):
    """You reorder W_1 alone. The output positions must be permuted too, by W_2 and b_2."""
    return W_1[:, order], b_1, W_2, b_2


@wrong.part
def reorders_only_the_output_side(W_1, b_1, W_2, b_2, order):
    """You reorder W_2 and b_2 alone. The columns of W_1 must be permuted too."""
    return W_1, b_1, W_2[order], b_2[order]


@wrong.detail
def forgets_the_outer_bias(W_1, b_1, W_2, b_2, order):
    """You leave b_2 as it was. It has one entry for each position, and must be permuted too."""
    return W_1[:, order], b_1, W_2[order], b_2


@wrong.detail
def reorders_the_inner_bias(W_1, b_1, W_2, b_2, order):
    """You reorder b_1 too. It belongs to the hidden units, which are not permuted."""
    return W_1[:, order], b_1[order], W_2[order], b_2[order]


@wrong.idea
def reorders_the_hidden_units(W_1, b_1, W_2, b_2, order):
    """You reorder rows of W_1 and columns of W_2, which are the hidden units. That changes nothing; the positions are the
    columns of W_1 and the rows of W_2."""
    return W_1[order], b_1[order], W_2[:, order], b_2


@wrong.idea
def applies_the_order_twice(W_1, b_1, W_2, b_2, order):
    """You apply the order twice. The image was permuted once."""
    twice = order[order]
    return W_1[:, twice], b_1, W_2[twice], b_2[twice]


@wrong.idea
def changes_nothing(W_1, b_1, W_2, b_2, order):
    """You return the old weights. Token mixing has separate weights for every position, so they must be permuted with the
    positions."""
    return W_1, b_1, W_2, b_2


@wrong.idea
def turns_the_places_round(W_1, b_1, W_2, b_2, order):
    """You reverse the positions and never use `order`. Index with it."""
    return W_1.flip(1), b_1, W_2.flip(0), b_2.flip(0)


@wrong.case
def overwrites_the_weights(W_1, b_1, W_2, b_2, order):
    """You write the new weights over the old ones. The caller's weights are lost; return new tensors."""
    with torch.no_grad():
        W_1[:], W_2[:], b_2[:] = W_1[:, order], W_2[order], b_2[order]
    return W_1, b_1, W_2, b_2


@right
def by_permutation_matrix(W_1, b_1, W_2, b_2, order):
    """A matrix with P x = x[order], on the right of W_1 transposed and on the left of what writes."""
    P = torch.eye(len(order), dtype=W_1.dtype)[order]
    return W_1 @ P.mT, b_1.clone(), P @ W_2, P @ b_2


@right
def place_by_place(W_1, b_1, W_2, b_2, order):
    """For each new position, in turn, the weights of the old one."""
    old = order.tolist()
    columns, rows = torch.stack([W_1[:, i] for i in old], 1), torch.stack([W_2[i] for i in old])
    return columns, b_1, rows, torch.stack([b_2[i] for i in old])


@right
def by_selecting(W_1, b_1, W_2, b_2, order):
    """`index_select` where a position is read, `gather` where one is written, in a list."""
    rows = order[:, None].expand(-1, W_2.shape[1])
    return [W_1.index_select(1, order), b_1, W_2.gather(0, rows), b_2.gather(0, order)]


@right
def by_scattering(W_1, b_1, W_2, b_2, order):
    """The other direction: old position j goes to where the inverse order says."""
    to = torch.empty_like(order).scatter(0, order, torch.arange(len(order)))
    new = [torch.zeros_like(w).index_copy(axis, to, w) for w, axis in ((W_1, 1), (W_2, 0), (b_2, 0))]
    return new[0], b_1, new[1], new[2]


@stranger
def order_turned_round(W_1, b_1, W_2, b_2, order):
    return reordered_token_mixing(W_1, b_1, W_2, b_2, order.flip(0))


@stranger
def order_moved_by_one(W_1, b_1, W_2, b_2, order):
    return reordered_token_mixing(W_1, b_1, W_2, b_2, (order + 1) % len(order))


@stranger
def order_of_the_first_two_only(W_1, b_1, W_2, b_2, order):
    order = torch.cat([order[:2].sort().values, order[2:]])
    return reordered_token_mixing(W_1, b_1, W_2, b_2, order)


@stranger
def order_without_gradient(W_1, b_1, W_2, b_2, order):
    return tuple(part.detach() for part in reordered_token_mixing(W_1, b_1, W_2, b_2, order))


@stranger(makes=[uses_the_inverse])
def order_undone_by_a_loop(W_1, b_1, W_2, b_2, order):
    back = torch.tensor([order.tolist().index(i) for i in range(len(order))])
    return W_1[:, back], b_1, W_2[back], b_2[back]


@stranger(makes=[inverts_only_the_input_side, forgets_the_outer_bias])
def order_twice_wrong(W_1, b_1, W_2, b_2, order):
    return W_1[:, order.argsort()], b_1, W_2[order], b_2


def _weights(draw: Draw, N: int, d_s: int, order: torch.Tensor) -> Call:
    return draw.normal(d_s, N), draw.normal(d_s), draw.normal(N, d_s), draw.normal(N), order


def _turned(draw: Draw, N: int) -> torch.Tensor:
    """Draw an order of 3 positions or more, in which each takes the position of the next in a ring: it is not its own
    inverse."""
    ring = draw.uniform(N).argsort()
    return torch.empty_like(ring).scatter(0, ring, ring.roll(1))


def _orders(draw: Draw) -> list[Call]:
    N, d_s = (size + 4 for size in draw.sizes(2))
    return [_weights(draw, N, d_s, _turned(draw, N)), _weights(draw, d_s, N, _turned(draw, d_s))]


def _square(draw: Draw) -> list[Call]:
    """As many hidden units as positions: here one can be taken for the other."""
    return [_weights(draw, 7, 7, _turned(draw, 7)), _weights(draw, 5, 5, _turned(draw, 5))]


exercise = Exercise(
    id="13.5",
    title="Token mixing of permuted patches",
    reference=reordered_token_mixing,
    results=("W_1", "b_1", "W_2", "b_2"),
    properties=(
        runs_on(_orders),
        has_shape("Two matrices and two biases, of their old shapes.", _orders),
        Property(
            "in order",
            "Where nothing is permuted, or there is one position, the weights stay.",
            lambda draw: [_weights(draw, 5, 3, torch.arange(5)), _weights(draw, 1, 3, torch.zeros(1, dtype=torch.long))],
        ),
        Property(
            "input positions", "Each column of W_1 moves to the new index of its position.", _orders, right_result(0), points=2
        ),
        Property(
            "output positions", "Each row of W_2 moves to the new index of its position.", _orders, right_result(2), points=2
        ),
        Property("biases", "b_2 is permuted with the positions, b_1 is not.", _orders, right_result(1, 3), points=2),
        Property(
            "square",
            "The same where there are as many hidden units as positions.",
            _square,
            needs=("input positions", "output positions", "biases"),
        ),
        has_gradient(_orders, needs=("input positions", "output positions", "biases")),
        leaves_inputs(_orders),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Indices carry no gradient.": (
            "detach: W_2[order.detach()]",
            "detach: b_2[order.detach()]",
            "detach: W_1[:, order.detach()]",
        ),
    },
    hints=HINTS,
)
