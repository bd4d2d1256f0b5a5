"""Exercise 04.4, split_heads: what students answer, wrong and right."""

import torch
from einops import rearrange

from course_lib.attention import split_heads
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
        "Nothing is computed here: every number only gets a new index. Take T = 2, n_heads = 2 and d = 3, write the "
        "features of each position as 0 … 5, and decide which of them belong to head 0, and which to head 1."
    ),
    (
        "Two steps: first cut the *last* axis, and only that one, into heads and features of a head; then exchange two "
        "neighbouring axes. One reshape straight to the final shape would cut across positions."
    ),
    (
        "In einops the feature axis is `(h d)`, the slow index first, and n_heads tells the size of `h`; on the right the "
        "axis `h` comes before `T`. By hand: `unflatten` the last axis into two, then `transpose` axes counted from the "
        "back, for there may be any number of batch axes."
    ),
)


@wrong.part
def views_instead_of_transposing(x, n_heads):
    """You reshape straight to (n_heads, T, d). The numbers keep their order in memory, so your first head gets all the
    features of the first positions instead of its own features of every position."""
    return x.reshape(*x.shape[:-2], n_heads, x.shape[-2], x.shape[-1] // n_heads)


@wrong.part
def transposes_before_cutting(x, n_heads):
    """You exchange positions and features before you reshape. Each head gets the right numbers, but inside a head the
    features of one position are no longer adjacent."""
    return x.mT.reshape(*x.shape[:-2], n_heads, x.shape[-2], x.shape[-1] // n_heads)


@wrong.detail
def takes_every_nth_feature(x, n_heads):
    """Your head i gets the features i, i + n_heads, i + 2·n_heads, …. The features of a head are contiguous: a block of d
    neighbours."""
    return rearrange(x, "... T (d h) -> ... h T d", h=n_heads)


@wrong.part
def takes_n_heads_for_the_size_of_a_head(x, n_heads):
    """You made heads of n_heads features each. `n_heads` is the number of heads, and their size follows from it."""
    return rearrange(x, "... T (h d) -> ... h T d", d=n_heads)


@wrong.detail
def leaves_the_heads_after_the_positions(x, n_heads):
    """You cut the features but left the axes as (T, n_heads, d). The products of attention run over the last two axes,
    so yours would compare heads with each other at one position, instead of positions."""
    return x.unflatten(-1, (n_heads, -1))


@wrong.detail
def puts_the_features_before_the_positions(x, n_heads):
    """Your heads are (d, T): positions and features of each head are exchanged. Attention expects (T, d), positions first."""
    return rearrange(x, "... T (h d) -> ... h d T", h=n_heads)


@wrong.detail
def puts_the_heads_before_the_batch(x, n_heads):
    """Your head axis comes before the batch. It belongs between batch and positions, or masks and batch axes are broadcast
    against the wrong axis."""
    return torch.stack(x.chunk(n_heads, -1))


@wrong.detail
def folds_the_heads_into_the_batch(x, n_heads):
    """You merged the heads with the last batch axis. The heads keep an axis of their own here: the batch axes pass
    through unchanged."""
    heads = rearrange(x, "... T (h d) -> ... h T d", h=n_heads)
    return heads.flatten(-4, -3) if heads.dim() > 3 else heads


@wrong.part
def deals_the_heads_to_other_sequences(x, n_heads):
    """You order the heads before the batch, and then reshape as if each sequence's heads were adjacent: a sequence gets
    heads that belong to others."""
    folded = torch.stack(x.chunk(n_heads, -1))
    return folded.reshape(*x.shape[:-2], n_heads, x.shape[-2], x.shape[-1] // n_heads)


@wrong.case
def counts_the_axes_from_the_front(x, n_heads):
    """You exchange axes 1 and 2. These are positions and heads only if there is exactly one batch axis; there may be
    none, or several."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


@wrong.idea
def gives_every_head_all_features(x, n_heads):
    """You copied all features to each head. The features are divided among the heads: each gets its own part, n_heads times
    smaller."""
    return torch.stack([x] * n_heads, -3)


@wrong.detail
def gives_no_number_of_heads(x, n_heads):
    """You do not tell `rearrange` the size of h. It cuts `(h d)` only if it knows one of the two: h=n_heads."""
    return rearrange(x, "... T (h d) -> ... h T d")


@wrong.detail
def divides_to_a_float(x, n_heads):
    """You compute the size of a head by `/`, which gives a floating-point number even where nothing is left over. A size is
    an integer: `//`."""
    d = x.shape[-1] / n_heads
    return x.unflatten(-1, (n_heads, d)).transpose(-2, -3)


@wrong.detail
def exchanges_heads_and_features(x, n_heads):
    """You exchange the last two axes after you have cut the features: these are the heads and the features of a head. It is
    positions and heads that change places: transpose(-3, -2)."""
    return x.unflatten(-1, (n_heads, -1)).transpose(-1, -2)


@wrong.case
def stacks_the_heads_on_axis_one(x, n_heads):
    """You put the heads on axis 1. That is just before the positions only if there is exactly one batch axis; there may be
    none, or several: stack on axis -3."""
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@right
def with_unflatten(x, n_heads):
    """The last axis unflattened, then two axes exchanged, counted from the back."""
    return x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(-3, -2)


@right
def stacks_slices(x, n_heads):
    """A loop that cuts out the features of each head, and a stack on a new axis."""
    d = x.shape[-1] // n_heads
    return torch.stack([x[..., i * d : (i + 1) * d] for i in range(n_heads)], dim=-3)


@right
def reshapes_a_flat_batch(x, n_heads):
    """All batch axes as one, then view and permute as most public implementations write it, and the batch back."""
    *batch, T, features = x.shape
    heads = x.reshape(-1, T, n_heads, features // n_heads).permute(0, 2, 1, 3).contiguous()
    return heads.view(*batch, n_heads, T, features // n_heads)


@right
def looks_the_features_up(x, n_heads):
    """A table that says which features each head owns, as an index into the last axis."""
    owned = torch.arange(x.shape[-1], device=x.device).view(n_heads, -1)
    return x[..., owned].movedim(-2, -3)


@stranger
def heads_in_reverse(x, n_heads):
    return split_heads(x, n_heads).flip(-3)


@stranger
def heads_without_an_axis_when_there_is_one(x, n_heads):
    return x if n_heads == 1 else split_heads(x, n_heads)


@stranger
def heads_cut_from_the_graph(x, n_heads):
    return torch.tensor(split_heads(x, n_heads).tolist())


@stranger
def heads_of_the_first_axis_only(x, n_heads):
    B, T = x.shape[0], x.shape[-2]
    return x.reshape(B, T, n_heads, -1).transpose(1, 2)


@stranger(makes=[views_instead_of_transposing])
def heads_by_one_view(x, n_heads):
    *batch, T, features = x.shape
    return x.view(*batch, n_heads, T, features // n_heads)


@stranger(makes=[takes_every_nth_feature, leaves_the_heads_after_the_positions])
def heads_with_two_mistakes(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).mT


def _features(draw: Draw, *batch: int, n_heads: int | None = None) -> Call:
    T, heads, d = draw.sizes(3)
    n_heads = heads if n_heads is None else n_heads
    return draw.normal(*batch, T, n_heads * d), n_heads


def _as_many_heads_as_tokens(draw: Draw) -> Call:
    """T = n_heads, where a mere reshape has the right shape and the wrong numbers."""
    n, d = draw.sizes(2)
    return draw.normal(2, n, n * d), n


exercise = Exercise(
    id="04.4",
    title="Split the features into heads",
    reference=split_heads,
    properties=(
        runs_on(lambda draw: [_features(draw, 2)]),
        has_shape("The heads come before the positions.", lambda draw: [_features(draw, 2)]),
        Property("one head", "One head keeps all features.", lambda draw: [_features(draw, 2, n_heads=1)]),
        Property(
            "heads",
            "Head i holds its own neighbouring features of every position.",
            lambda draw: [_features(draw, 1), _as_many_heads_as_tokens(draw)],
            points=2,
        ),
        Property(
            "batch",
            "Any number of batch axes may come before the positions.",
            lambda draw: [_features(draw, 3), _features(draw), _features(draw, 2, 3)],
            needs=("heads",),
        ),
        has_gradient(lambda draw: [_features(draw, 2)], needs=("heads",)),
        leaves_inputs(lambda draw: [_features(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
