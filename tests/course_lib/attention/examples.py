"""Each public mechanism once, with example inputs, for tests of precision, transforms, export, devices and fast forms.

A new mechanism is one line in `examples`. Its inputs are those of an item, without a batch, and weights that all items share.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import attention as A
from course_lib import fast
from course_lib.primitives import causal_mask, elu_feature_map

Shape = tuple[int, ...]
Form = Callable[..., object]


class Sizes(NamedTuple):
    """T queries and T_k keys of d features, values of d_v features, images of height and width `sides`."""

    T: int = 5
    T_k: int = 7
    d: int = 4
    d_v: int = 11
    sides: tuple[int, int] = (5, 6)


class Example(NamedTuple):
    """A mechanism and the shapes of its inputs.

    `mask` is the shape of a mask that it takes: (T, T_k) is any, (1, T_k) one over keys alone. A fast form has its `equation`.
    A form that builds a vector `per_pair` of query and key needs gigabytes at thousands of positions.
    """

    form: Form
    items: tuple[Shape, ...]
    weights: tuple[Shape, ...] = ()
    mask: Shape | None = None
    equation: Form | None = None
    per_pair: bool = False
    has_gradients: bool = True

    def drawn(self, *batch: int, scale: float = 1.0, dtype: torch.dtype = torch.float64, seed: int = 3) -> list[Tensor]:
        """Draw normal items, each with the axes `batch`, and weights that map them to features of about the same size."""
        generator = torch.Generator().manual_seed(seed)
        draw = partial(torch.randn, generator=generator, dtype=torch.float64)
        items = [draw(*batch, *shape) * scale for shape in self.items]
        weights = [draw(shape) * scale / math.sqrt(shape[-1]) for shape in self.weights]
        return [x.to(dtype) for x in (*items, *weights)]


def module(make: Callable[..., nn.Module], *arguments: object) -> nn.Module:
    """Make a module with parameters that are the same in every run."""
    torch.manual_seed(1)
    return make(*arguments).eval()


def features(form: Form) -> Form:
    """Give a form of linear attention the features of queries and keys."""
    return lambda q, k, v, mask=None: form(elu_feature_map(q), elu_feature_map(k), v, mask)


def causal_kernel(phi_q: Tensor, phi_k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend by the definition of linear attention, with causal weights written out."""
    causal = causal_mask(phi_q.shape[-2], device=v.device)
    return A.kernel_attention(phi_q, phi_k, v, causal if mask is None else causal & mask).context


def stepped(step: Form) -> Form:
    """Read all positions by a step of linear attention, from an empty state."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        wide = {"device": v.device, "dtype": torch.promote_types(v.dtype, torch.float32)}
        S, z = torch.zeros(*v.shape[:-2], k.shape[-1], v.shape[-1], **wide), torch.zeros(*k.shape[:-2], k.shape[-1], **wide)
        contexts = []
        for each in zip(*(x.unbind(-2) for x in (elu_feature_map(q), elu_feature_map(k), v)), strict=True):
            context, S, z = step(S, z, *each)
            contexts.append(context)
        return torch.stack(contexts, dim=-2)

    return run


def one_gate(form: Form) -> Form:
    """Give a form that forgets one gate a position, which depends on its query."""
    return lambda q, k, v: form(q, k, v, F.logsigmoid(q.sum(-1)))


def gates(form: Form) -> Form:
    """Give a form that forgets a gate for each channel of the keys, which depends on the queries."""
    return lambda q, k, v: form(q, k, v, F.logsigmoid(q))


def corrected(form: Form) -> Form:
    """Give a form of the delta rule keys of length 1, β from the keys, and a decay from the queries."""
    return lambda q, k, v: form(q, F.normalize(k, dim=-1), v, k.sum(-1).sigmoid(), F.logsigmoid(q.sum(-1)))


def by_step(step: Form) -> Form:
    """Read all positions by a step that forgets or corrects, from an empty memory; gates have the shape of the keys or less."""

    def run(q: Tensor, k: Tensor, v: Tensor, *each_gate: Tensor) -> Tensor:
        wide = {"device": v.device, "dtype": torch.promote_types(v.dtype, torch.float32)}
        S, contexts = torch.zeros(*v.shape[:-2], k.shape[-1], v.shape[-1], **wide), []
        time = v.dim() - 2
        for each in zip(*(x.unbind(time) for x in (q, k, v, *each_gate)), strict=True):
            context, S = step(S, *each)
            contexts.append(context)
        return torch.stack(contexts, dim=-2)

    return run


def discretised(ssd: Form) -> Form:
    """Give a state-space model steps whose length depends on its input, and a decay of -0.5."""
    return lambda x, B, C: ssd(x, F.softplus(x.sum(-1)), -0.5, B, C)


def at_positions(form: Form, first: float) -> Form:
    """Give Luong's local attention the centres first, first + 1, …: one for each query."""
    return lambda q, k, v: form(q, k, v, first + torch.arange(q.shape[-2], device=q.device), 2)


def ring(T: int) -> Tensor:
    """Edges among T nodes, at most three from each; none leads to the last node, which attends to nobody."""
    i = torch.arange(T)
    edges = torch.cat([torch.stack([(i + step) % max(T, 1), i]) for step in (0, 1, 3)], dim=1)
    return edges[:, edges[0] < T - 1]


def examples(sizes: Sizes = Sizes()) -> dict[str, Example]:  # noqa: B008 (a tuple cannot change)
    """Return an example of each public mechanism of `course_lib.attention`, and of its fast forms, by its public name."""
    T, T_k, d, d_v, sides = sizes
    m, h, chunk = 13, 2, max(2, T // 64)  # directions of a Performer; heads; positions in a chunk
    omega = torch.randn(m, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    edges = ring(T)
    one, two = {"mask": (1, T_k)}, {"mask": (T, T_k)}
    own_one, own_two = {"mask": (1, T)}, {"mask": (T, T)}
    cross, own, same, nodes = ((T, d), (T_k, d), (T_k, d_v)), ((T, d), (T, d), (T, d_v)), ((T, d),) * 3, ((h, T, d),)
    groups = (h, T, d), (1, T_k, d), (1, T_k, d_v)
    relative = cross, ((T_k, d), (d,), (d,))
    local = ((*sides, d), (*sides, d), (*sides, d_v)), ((3, 1), (3, d - 1))
    square, image, bilinear = ((d, d),), ((1, d, *sides),), (((T, d),), ((2, d), (2, d), (d_v, d)))
    over_edges = (edges.shape[1],), (T, d_v)
    causal_performer = partial(A.causal_performer_attention, omega=omega)
    written_out = {"equation": partial(A.causal_performer_attention, omega=omega, mix=causal_kernel)}
    of_kernel = {"equation": features(lambda *x: A.kernel_attention(*x).context)}
    of_causal_kernel = {"equation": features(causal_kernel)}
    return {
        # core
        "attend": Example(A.attend, ((T, T_k), (T_k, d_v)), **two),
        # dot_product
        "scaled_dot_product_attention": Example(A.scaled_dot_product_attention, cross, **two),
        "fused_scaled_dot_product_attention": Example(
            fast.fused_scaled_dot_product_attention, cross, **two, equation=A.scaled_dot_product_attention
        ),
        "causal_attention": Example(A.causal_attention, cross, **two),
        "fused_causal_attention": Example(fast.fused_causal_attention, cross, **two, equation=A.causal_attention),
        "dot_attention": Example(A.dot_attention, cross, **two),
        "fused_dot_attention": Example(fast.fused_dot_attention, cross, **two, equation=A.dot_attention),
        "tiled_attention": Example(
            partial(A.tiled_attention, tile=chunk), cross, **two, equation=A.scaled_dot_product_attention
        ),
        "GeneralAttention": Example(module(A.GeneralAttention, d, d), cross, **two),
        # additive, dropout
        "AdditiveAttention": Example(module(A.AdditiveAttention, d, d, d), cross, **two, per_pair=True),
        "ConcatAttention": Example(module(A.ConcatAttention, d, d, d), cross, **two, per_pair=True),
        "AttentionDropout": Example(module(A.AttentionDropout, A.causal_attention, 0.1), cross, **two),
        # luong_local
        "local_m_attention": Example(at_positions(A.local_m_attention, 1.0), cross),
        "local_p_attention": Example(at_positions(A.local_p_attention, 0.3), cross),
        "LocalPredictive": Example(module(A.LocalPredictive, d, 2), cross, **two),
        # relative
        "relative_attention": Example(A.relative_attention, *relative, **two, per_pair=True),
        "shifted_relative_attention": Example(A.shifted_relative_attention, *relative, **two, equation=A.relative_attention),
        "RelativeAttention": Example(module(A.RelativeAttention, h * d, h), ((h, T, d), (h, T, d), (h, T, d_v)), **own_two),
        # rotary
        "rotate": Example(partial(A.rotate, speeds=A.rotary_speeds(d)), same[:1]),
        "RotaryAttention": Example(A.RotaryAttention(d), cross, **two),
        # qk_norm
        "QKNorm": Example(module(A.QKNorm, d, A.causal_attention), cross, **two),
        # linear, performer
        "kernel_attention": Example(features(A.kernel_attention), cross, **two),
        "linear_attention": Example(features(A.linear_attention), cross, **one, **of_kernel),
        "causal_linear_attention": Example(features(A.causal_linear_attention), own, **own_one, **of_causal_kernel),
        "chunked_linear_attention": Example(
            features(partial(fast.chunked_linear_attention, chunk=chunk)), own, **own_one, **of_causal_kernel
        ),
        "linear_attention_step": Example(stepped(A.linear_attention_step), own),
        "inplace_linear_attention_step": Example(stepped(fast.inplace_linear_attention_step), own, has_gradients=False),
        "lean_linear_attention": Example(partial(fast.lean_linear_attention, chunk=chunk), own, **own_one, **of_causal_kernel),
        "LinearAttention": Example(A.LinearAttention(), cross, **one),
        "performer_attention": Example(partial(A.performer_attention, omega=omega), cross, **one),
        "causal_performer_attention": Example(causal_performer, own, **own_one, **written_out),
        "lean_performer_attention": Example(
            partial(fast.lean_performer_attention, omega=omega, chunk=chunk), own, **own_one, **written_out
        ),
        "PerformerAttention": Example(module(A.PerformerAttention, d, m), cross, **one),
        # decay, state_space, delta
        "gated_step": Example(gates(by_step(A.gated_step)), own),
        "gated_linear_attention": Example(gates(A.gated_linear_attention), own),
        "decay_mask": Example(lambda q: A.decay_mask(F.logsigmoid(q.sum(-1))), same[:1]),
        "retention": Example(
            one_gate(A.retention), own, equation=one_gate(lambda *x: A.gated_linear_attention(*x[:3], x[3][..., None]))
        ),
        "ssd": Example(discretised(A.ssd), ((T, d_v), (T, d), (T, d))),
        "delta_rule_step": Example(corrected(by_step(A.delta_rule_step)), own),
        "delta_attention": Example(corrected(A.delta_attention), own),
        "chunked_delta_attention": Example(
            corrected(partial(A.chunked_delta_attention, chunk=chunk)), own, equation=corrected(A.delta_attention)
        ),
        "GatedDeltaAttention": Example(module(A.GatedDeltaAttention, d, h, None, None, 3, chunk), same[:1]),
        # multihead
        "multi_head_attention": Example(
            partial(A.multi_head_attention, n_heads=h), ((T, d), (T_k, d), (T_k, d)), square * 4, **two
        ),
        "MultiHead": Example(module(A.MultiHead, d, h, A.causal_attention), same, **own_two),
        "cached_step": Example(A.cached_step, ((1, d), (1, h, T, d // h), (1, h, T, d // h)), square * 4),
        # grouped
        "grouped_query_attention": Example(A.grouped_query_attention, groups, **two),
        "GroupedQueryAttention": Example(A.GroupedQueryAttention(), groups, **two),
        # pooling
        "pool": Example(A.pool, same[:1], ((d_v, d), (d_v,), (d_v,))),
        "Pool": Example(module(A.Pool, d, d_v), same[:1]),
        "mean_pool": Example(A.mean_pool, same[:1]),
        # local, image, non_local, co_occurrent
        "local_attention": Example(A.local_attention, *local),
        "sliced_local_attention": Example(fast.sliced_local_attention, *local, equation=A.local_attention),
        "tiled_local_attention": Example(fast.tiled_local_attention, *local, equation=A.local_attention),
        "LocalAttention": Example(module(A.LocalAttention, d, d, h, 3), image),
        "attention_over_image": Example(A.attention_over_image, image, square * 3),
        "AttentionLayer2d": Example(module(A.AttentionLayer2d, d, d, d_v), image),
        "non_local_embedded_gaussian": Example(A.non_local_embedded_gaussian, *bilinear),
        "fused_embedded_gaussian": Example(fast.fused_embedded_gaussian, *bilinear, equation=A.non_local_embedded_gaussian),
        "non_local_dot_product": Example(A.non_local_dot_product, cross),
        "associative_dot_product": Example(A.associative_dot_product, cross, equation=A.non_local_dot_product),
        "non_local_concatenation": Example(A.non_local_concatenation, cross, ((2 * d,),)),
        "non_local_block": Example(A.non_local_block, image, square * 4),
        "NonLocal": Example(module(A.NonLocal, d), image),
        "NonLocalBlock": Example(module(A.NonLocalBlock, d, module(A.NonLocal, d)), image),
        "co_occurrent_features": Example(A.co_occurrent_features, same[:1], (*square * 2, (2, d))),
        "CoOccurrent": Example(module(A.CoOccurrent, d, d, 2), image),
        # edge_attention, graph
        "attend_edges": Example(partial(A.attend_edges, edges=edges), over_edges),
        "csr_attend_edges": Example(
            partial(fast.csr_attend_edges, edges=edges), over_edges, equation=partial(A.attend_edges, edges=edges)
        ),
        "multi_head_graph_attention": Example(
            partial(A.multi_head_graph_attention, edges=edges), same[:1], (*square, (h, 2 * d // h))
        ),
        "GraphAttention": Example(partial(module(A.GraphAttention, h, d), edges=edges), nodes),
        "DynamicGraphAttention": Example(partial(module(A.DynamicGraphAttention, h, d), edges=edges), nodes),
    }


PARTS = {
    "additive_scores",
    "concat_scores",
    "dot_scores",
    "general_scores",
    "gat_scores",
    "gat_edge_scores",
    "dynamic_edge_scores",
    "edge_softmax",
    "relative_logits",
    "rotary_speeds",
    "alignment_window",
    "predicted_positions",
    "average_heads",
    "merge",
    "merge_heads",
    "partial_attention",
    "split_heads",
    "require_weights",
    "tiled_gradients",
    "windowed_cache",
}
"""Parts of the mechanisms, which call them, and functions that do not compute."""
