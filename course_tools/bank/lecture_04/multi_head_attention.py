"""Exercise 04.5, multi_head_attention: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange

from course_lib.attention import multi_head_attention
from course_lib.attention.core import Attended, attend
from course_lib.attention.dot_product import scaled_dot_product_attention
from course_lib.attention.multihead import mask_per_head, merge_heads, split_heads
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
    "Project, split into heads, attend, merge, project: write down the shape after each step before you write the step.",
    (
        "The matrices are stored (out, in), as `nn.Linear` stores them, and those of all heads are stacked row-wise, so "
        "one product projects for every head at once. The heads become one more batch axis; what does a mask (*batch, "
        "T_q, T_k) lack against scores (*batch, n_heads, T_q, T_k)?"
    ),
    (
        "`split_heads` the three projected inputs; attend with a mask that got an axis of size 1 before its last two; "
        "`merge_heads` the context and project it by W_o; the weights go back as they came, one matrix for each head."
    ),
)


@wrong.detail
def swaps_the_matrices_of_queries_and_keys(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You project the queries by W_k and the keys by W_q: in self-attention, that transposes every score."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_k), (keys, W_q), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def makes_the_keys_of_the_queries(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You project `queries` by W_k, too. In self-attention that is the same; else the keys come from the other sequence:
    `keys @ W_k.mT`."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (queries, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def does_not_transpose_the_matrices(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You multiply by the matrices as they are stored, (out, in). A product from the right needs them as (in, out); with
    square matrices there is no error, and every projection is wrong."""
    q, k, v = (split_heads(x @ W, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o, weights


@wrong.part
def forgets_the_output_projection(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You stop after laying the heads side by side and never use W_o. Without it the heads are not mixed, and the result
    need not have the size d_model."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context), weights


@wrong.part
def merges_without_transposing(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You reshape (n_heads, T_q, d_v) straight to (T_q, n_heads · d_v). The numbers keep their order in memory, so a
    row of yours holds several positions of one head instead of all heads of one position."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return context.reshape(*queries.shape[:-1], -1) @ W_o.mT, weights


@wrong.idea
def views_instead_of_splitting(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You reshape the projections straight to (n_heads, T, d). That cuts the sequence into pieces: a head of yours gets all
    the features of some positions instead of its own features of every position."""
    projected = (queries @ W_q.mT, keys @ W_k.mT, values @ W_v.mT)
    q, k, v = (x.reshape(*x.shape[:-2], n_heads, x.shape[-2], -1) for x in projected)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.idea
def lets_all_heads_share_one_projection(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """Every head of yours projects by the rows of the first one. Each head has its own rows in W_q, W_k and W_v."""
    firsts = (x @ W[: W.shape[0] // n_heads].mT for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    q, k, v = (torch.stack([first] * n_heads, -3) for first in firsts)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def scales_by_d_model(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You scale the scores by √d_model. Each dot product runs over the features of one head only, so the scale is that
    of a head's keys, whatever the size of the model."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = attend(q @ k.mT / math.sqrt(W_o.shape[0]), v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.part
def does_not_give_the_mask_to_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You do not pass the mask on to the heads: every query attends to every key, the forbidden ones included."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def inverts_the_mask(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You invert the mask, as `torch.nn.MultiheadAttention` needs it. In this course True = may attend: in every head, your
    queries attend to exactly the forbidden keys."""
    allowed = None if mask is None else ~mask
    return multi_head_attention(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, allowed)


@wrong.detail
def forgets_the_head_axis_of_the_mask(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You give the mask (B, T_q, T_k) as it is to scores (B, n_heads, T_q, T_k): its batch axis is broadcast against the
    heads. Usually that fails; where B = n_heads it runs, and head b gets the mask of sequence b."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def inserts_the_head_axis_after_the_first_axis(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You insert the axis of heads after the first axis of the mask. That is right for (B, T_q, T_k) only: the axis belongs
    before the last two, also in a mask (T_q, T_k) and in one with two batch axes."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, None if mask is None else mask.unsqueeze(1))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def takes_two_batch_axes_for_batch_and_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You give a mask of four axes as it is to the scores, as if it had an axis of heads. With two batch axes, the mask of
    each sequence, (B_1, B_2, T_q, T_k), lacks that axis, too."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    return merge_heads(context) @ W_o.mT, weights


@wrong.part
def deals_the_heads_to_other_sequences(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You attend with the heads in front of the batch, and then reshape the result as if each sequence's heads were
    adjacent: a sequence gets the contexts and weights of others."""
    inputs = ((queries, W_q), (keys, W_k), (values, W_v))
    attended = scaled_dot_product_attention(*(torch.stack((x @ W.mT).chunk(n_heads, -1)) for x, W in inputs), mask)
    context, weights = (x.reshape(*queries.shape[:-2], n_heads, *x.shape[-2:]) for x in attended)
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def averages_the_weights_over_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You give back the mean of the weights over the heads, as torch's module does by default. Here every head's weights
    are asked for: heads attend to different keys, and the mean hides it."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights.mean(-3)


@wrong.detail
def forgets_the_scale(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You do not divide the scores by √d_k, where d_k is the number of features of one head."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = attend(q @ k.mT, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.case
def returns_the_weights_first(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """Both of your results are right, but you return the weights first. The order is (context, weights)."""
    context, weights = multi_head_attention(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask)
    return weights, context


@wrong.detail
def multiplies_the_output_by_the_stored_matrix(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You write @ W_o. W_o is stored as the other projections are, with a row for each feature that it makes and a column for
    each row of W_v: @ W_o.mT."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask if mask is None else mask.unsqueeze(-3))
    return context.transpose(-3, -2).flatten(-2) @ W_o, weights


@wrong.part
def joins_positions_and_not_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You flatten the last two axes of (n_heads, T, d_v), which are positions and features. Bring the heads next to their
    features first: transpose(-3, -2), then flatten(-2)."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask if mask is None else mask.unsqueeze(-3))
    return context.flatten(-2) @ W_o.mT, weights


@wrong.case
def adds_an_axis_to_every_mask(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You add an axis of heads to every mask, also to one that has it: with (*batch, n_heads, T_q, T_k) your scores get one
    axis too many. Add it only if the mask has no more axes than the queries."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask if mask is None else mask.unsqueeze(-3))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def deals_the_features_out_in_turn(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You reshape to (T, d, n_heads): head i gets the features i, i + n_heads, i + 2 · n_heads, …, and they return to the same
    places. The features of a head are neighbours, and so are the columns of W_o for it: (T, n_heads, d)."""
    pairs = ((queries, W_q), (keys, W_k), (values, W_v))
    q, k, v = ((x @ W.mT).unflatten(-1, (-1, n_heads)).movedim(-1, -3) for x, W in pairs)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return context.movedim(-3, -1).flatten(-2) @ W_o.mT, weights


@wrong.detail
def splits_in_turn_and_merges_in_blocks(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """Your head i gets the features i, i + n_heads, i + 2 · n_heads, …, where those of a head are neighbours. You then merge
    the heads as blocks, so the features do not even return to their places."""
    pairs = ((queries, W_q), (keys, W_k), (values, W_v))
    q, k, v = ((x @ W.mT).unflatten(-1, (-1, n_heads)).movedim(-1, -3) for x, W in pairs)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.part
def makes_the_values_of_the_keys(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You project the keys by W_v and never use the values. Keys decide where to look, values what is read there; only in
    self-attention are they the same sequence."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (keys, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def scales_by_the_size_of_the_values(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You divide the scores by √d_v. A score is a dot product of a query and a key of one head: its scale is √d_k."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = attend(q @ k.mT / math.sqrt(v.shape[-1]), v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.idea
def attends_once_for_all_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You attend once, with all features together, and give every head the same weights. Each head has its own scores, from
    its own features."""
    q, k, v = (split_heads(x @ W.mT, 1) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights.expand(*weights.shape[:-3], n_heads, -1, -1)


@wrong.detail
def cuts_the_values_as_the_queries(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You cut W_v into blocks of the size of those of W_q. A head has d_k rows of W_q and W_k, and d_v of W_v, which is another
    size: `W_v.shape[0] // n_heads`."""
    d, found = W_q.shape[0] // n_heads, []
    for i in range(n_heads):
        q, k, v = (x @ W[i * d : (i + 1) * d].mT for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
        allowed = mask_per_head(mask, queries.shape)
        allowed = None if allowed is None else allowed[..., i if allowed.shape[-3] > 1 else 0, :, :]
        found.append(scaled_dot_product_attention(q, k, v, allowed))
    context, weights = (torch.stack(parts, -3) for parts in zip(*found, strict=True))
    return merge_heads(context) @ W_o.mT, weights


@wrong.case
def stacks_keys_and_values(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You stack keys and values in one tensor to project them together. They have as many positions, but d_in_k and d_in_v may
    differ: project each by its own matrix."""
    keys, values = torch.stack([keys, values])
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.case
def wants_two_axes_of_every_mask(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You insert an axis of heads before the last two axes of every mask without one. A mask (T_k,) has only one axis: it
    broadcasts as it is."""
    if mask is not None and mask.dim() <= queries.dim():
        mask = mask.unsqueeze(-3)
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(context) @ W_o.mT, weights


@wrong.part
def splits_before_it_projects(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You split the inputs into heads and project afterwards. A row of W_q takes all d_in features, and the rows belong to
    the heads: project first, then split what comes out."""
    q, k, v = (split_heads(x, n_heads) @ W.mT for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.part
def splits_queries_that_are_not_projected(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You split the queries as they come in and never use W_q. Queries are projected as keys and values are: queries @
    W_q.mT."""
    q, k, v = (split_heads(x, n_heads) for x in (queries, keys @ W_k.mT, values @ W_v.mT))
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.idea
def attends_with_one_head(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You attend once, with all features together: n_heads is not used. Each head has its own scores from its own features:
    split the projections into heads first."""
    context, weights = scaled_dot_product_attention(queries @ W_q.mT, keys @ W_k.mT, values @ W_v.mT, mask)
    return context @ W_o.mT, weights


@wrong.detail
def scales_a_second_time(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You divide by a root, and the function of attention divides by √d_k once more. Your scores are too small and your
    weights too even: leave the scale to it."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    q = q / math.sqrt(W_q.shape[0])
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask, queries.shape))
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def indexes_a_mask_that_may_be_none(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You insert the axis of heads without asking whether there is a mask: it may be None. `mask_per_head` treats None too,
    and puts the axis before the last two."""
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v, mask[:, None])
    return merge_heads(context) @ W_o.mT, weights


@wrong.detail
def merges_feature_by_feature(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You join the heads feature by feature, the first of each, then the second. They are concatenated: all features of head 1,
    then all of head 2."""
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    return rearrange(context, "... h t d -> ... t (d h)") @ W_o.mT, weights


@wrong.part
def scales_by_the_features_of_all_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """You scale by the root of n_heads · d_k, the width of all heads together. A dot product runs over the d_k features of one
    head: your scores are too small, and your weights too even."""
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q / n_heads**0.5, k, v, mask_per_head(mask))
    return merge_heads(context) @ W_o.mT, weights


@right
def with_matrices_per_head(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """The matrices cut into heads instead of the projections, and every product an einsum with words."""
    pairs = ((queries, W_q), (keys, W_k), (values, W_v))
    q, k, v = (einsum(x, rearrange(W, "(h d) c -> h d c", h=n_heads), "... t c, h d c -> ... h t d") for x, W in pairs)
    scores = einsum(q, k, "... q d, ... k d -> ... q k") / math.sqrt(q.shape[-1])
    if mask is not None and mask.dim() <= queries.dim():
        mask = torch.atleast_2d(mask)[..., None, :, :]
    context, weights = attend(scores, v, mask)
    return einsum(context, rearrange(W_o, "m (h d) -> m h d", h=n_heads), "... h t d, m h d -> ... t m"), weights


@right
def head_by_head(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """A loop over the heads, each with its own blocks of the matrices; the projected heads are added up."""
    blocks = zip(W_q.chunk(n_heads), W_k.chunk(n_heads), W_v.chunk(n_heads), W_o.chunk(n_heads, 1), strict=True)
    masks = [mask] * n_heads
    if mask is not None and mask.dim() > queries.dim():
        masks = mask.expand(*mask.shape[:-3], n_heads, -1, -1).unbind(-3)
    output, weights = 0, []
    for (Q, K, V, O_), allowed in zip(blocks, masks, strict=True):
        head = scaled_dot_product_attention(queries @ Q.mT, keys @ K.mT, values @ V.mT, allowed)
        output = output + head.context @ O_.mT
        weights.append(head.weights)
    return Attended(output, torch.stack(weights, -3))


@right
def with_linear_and_unflatten(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """F.linear for the projections, unflatten and transpose for the heads, the mask spread out over all of them."""
    pairs = ((queries, W_q), (keys, W_k), (values, W_v))
    q, k, v = (F.linear(x, W).unflatten(-1, (n_heads, -1)).transpose(-3, -2) for x, W in pairs)
    if mask is not None and mask.dim() <= queries.dim():
        mask = mask.expand(*queries.shape[:-1], keys.shape[-2]).unsqueeze(-3).expand(*q.shape[:-1], -1)
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return F.linear(context.transpose(-3, -2).flatten(-2), W_o), weights


@right
def folded_into_the_batch(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    """Heads and batch as one axis, sequence by sequence, with a copy of the mask for each head."""
    *batch, T_q, T_k = *queries.shape[:-1], keys.shape[-2]
    projected = (queries @ W_q.T, keys @ W_k.T, values @ W_v.T)
    q, k, v = (split_heads(x, n_heads).reshape(-1, x.shape[-2], x.shape[-1] // n_heads) for x in projected)
    if mask is not None:
        mask = mask if mask.dim() > queries.dim() else torch.atleast_2d(mask).unsqueeze(-3)
        mask = mask.expand(*batch, n_heads, T_q, T_k).reshape(-1, T_q, T_k)
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    context, weights = (x.view(*batch, n_heads, T_q, -1) for x in (context, weights))
    return Attended(merge_heads(context) @ W_o.T, weights)


def _project(queries, keys, values, W_q, W_k, W_v, n_heads):
    return (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))


@stranger
def multihead_gives_the_mask_to_the_first_head(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    if mask is not None:
        first = torch.arange(n_heads)[:, None, None] == 0
        mask = mask_per_head(mask) | ~first
    context, weights = scaled_dot_product_attention(q, k, v, mask)
    return merge_heads(context) @ W_o.mT, weights


@stranger
def multihead_normalises_over_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask_per_head(mask), -1e9)
    weights = scores.softmax(-3)
    return merge_heads(weights @ v) @ W_o.mT, weights


@stranger
def multihead_adds_the_queries_back(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    context = merge_heads(context) @ W_o.mT
    return context + queries if queries.shape == context.shape else context, weights


@stranger
def multihead_interleaves_the_heads(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = _project(queries, keys, values, W_q, W_k, W_v, n_heads)
    context, weights = scaled_dot_product_attention(q, k, v, mask_per_head(mask))
    return context.movedim(-3, -1).flatten(-2) @ W_o.mT, weights


@stranger(makes=[scales_by_d_model])
def multihead_by_loops_with_the_scale_of_the_model(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    contexts, weights = [], []
    for Q, K, V in zip(W_q.chunk(n_heads), W_k.chunk(n_heads), W_v.chunk(n_heads), strict=True):
        scores = torch.einsum("...id,...jd->...ij", queries @ Q.T, keys @ K.T) * len(W_o) ** -0.5
        head = attend(scores, values @ V.T, mask)
        contexts.append(head.context)
        weights.append(head.weights)
    return F.linear(torch.cat(contexts, -1), W_o), torch.stack(weights, -3)


@stranger(makes=[does_not_give_the_mask_to_the_heads, averages_the_weights_over_the_heads])
def multihead_with_two_mistakes(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask=None):
    q, k, v = (split_heads(x @ W.mT, n_heads) for x, W in ((queries, W_q), (keys, W_k), (values, W_v)))
    context, weights = scaled_dot_product_attention(q, k, v)
    return merge_heads(context) @ W_o.mT, weights.mean(-3)


def _weights(draw: Draw, n_heads: int, d_k: int, d_v: int, d_q: int, d_m: int, d_model: int) -> Call:
    W_q, W_k = draw.normal(n_heads * d_k, d_q, scale=0.5), draw.normal(n_heads * d_k, d_m, scale=0.5)
    return W_q, W_k, draw.normal(n_heads * d_v, d_m, scale=0.5), draw.normal(d_model, n_heads * d_v, scale=0.5), n_heads


def _self(draw: Draw, n_heads: int, *batch: int) -> Call:
    """Self-attention in which every matrix is square, as most people first meet it."""
    T, d = draw.sizes(2, other_than=(*batch, n_heads))
    x = draw.normal(*batch, T, n_heads * d)
    return x, x.clone(), x.clone(), *_weights(draw, n_heads, d, d, n_heads * d, n_heads * d, n_heads * d)


def _cross(draw: Draw, *batch: int) -> Call:
    """Attention to another sequence, with every size its own."""
    T_q, T_k, d_q, d_m, d_k, d_v = draw.sizes(6)
    q, k, v = draw.normal(*batch, T_q, d_q), draw.normal(*batch, T_k, d_m), draw.normal(*batch, T_k, d_m)
    return q, k, v, *_weights(draw, 3, d_k, d_v, d_q, d_m, 4)


def _wide_values(draw: Draw) -> Call:
    """Values that have another size than the keys."""
    q, k, v, W_q, W_k, W_v, *rest = _cross(draw, 2)
    return q, k, draw.normal(*v.shape[:-1], 6), W_q, W_k, draw.normal(len(W_v), 6, scale=0.5), *rest


def _masked_keys(draw: Draw) -> Call:
    """A mask of one axis, the same for all queries of all sequences."""
    q, k, v, *rest = _cross(draw, 2)
    return q, k, v, *rest, draw.mask(k.shape[-2])


def _masked(draw: Draw, *batch: int, padding: bool = False, of_all: bool = False) -> Call:
    q, k, v, *rest = _cross(draw, *batch)
    return q, k, v, *rest, draw.mask(*(() if of_all else batch), 1 if padding else q.shape[-2], k.shape[-2])


def _masked_heads(draw: Draw, n: int) -> Call:
    """The same mask for all three heads, or one for each."""
    q, k, v, *rest = _cross(draw, 2)
    return q, k, v, *rest, draw.mask(2, n, q.shape[-2], k.shape[-2])


exercise = Exercise(
    id="04.5",
    title="Multi-head attention",
    reference=multi_head_attention,
    properties=(
        runs_on(lambda draw: [_self(draw, 3, 2), _cross(draw, 2)]),
        has_shape(
            "A context of size d_model for each query, and weights for each head.",
            lambda draw: [_self(draw, 3, 2), _cross(draw, 2)],
        ),
        Property(
            "one head",
            "One head is scaled dot-product attention of projected inputs, followed by W_o.",
            lambda draw: [_self(draw, 1, 1)],
            points=2,
        ),
        Property(
            "weights",
            "The weights of each head come from its own part of the queries and keys.",
            lambda draw: [_self(draw, 2, 1), _self(draw, 3, 1)],
            right_result(1),
        ),
        Property(
            "heads",
            "Each head mixes its own values, and the heads are concatenated.",
            lambda draw: [_self(draw, 2, 1), _self(draw, 3, 1)],
            needs=("one head", "weights"),
        ),
        Property(
            "sizes",
            "Every size may differ, and keys may come from another sequence.",
            lambda draw: [_cross(draw, 1), _wide_values(draw)],
            needs=("heads",),
        ),
        Property(
            "mask",
            "The mask holds for every head, with any number of batch axes.",
            lambda draw: [
                _masked(draw, 1),
                _masked(draw, 2),
                _masked(draw, 2, padding=True),
                _masked(draw, 2, of_all=True),
                _masked(draw, 2, 3),
                _masked(draw),
            ],
            points=3,
            needs=("sizes",),
        ),
        Property(
            "mask of heads",
            "A mask may have an axis of heads, of size 1 or n_heads, or the axis of keys alone.",
            lambda draw: [_masked_heads(draw, 1), _masked_heads(draw, 3), _masked_keys(draw)],
            needs=("sizes",),
        ),
        Property(
            "batch",
            "Each sequence is computed independently, with any number of batch axes.",
            lambda draw: [_self(draw, 2, 3), _cross(draw, 2), _self(draw, 2), _self(draw, 2, 2, 3)],
            needs=("heads",),
        ),
        has_gradient(lambda draw: [_cross(draw, 2), _masked(draw, 2)], needs=("mask",)),
        leaves_inputs(lambda draw: [_cross(draw, 2), _masked(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the number of axes and the batch are read, which queries, keys and values share, detached or not.": (
            "detach: queries.detach().shape",
            "other name: keys.shape",
            "other name: values.shape",
        ),
    },
    hints=HINTS,
    forbids={
        torch.nn.functional.multi_head_attention_forward: "split, attend and merge with the functions of this lecture.",
        torch._native_multi_head_attention: "split, attend and merge with the functions of this lecture.",
    },
)
