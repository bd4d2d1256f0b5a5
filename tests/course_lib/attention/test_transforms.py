"""torch.func (vmap, grad, jvp) over every mechanism, in every form: the right numbers, or a clear error."""

from functools import partial

import pytest
import torch

from course_lib import attention as A
from course_lib import fast
from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.primitives import elu_feature_map
from tests.course_lib.attention.test_half_precision import FORMS as MECHANISMS

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by torch, in jvp
N, T, T_k, d, d_v, f = 3, 5, 7, 4, 11, 2
EDGES = torch.tensor([[0, 0, 1, 3, 3, 2, 4], [1, 2, 0, 0, 1, 2, 3]])
SIDES = 5, 6


def drawn(*shapes):
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(N, *shape, generator=generator, dtype=torch.float64) for shape in shapes)


def module(make):
    torch.manual_seed(1)
    return make().double().eval()


def features(form):
    return lambda q, k, v: form(elu_feature_map(q), elu_feature_map(k), v)


OMEGA = torch.randn(13, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
CROSS = [(T, d), (T_k, d), (T_k, d_v)]
RELATIVE = [*CROSS, (T_k, d), (d,), (d,)]
OWN = [(T, d), (T, d), (T, d_v)]
STEP = [(f, d_v), (f,), (f,), (f,), (d_v,)]
LOCAL = [(*SIDES, d), (*SIDES, d), (*SIDES, d_v), (3, 1), (3, d - 1)]
MAP = [(6, d), (2, d), (2, d), (d_v, d)]
OVER_EDGES = [(EDGES.shape[1],), (T, d_v)]
MATRIX, IMAGE = (d, d), (d, *SIDES)
FORMS = {
    "attend": (A.attend, [(T, T_k), (T_k, d_v)]),
    "scaled_dot_product_attention": (A.scaled_dot_product_attention, CROSS),
    "fused_scaled_dot_product_attention": (fast.fused_scaled_dot_product_attention, CROSS),
    "causal_attention": (A.causal_attention, OWN),
    "fused_causal_attention": (fast.fused_causal_attention, OWN),
    "dot_attention": (A.dot_attention, CROSS),
    "fused_dot_attention": (fast.fused_dot_attention, CROSS),
    "GeneralAttention": (module(lambda: A.GeneralAttention(d, d)), CROSS),
    "AdditiveAttention": (module(lambda: A.AdditiveAttention(d, d, 6)), CROSS),
    "ConcatAttention": (module(lambda: A.ConcatAttention(d, d, 6)), CROSS),
    "AttentionDropout": (module(lambda: A.AttentionDropout(A.causal_attention, 0.1)), OWN),
    "local_m_attention": (lambda q, k, v: A.local_m_attention(q, k, v, torch.arange(1.0, T + 1).to(q), 2), CROSS),
    "local_p_attention": (lambda q, k, v: A.local_p_attention(q, k, v, torch.arange(0.3, T).to(q), 2), CROSS),
    "LocalPredictive": (module(lambda: A.LocalPredictive(d, 2)), CROSS),
    "relative_attention": (A.relative_attention, RELATIVE),
    "shifted_relative_attention": (fast.shifted_relative_attention, RELATIVE),
    "RelativeAttention": (module(lambda: A.RelativeAttention(2 * d, 2)), [(2, T, d), (2, T, d), (2, T, d_v)]),
    "kernel_attention": (features(A.kernel_attention), CROSS),
    "linear_attention": (features(A.linear_attention), CROSS),
    "causal_linear_attention": (features(A.causal_linear_attention), OWN),
    "chunked_linear_attention": (features(partial(fast.chunked_linear_attention, chunk=2)), OWN),
    "recurrent_linear_attention": (features(A.recurrent_linear_attention), OWN),
    "linear_attention_step": (lambda S, z, q, k, v: A.linear_attention_step(S, z.exp(), q.exp(), k.exp(), v), STEP),
    "LinearAttention": (A.LinearAttention(), CROSS),
    "performer_attention": (partial(A.performer_attention, omega=OMEGA), CROSS),
    "causal_performer_attention": (partial(A.causal_performer_attention, omega=OMEGA), OWN),
    "PerformerAttention": (module(lambda: A.PerformerAttention(d, 13)), CROSS),
    "lean_linear_attention": (partial(fast.lean_linear_attention, chunk=2), OWN),
    "lean_performer_attention": (partial(fast.lean_performer_attention, omega=OMEGA, chunk=2), OWN),
    "multi_head_attention": (
        lambda x, *weights: A.multi_head_attention(x, x, x, *weights, n_heads=2),
        [(T, d), *[MATRIX] * 4],
    ),
    "cross_attention": (
        lambda x, y, *weights: A.cross_attention(x, y, *weights, n_heads=2),
        [(T, d), (T_k, d), *[MATRIX] * 4],
    ),
    "MultiHead": (module(lambda: A.MultiHead(d, 2, A.causal_attention)), [(T, d), (T, d), (T, d)]),
    "cached_step": (
        lambda x, keys, values, *weights: A.cached_step(x[None], keys[None], values[None], *weights),
        [(d,), (2, T, 2), (2, T, 2), *[MATRIX] * 4],
    ),
    "pool": (A.pool, [(T, d), (d_v, d), (d_v,), (d_v,)]),
    "Pool": (module(lambda: A.Pool(d, d_v)), [(T, d)]),
    "mean_pool": (A.mean_pool, [(T, d)]),
    "local_attention": (A.local_attention, LOCAL),
    "sliced_local_attention": (fast.sliced_local_attention, LOCAL),
    "tiled_local_attention": (fast.tiled_local_attention, LOCAL),
    "LocalAttention": (module(lambda: A.LocalAttention(d, d, 2, 3)), [(1, *IMAGE)]),
    "attention_over_image": (A.attention_over_image, [(1, *IMAGE), *[MATRIX] * 3]),
    "AttentionLayer2d": (module(lambda: A.AttentionLayer2d(d, d, d_v)), [(1, *IMAGE)]),
    "non_local_gaussian": (A.non_local_gaussian, [(T, d), (T, d)]),
    "non_local_embedded_gaussian": (A.non_local_embedded_gaussian, MAP),
    "fused_embedded_gaussian": (fast.fused_embedded_gaussian, MAP),
    "non_local_dot_product": (A.non_local_dot_product, CROSS),
    "associative_dot_product": (A.associative_dot_product, CROSS),
    "non_local_concatenation": (A.non_local_concatenation, [*CROSS, (2 * d,)]),
    "NonLocalConcatenation": (module(lambda: A.NonLocalConcatenation(d)), CROSS),
    "non_local_block": (A.non_local_block, [(1, *IMAGE), *[MATRIX] * 4]),
    "NonLocal": (module(lambda: A.NonLocal(d)), [(1, *IMAGE)]),
    "NonLocalBlock": (module(lambda: A.NonLocalBlock(d, A.NonLocal(d))), [(1, *IMAGE)]),
    "co_occurrent_features": (A.co_occurrent_features, [(T, d), MATRIX, MATRIX, (2, d)]),
    "CoOccurrent": (module(lambda: A.CoOccurrent(d, d, 2)), [(1, *IMAGE)]),
    "attend_edges": (partial(A.attend_edges, edges=EDGES), OVER_EDGES),
    "dense_attend_edges": (partial(A.dense_attend_edges, edges=EDGES), OVER_EDGES),
    "csr_attend_edges": (partial(fast.csr_attend_edges, edges=EDGES), OVER_EDGES),
    "uniform_graph_attention": (partial(A.uniform_graph_attention, edges=EDGES), [(2, T, d)]),
    "multi_head_graph_attention": (partial(A.multi_head_graph_attention, edges=EDGES), [(T, d), MATRIX, (2, d)]),
    "GraphAttention": (partial(module(lambda: A.GraphAttention(2, d)), edges=EDGES), [(2, T, d)]),
    "DynamicGraphAttention": (partial(module(lambda: A.DynamicGraphAttention(2, d)), edges=EDGES), [(2, T, d)]),
    "nt_xent": (partial(nt_xent, temperature=0.5), [(T, d), (T, d)]),
    "lean_nt_xent": (partial(lean_nt_xent, temperature=0.5), [(T, d), (T, d)]),
}
"""By its public name, each mechanism, and the shapes of its inputs without their leading axis."""

WRITTEN_OUT = {
    "chunked_linear_attention",
    "causal_performer_attention",
    "lean_linear_attention",
    "lean_performer_attention",
    "csr_attend_edges",
    "lean_nt_xent",
}
"""Forms with an explicit backward pass, which torch.func does not support; torch raises an error."""


def context_of(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def value_and_leaves(name):
    """The context as a function of the inputs, a scalar of it, and inputs with a leading axis of N."""
    form, shapes = FORMS[name]
    return (lambda *x: context_of(form(*x))), (lambda *x: context_of(form(*x)).square().sum()), drawn(*shapes)


def gradients(loss, x, **how):
    leaves = [each.clone().requires_grad_() for each in x]
    return torch.autograd.grad(loss(*leaves), leaves, **how), leaves


@pytest.mark.filterwarnings("ignore:There is a performance drop because:UserWarning")
@pytest.mark.parametrize("name", [name for name in FORMS if name not in WRITTEN_OUT])
def test_vmap_grad_and_jvp_give_the_numbers_of_autograd(name):
    form, loss, batch = value_and_leaves(name)
    one, direction = [x[0] for x in batch], [x[1] for x in batch]
    every = tuple(range(len(batch)))
    torch.testing.assert_close(torch.vmap(form)(*batch), torch.stack([form(*x) for x in zip(*batch, strict=True)]))
    exact = [gradients(loss, x)[0] for x in zip(*batch, strict=True)]
    torch.testing.assert_close(torch.func.grad(loss, every)(*one), exact[0])
    mapped = torch.vmap(torch.func.grad(loss, every))(*batch)
    torch.testing.assert_close(mapped, tuple(torch.stack(each) for each in zip(*exact, strict=True)))

    def penalty(*x):
        return sum(each.square().sum() for each in torch.func.grad(loss, every)(*x))

    first, leaves = gradients(loss, one, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), leaves)
    torch.testing.assert_close(torch.func.grad(penalty, every)(*one), second)
    _, slope = torch.func.jvp(loss, tuple(one), tuple(direction))
    torch.testing.assert_close(slope, sum((g * t).sum() for g, t in zip(exact[0], direction, strict=True)))


@pytest.mark.parametrize("name", sorted(WRITTEN_OUT))
@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp"])
def test_forms_with_a_backward_pass_of_their_own_refuse(name, transform):
    form, loss, batch = value_and_leaves(name)
    one = tuple(x[0] for x in batch)
    ask = {
        "vmap": lambda: torch.vmap(form)(*batch),
        "grad": lambda: torch.func.grad(loss)(*one),
        "jvp": lambda: torch.func.jvp(form, one, one),
    }[transform]
    with pytest.raises(RuntimeError, match=r"autograd\.Function with functorch transforms"):
        ask()


@pytest.mark.filterwarnings("ignore:There is a performance drop because:UserWarning")
def test_a_step_in_place_refuses_several_keys_for_one_state():
    """One state cannot hold the sums of several sequences; with as many states as keys, it works."""
    S, z, q, k, v = drawn(*STEP)
    S, z, q, k = S.exp(), z.exp(), q.exp(), k.exp()
    expected, *_ = A.linear_attention_step(S, z, q, k, v)
    torch.testing.assert_close(torch.vmap(fast.inplace_linear_attention_step)(S.clone(), z.clone(), q, k, v)[0], expected)
    with pytest.raises(RuntimeError, match="out-of-place"):
        torch.vmap(lambda k: fast.inplace_linear_attention_step(S[0], z[0], q[0], k, v[0]))(k)


def test_no_mechanism_is_missing():
    assert {name for name in MECHANISMS if name not in FORMS} == {"inplace_linear_attention_step"}
