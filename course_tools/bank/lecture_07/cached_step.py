"""Exercise 07.4, cached_step: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.attention import CachedStep, cached_step, split_heads
from course_lib.attention.core import attend
from course_lib.primitives import causal_mask
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    costs_at_most,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "A text has T previous tokens and one new one. Which rows of the queries, keys and values would change if you "
        "computed everything anew? How many queries are needed, and how many keys does that query attend to?"
    ),
    (
        "Project the new token three times and split each result into heads, with a time axis of size 1 like the cache. "
        "Append its key and value to the cache first; then attend, merge the heads and apply W_o."
    ),
    (
        "The new token's features are n_heads groups, as those of a text are; n_heads and d_k stand in the shape of "
        "the cache. Join keys, and values, along the axis of time. One query needs no mask: score it against all "
        "keys, divided by √d_k, and let `attend` mix the values. Then the heads stand side by side again, for W_o."
    ),
)


def _of_the_token(x, W_q, W_k, W_v, h):
    """Query, key and value of the new token, (B, h, 1, d) each."""
    return [rearrange(x @ W.mT, "B (h d) -> B h 1 d", h=h) for W in (W_q, W_k, W_v)]


def _grown(x, keys, values, W_q, W_k, W_v):
    """The query, and keys and values with the new token after."""
    q, k, v = _of_the_token(x, W_q, W_k, W_v, keys.shape[1])
    return q, torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)


def _heads(q, keys, values, scale=None, mask=None):
    """What all heads give, (B, h, 1, d_v)."""
    return attend(q @ keys.mT / (math.sqrt(keys.shape[-1]) if scale is None else scale), values, mask).context


def _out(q, keys, values, W_o, scale=None, mask=None):
    return _heads(q, keys, values, scale, mask).flatten(1) @ W_o.mT


@wrong.idea
def looks_only_at_the_past(x, keys, values, W_q, W_k, W_v, W_o):
    """You attend first and append afterwards. Your new token attends to the past and not to itself, and the very first
    token attends to nothing; in causal attention each token attends to itself too."""
    q, *cache = _grown(x, keys, values, W_q, W_k, W_v)
    return CachedStep(_out(q, keys, values, W_o), *cache)


@wrong.detail
def puts_the_new_token_in_front(x, keys, values, W_q, W_k, W_v, W_o):
    """You put the new key and value in front of the past. The context is the same, since attention is independent of the
    order of the keys; but your cache is now reversed."""
    q, k, v = _of_the_token(x, W_q, W_k, W_v, keys.shape[1])
    keys, values = torch.cat([k, keys], dim=2), torch.cat([v, values], dim=2)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.detail
def forgets_the_scale(x, keys, values, W_q, W_k, W_v, W_o):
    """You do not divide the scores by √d_k. One step then differs from attention over the whole text."""
    q, keys, values = _grown(x, keys, values, W_q, W_k, W_v)
    return CachedStep(_out(q, keys, values, W_o, scale=1.0), keys, values)


@wrong.detail
def scales_by_all_heads_together(x, keys, values, W_q, W_k, W_v, W_o):
    """You divide by the root of h · d_k, the width of all heads together. Each head's dot product has only d_k terms, so
    your scores are too small and your weights too even; with one head the mistake has no effect."""
    q, keys, values = _grown(x, keys, values, W_q, W_k, W_v)
    return CachedStep(_out(q, keys, values, W_o, scale=math.sqrt(W_k.shape[0])), keys, values)


@wrong.detail
def parts_the_heads_the_wrong_way(x, keys, values, W_q, W_k, W_v, W_o):
    """You split the projections as if the features of the heads were interleaved. The features of a head are contiguous; a
    head of yours mixes features of several."""
    interleaved = (rearrange(W, "(d h) d_in -> (h d) d_in", h=keys.shape[1]) for W in (W_q, W_k, W_v))
    q, keys, values = _grown(x, keys, values, *interleaved)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.detail
def joins_the_heads_the_wrong_way(x, keys, values, W_q, W_k, W_v, W_o):
    """You merge the heads feature by feature, the first of every head, then the second. W_o expects the heads one after the
    other."""
    q, keys, values = _grown(x, keys, values, W_q, W_k, W_v)
    context = _heads(q, keys, values)
    return CachedStep(rearrange(context, "B h 1 d_v -> B (d_v h)") @ W_o.mT, keys, values)


@wrong.case
def returns_the_old_cache(x, keys, values, W_q, W_k, W_v, W_o):
    """You return the cache as it came in. Your output is right, but the next token cannot attend to this one: the returned
    cache must contain the new key and value."""
    return CachedStep(_out(*_grown(x, keys, values, W_q, W_k, W_v), W_o), keys, values)


@wrong.idea
def stores_the_query_as_key(x, keys, values, W_q, W_k, W_v, W_o):
    """You put the new token's query into the cache, where its key belongs. Both have the same size, so there is no error,
    but later tokens need its key."""
    q, keys, values = _grown(x, keys, values, W_q, W_q, W_v)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.part
def overwrites_the_last_place(x, keys, values, W_q, W_k, W_v, W_o):
    """You write the new key and value over the newest ones of the past, in the caller's own tensors. A token is lost with
    each step and the cache never grows; at T = 0 there is nothing to overwrite."""
    q, k, v = _of_the_token(x, W_q, W_k, W_v, keys.shape[1])
    with torch.no_grad():
        keys[:, :, -1:], values[:, :, -1:] = k, v
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.idea
def masks_as_if_it_stood_first(x, keys, values, W_q, W_k, W_v, W_o):
    """You add a causal mask of one row, the first of the triangle: it allows only the oldest key. The new token is the last
    one and may attend to all keys, so no mask is needed."""
    q, keys, values = _grown(x, keys, values, W_q, W_k, W_v)
    causal = torch.ones(1, keys.shape[2], dtype=torch.bool).tril()
    return CachedStep(_out(q, keys, values, W_o, mask=causal), keys, values)


@wrong.part
def forgets_the_output_projection(x, keys, values, W_q, W_k, W_v, W_o):
    """You return the merged heads without W_o: the last step of multi-head attention is the output projection."""
    _, keys, values = cached_step(x, keys, values, W_q, W_k, W_v, W_o)
    q = (x @ W_q.mT).unflatten(-1, (keys.shape[1], -1)).unsqueeze(-2)
    context, _ = attend(q @ keys.mT / math.sqrt(keys.shape[-1]), values)
    return context.flatten(1), keys, values


@wrong.case
def attends_from_every_position(x, keys, values, W_q, W_k, W_v, W_o):
    """Your output is right, but its cost is that of no cache: you compute a row of scores for every position, and keep only the
    last. The new token is the only query, so its scores are one row of T + 1 numbers and need no causal mask."""
    q, keys, values = _grown(x, keys, values, W_q, W_k, W_v)
    T = keys.shape[2]
    scores = (q.expand(-1, -1, T, -1) @ keys.mT / math.sqrt(keys.shape[-1])).masked_fill(~causal_mask(T), -torch.inf)
    context = (scores.softmax(-1) @ values)[:, :, -1]
    return CachedStep(context.flatten(1) @ W_o.mT, keys, values)


@wrong.detail
def appends_without_an_axis_for_the_time(x, keys, values, W_q, W_k, W_v, W_o):
    """You append (B, h, d_k) to a cache (B, h, T, d_k). The new token has one position: give its key and value an axis of size
    1 for it."""
    h = keys.shape[1]
    q, k, v = ((x @ W.mT).unflatten(-1, (h, -1)) for W in (W_q, W_k, W_v))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.part
def appends_before_splitting_the_heads(x, keys, values, W_q, W_k, W_v, W_o):
    """You append the projected token to the cache with the features of all heads together. The cache holds (B, h, T, d_k):
    split the key and the value into heads first."""
    q, k, v = ((x @ W.mT)[:, None, None] for W in (W_q, W_k, W_v))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@wrong.detail
def multiplies_by_the_stored_matrix(x, keys, values, W_q, W_k, W_v, W_o):
    """You write x @ W_q. The projections are stored with a row for each feature that they make, so x meets their columns: x @
    W_q.mT."""
    q, k, v = (split_heads((x @ W)[:, None], keys.shape[1]) for W in (W_q, W_k, W_v))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    return CachedStep(_out(q, keys, values, W_o), keys, values)


@right
def head_by_head(x, keys, values, W_q, W_k, W_v, W_o):
    """A loop over the heads, each with its rows of the weights and its columns of W_o; their outputs are added."""
    d_k, d_v, output, all_keys, all_values = keys.shape[-1], values.shape[-1], 0.0, [], []
    for i in range(keys.shape[1]):
        of_k, of_v = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        head_keys = torch.cat([keys[:, i], F.linear(x, W_k[of_k])[:, None]], dim=1)
        head_values = torch.cat([values[:, i], F.linear(x, W_v[of_v])[:, None]], dim=1)
        weights = ((head_keys @ F.linear(x, W_q[of_k])[:, :, None]) * d_k**-0.5).softmax(1)
        output = output + F.linear((weights * head_values).sum(1), W_o[:, of_v])
        all_keys.append(head_keys)
        all_values.append(head_values)
    return output, torch.stack(all_keys, 1), torch.stack(all_values, 1)


@right
def in_einsum(x, keys, values, W_q, W_k, W_v, W_o):
    """Weights with an axis for the heads, every product an einsum, the softmax written out."""
    W_q, W_k, W_v = (rearrange(W, "(h d) d_in -> h d d_in", h=keys.shape[1]) for W in (W_q, W_k, W_v))
    q, k, v = (torch.einsum("bi,hdi->bhd", x, W) for W in (W_q, W_k, W_v))
    keys, values = torch.cat((keys, k.unsqueeze(2)), 2), torch.cat((values, v.unsqueeze(2)), 2)
    scores = torch.einsum("bhd,bhtd->bht", q / keys.shape[-1] ** 0.5, keys)
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    context = torch.einsum("bht,bhtd->bhd", shares / shares.sum(-1, keepdim=True), values)
    return torch.einsum("bhd,ohd->bo", context, rearrange(W_o, "o (h d) -> o h d", h=keys.shape[1])), keys, values


@right
def fused_on_a_padded_cache(x, keys, values, W_q, W_k, W_v, W_o):
    """The cache made one longer by padding, the new token written there, and torch's fused attention."""
    q, k, v = ((x @ W.mT).unflatten(-1, (keys.shape[1], -1)).unsqueeze(2) for W in (W_q, W_k, W_v))
    keys, values = F.pad(keys, (0, 0, 0, 1)), F.pad(values, (0, 0, 0, 1))
    keys[:, :, -1:], values[:, :, -1:] = k, v
    return F.scaled_dot_product_attention(q, keys, values).flatten(1) @ W_o.mT, keys, values


def step(x, keys, values, W_q, W_k, W_v, W_o, scale=None, itself=True):
    q, k, v = (split_heads((x @ W.mT)[:, None], keys.shape[1]) for W in (W_q, W_k, W_v))
    new_keys, new_values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    seen = (new_keys, new_values) if itself else (keys, values)
    context = attend(q @ seen[0].mT / (scale or keys.shape[-1] ** 0.5), seen[1]).context
    return context.transpose(1, 2).flatten(1) @ W_o.mT, new_keys, new_values


@stranger
def step_of_the_mean(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, 0 * W_q, W_k, W_v, W_o)


@stranger
def step_scaled_by_d_v(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, scale=values.shape[-1] ** 0.5)


@stranger
def step_with_a_residual_past(x, keys, values, W_q, W_k, W_v, W_o):
    output, keys, values = step(x, keys, values, W_q, W_k, W_v, W_o)
    return output, keys, values + values.mean(2, keepdim=True)


@stranger
def step_with_a_frozen_past(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys.detach(), values.detach(), W_q, W_k, W_v, W_o)


@stranger(makes=[looks_only_at_the_past])
def step_without_itself(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, itself=False)


@stranger(makes=[forgets_the_scale, returns_the_old_cache])
def step_unscaled_with_the_old_cache(x, keys, values, W_q, W_k, W_v, W_o):
    return step(x, keys, values, W_q, W_k, W_v, W_o, scale=1.0)[0], keys, values


def _step(draw: Draw, B: int, T: int, h: int = 3) -> Call:
    """A past of T tokens and one more, all sizes different, scores large enough that the scale matters."""
    d_k, d_v, d_in, d_model = (size + (size == h) for size in draw.sizes(4))
    sizes = ((h * d_k, d_in), (h * d_k, d_in), (h * d_v, d_in), (d_model, h * d_v))
    W = [draw.normal(*size, scale=0.7) for size in sizes]
    return draw.normal(B, d_in), draw.normal(B, h, T, d_k), draw.normal(B, h, T, d_v), *W


exercise = Exercise(
    id="07.4",
    title="One step with a cache",
    reference=cached_step,
    extra=True,
    properties=(
        runs_on(lambda draw: [_step(draw, 2, 5)]),
        has_shape("An output, and caches one token longer.", lambda draw: [_step(draw, 2, 5), _step(draw, 1, 0)]),
        Property(
            "keys", "The new key is appended to the old ones.", lambda draw: [_step(draw, 2, 5)], right_result(1), points=2
        ),
        Property("values", "The new value is appended to the old ones.", lambda draw: [_step(draw, 2, 5)], right_result(2)),
        Property(
            "first",
            "The first token of a text attends to itself alone.",
            lambda draw: [_step(draw, 2, 0)],
            right_result(0),
        ),
        Property(
            "one head",
            "With one head, the new token attends to the past and to itself, scaled by √d_k.",
            lambda draw: [_step(draw, 1, 5, h=1)],
            right_result(0),
            points=2,
            needs=("first",),
        ),
        Property(
            "output",
            "The output is the last row of causal multi-head attention over the whole text.",
            lambda draw: [_step(draw, 1, 5), _step(draw, 1, 7, h=5)],
            right_result(0),
            needs=("one head",),
        ),
        costs_at_most(
            12,
            "The new token is the only query: the cost grows with T, not with T².",
            lambda draw: [_step(draw, 1, 512)],
            needs=("keys", "values", "output"),
        ),
        Property("batch", "Each text has its own cache.", lambda draw: [_step(draw, 3, 5)], needs=("keys", "values", "output")),
        has_gradient(lambda draw: [_step(draw, 2, 5), _step(draw, 2, 0)], needs=("batch",)),
        leaves_inputs(lambda draw: [_step(draw, 2, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only sizes are read, and keys and values agree on the number of heads.": (
            "detach: keys.detach().shape",
            "detach: keys.detach().shape (2)",
            "other name: values.shape",
        ),
    },
    hints=HINTS,
)
