"""Every mechanism in float16 and bfloat16 at d = 64, T = 4,096: context and weights are those of float32 up to rounding."""

from collections.abc import Callable
from functools import partial
from inspect import isroutine
from pkgutil import iter_modules

import pytest
import torch
from torch import Tensor, nn

from course_lib import attention as A
from course_lib import fast
from course_lib.primitives import elu_feature_map, with_self_loops
from tests.public_names import public_names

T, D, HEADS = 4096, 64, 2
SHORT = 1024
"""For equations that build a vector of d features for each pair: at T = 4,096, 4 GiB in float32, and about 10 s."""

SIDE = 64
"""Of images with T pixels."""


def module(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return make().eval()


def own(T: int = T) -> list[tuple[int, ...]]:
    """The shapes of queries, keys and values of one sequence."""
    return [(1, T, D)] * 3


def features(form: Callable[..., object]) -> Callable[..., object]:
    return lambda q, k, v: form(elu_feature_map(q), elu_feature_map(k), v)


def stepped(step: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Callable[..., Tensor]:
    """Read all positions by a recurrent step, from an empty state in float32."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        S, z, contexts = torch.zeros(1, D, D), torch.zeros(1, D), []
        for phi_q, phi_k, value in zip(elu_feature_map(q).unbind(1), elu_feature_map(k).unbind(1), v.unbind(1), strict=True):
            context, S, z = step(S, z, phi_q, phi_k, value)
            contexts.append(context)
        return torch.stack(contexts, dim=1)

    return run


EDGES = with_self_loops(torch.randint(T, (2, 4 * T), generator=torch.Generator().manual_seed(0)), T)
OMEGA = torch.randn(32, D, generator=torch.Generator().manual_seed(1))
PIXELS = (1, SIDE, SIDE, D)
LOCAL = [PIXELS, PIXELS, PIXELS, (3, D // 2), (3, D // 2)]
IMAGE, MATRIX = (1, D, SIDE, SIDE), (D, D)
NODES, SCORES = (1, HEADS, T, D), (1, HEADS, EDGES.shape[1])

FORMS: dict[str, tuple[Callable[..., object], list[tuple[int, ...]]]] = {
    "attend": (A.attend, [(1, T, T), (1, T, D)]),
    "scaled_dot_product_attention": (A.scaled_dot_product_attention, own()),
    "fused_scaled_dot_product_attention": (fast.fused_scaled_dot_product_attention, own()),
    "causal_attention": (A.causal_attention, own()),
    "fused_causal_attention": (fast.fused_causal_attention, own()),
    "dot_attention": (A.dot_attention, own()),
    "fused_dot_attention": (fast.fused_dot_attention, own()),
    "GeneralAttention": (module(lambda: A.GeneralAttention(D, D)), own()),
    "AdditiveAttention": (module(lambda: A.AdditiveAttention(D, D, D)), own(SHORT)),
    "ConcatAttention": (module(lambda: A.ConcatAttention(D, D, D)), own(SHORT)),
    "AttentionDropout": (module(lambda: A.AttentionDropout(A.causal_attention, 0.1)), own()),
    "local_m_attention": (lambda q, k, v: A.local_m_attention(q, k, v, torch.arange(1.0, T + 1)[None], 10), own()),
    "local_p_attention": (lambda q, k, v: A.local_p_attention(q, k, v, torch.arange(0.3, T)[None], 10), own()),
    "LocalPredictive": (module(lambda: A.LocalPredictive(D, 10)), own()),
    "relative_attention": (A.relative_attention, [*own(SHORT), (SHORT, D), (D,), (D,)]),
    "shifted_relative_attention": (fast.shifted_relative_attention, [*own(), (T, D), (D,), (D,)]),
    "RelativeAttention": (module(lambda: A.RelativeAttention(HEADS * D, HEADS)), [(1, HEADS, T, D)] * 3),
    "kernel_attention": (features(A.kernel_attention), own()),
    "linear_attention": (features(A.linear_attention), own()),
    "causal_linear_attention": (features(A.causal_linear_attention), own()),
    "chunked_linear_attention": (features(fast.chunked_linear_attention), own()),
    "recurrent_linear_attention": (features(A.recurrent_linear_attention), own()),
    "linear_attention_step": (stepped(A.linear_attention_step), own()),
    "inplace_linear_attention_step": (stepped(fast.inplace_linear_attention_step), own()),
    "lean_linear_attention": (fast.lean_linear_attention, own()),
    "LinearAttention": (A.LinearAttention(), own()),
    "performer_attention": (partial(A.performer_attention, omega=OMEGA), own()),
    "causal_performer_attention": (partial(A.causal_performer_attention, omega=OMEGA), own()),
    "lean_performer_attention": (partial(fast.lean_performer_attention, omega=OMEGA), own()),
    "PerformerAttention": (module(lambda: A.PerformerAttention(D, 32)), own()),
    "multi_head_attention": (
        lambda x, *weights: A.multi_head_attention(x, x, x, *weights, n_heads=HEADS),
        [(1, T, D), *[MATRIX] * 4],
    ),
    "cross_attention": (
        lambda x, *weights: A.cross_attention(x, x, *weights, n_heads=HEADS),
        [(1, T, D), *[MATRIX] * 4],
    ),
    "MultiHead": (module(lambda: A.MultiHead(D, HEADS, A.causal_attention)), own()),
    "cached_step": (A.cached_step, [(1, D), (1, 1, T, D), (1, 1, T, D), *[MATRIX] * 4]),
    "pool": (A.pool, [(1, T, D), MATRIX, (D,), (D,)]),
    "Pool": (module(lambda: A.Pool(D, D)), [(1, T, D)]),
    "mean_pool": (A.mean_pool, [(1, T, D)]),
    "local_attention": (A.local_attention, LOCAL),
    "sliced_local_attention": (fast.sliced_local_attention, LOCAL),
    "tiled_local_attention": (fast.tiled_local_attention, LOCAL),
    "LocalAttention": (module(lambda: A.LocalAttention(D, D, HEADS, 3)), [IMAGE]),
    "attention_over_image": (A.attention_over_image, [IMAGE, *[MATRIX] * 3]),
    "AttentionLayer2d": (module(lambda: A.AttentionLayer2d(D, D, D)), [IMAGE]),
    "non_local_gaussian": (A.non_local_gaussian, [(1, T, D), MATRIX]),
    "non_local_embedded_gaussian": (A.non_local_embedded_gaussian, [(1, T, D), *[MATRIX] * 3]),
    "fused_embedded_gaussian": (fast.fused_embedded_gaussian, [(1, T, D), *[MATRIX] * 3]),
    "non_local_dot_product": (A.non_local_dot_product, own()),
    "associative_dot_product": (A.associative_dot_product, own()),
    "non_local_concatenation": (A.non_local_concatenation, [*own(), (2 * D,)]),
    "NonLocalConcatenation": (module(lambda: A.NonLocalConcatenation(D)), own()),
    "non_local_block": (A.non_local_block, [IMAGE, *[MATRIX] * 4]),
    "NonLocal": (module(lambda: A.NonLocal(D)), [IMAGE]),
    "NonLocalBlock": (module(lambda: A.NonLocalBlock(D, A.NonLocal(D))), [IMAGE]),
    "co_occurrent_features": (A.co_occurrent_features, [(1, T, D), MATRIX, MATRIX, (2, D)]),
    "CoOccurrent": (module(lambda: A.CoOccurrent(D, D, D)), [IMAGE]),
    "attend_edges": (partial(A.attend_edges, edges=EDGES), [SCORES, NODES]),
    "csr_attend_edges": (partial(fast.csr_attend_edges, edges=EDGES), [SCORES, NODES]),
    "dense_attend_edges": (partial(A.dense_attend_edges, edges=EDGES), [SCORES[2:], NODES[2:]]),
    "uniform_graph_attention": (partial(A.uniform_graph_attention, edges=EDGES), [NODES]),
    "multi_head_graph_attention": (
        partial(A.multi_head_graph_attention, edges=EDGES),
        [(1, T, D), MATRIX, (HEADS, 2 * D // HEADS)],
    ),
    "GraphAttention": (partial(module(lambda: A.GraphAttention(HEADS, D)), edges=EDGES), [NODES]),
    "DynamicGraphAttention": (partial(module(lambda: A.DynamicGraphAttention(HEADS, D)), edges=EDGES), [NODES]),
}
"""By its public name, each mechanism, and the shapes of its inputs; matrices are scaled to keep the size of what they map."""

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
    "alignment_window",
    "predicted_positions",
    "average_heads",
    "merge_heads",
    "split_heads",
    "require_weights",
    "without_attention_dropout",
}
"""Parts of the mechanisms above, which call them, and functions that do not compute."""


def drawn(shapes: list[tuple[int, ...]], dtype: torch.dtype) -> list[Tensor]:
    """Standard normal tokens, and matrices and vectors that map them to features of the same size."""
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    return [(x if x.dim() > 2 or len(x) >= SHORT else x * x.shape[-1] ** -0.5).to(dtype) for x in inputs]


def parameters_in(form: object, dtype: torch.dtype) -> None:
    """Convert the parameters of a module, or of the module of a partial function."""
    module = getattr(form, "func", form)
    if isinstance(module, nn.Module):
        module.to(dtype)


def context_and_weights(result: object) -> list[Tensor]:
    found = result[:2] if isinstance(result, tuple) else [result]
    return [x for x in found if x is not None]


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FORMS)
def test_half_precision_costs_a_few_roundings(name, dtype):
    """The inputs and parameters of the comparison in float32 are the rounded ones."""
    form, shapes = FORMS[name]
    inputs = drawn(shapes, dtype)
    parameters_in(form, dtype)
    found = context_and_weights(form(*inputs))
    parameters_in(form, torch.float32)
    exact = context_and_weights(form(*(x.float() for x in inputs)))
    assert len(found) == len(exact) > 0
    for half, full in zip(found, exact, strict=True):
        assert half.dtype == dtype
        assert full.dtype == torch.float32
        assert (half.float() - full).norm() <= 4 * torch.finfo(dtype).eps * full.norm()


def test_no_mechanism_is_missing():
    """A public name is a mechanism, a part of one, or a type."""
    mechanisms = {module.name for module in iter_modules(A.__path__)}
    found = {name: getattr(A, name) for name in public_names(A)}
    found |= {n: x for n in public_names(fast) if (x := getattr(fast, n)).__module__.rpartition(".")[2] in mechanisms}
    types = {name for name, x in found.items() if name not in FORMS and not isroutine(x)}
    assert not any(issubclass(found[name], nn.Module) for name in types if isinstance(found[name], type))
    assert set(found) - types == {*FORMS, *PARTS}
