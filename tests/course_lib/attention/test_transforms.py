"""torch.func (vmap, grad, jvp) over every mechanism, in every form: the right numbers, or a clear error."""

from functools import partial

import pytest
import torch

from course_lib import attention as A
from course_lib.losses import lean_nt_xent, nt_xent
from course_lib.primitives import elu_feature_map

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
FORMS = {
    "attend": (A.attend, [(T, T_k), (T_k, d_v)]),
    "scaled": (A.scaled_dot_product_attention, CROSS),
    "fused scaled": (A.fused_scaled_dot_product_attention, CROSS),
    "causal": (A.causal_attention, OWN),
    "fused causal": (A.fused_causal_attention, OWN),
    "dot": (A.dot_attention, CROSS),
    "fused dot": (A.fused_dot_attention, CROSS),
    "general": (module(lambda: A.GeneralAttention(d, d)), CROSS),
    "additive": (module(lambda: A.AdditiveAttention(d, d, 6)), CROSS),
    "concat": (module(lambda: A.ConcatAttention(d, d, 6)), CROSS),
    "local-m": (lambda q, k, v: A.local_m_attention(q, k, v, torch.arange(1.0, T + 1).to(q), 2), CROSS),
    "local-p": (module(lambda: A.LocalPredictive(d, 2)), CROSS),
    "relative": (A.relative_attention, RELATIVE),
    "shifted relative": (A.shifted_relative_attention, RELATIVE),
    "kernel": (features(A.kernel_attention), CROSS),
    "linear": (features(A.linear_attention), CROSS),
    "prefix sums": (features(A.causal_linear_attention), OWN),
    "chunked": (features(partial(A.chunked_linear_attention, chunk=2)), OWN),
    "recurrent": (features(A.recurrent_linear_attention), OWN),
    "linear step": (lambda S, z, q, k, v: A.linear_attention_step(S, z.exp(), q.exp(), k.exp(), v), STEP),
    "performer": (partial(A.performer_attention, omega=OMEGA), CROSS),
    "causal performer": (partial(A.causal_performer_attention, omega=OMEGA), OWN),
    "lean linear": (partial(A.lean_linear_attention, chunk=2), OWN),
    "lean performer": (partial(A.lean_performer_attention, omega=OMEGA, chunk=2), OWN),
    "local": (A.local_attention, LOCAL),
    "sliced local": (A.sliced_local_attention, LOCAL),
    "tiled local": (A.tiled_local_attention, LOCAL),
    "non-local dot": (A.non_local_dot_product, CROSS),
    "associative": (A.associative_dot_product, CROSS),
    "non-local gaussian": (A.non_local_gaussian, [(T, d), (T, d)]),
    "embedded gaussian": (A.non_local_embedded_gaussian, MAP),
    "fused embedded gaussian": (A.fused_embedded_gaussian, MAP),
    "edges": (partial(A.attend_edges, edges=EDGES), OVER_EDGES),
    "dense edges": (partial(A.dense_attend_edges, edges=EDGES), OVER_EDGES),
    "csr edges": (partial(A.csr_attend_edges, edges=EDGES), OVER_EDGES),
    "NT-Xent": (partial(nt_xent, temperature=0.5), [(T, d), (T, d)]),
    "lean NT-Xent": (partial(lean_nt_xent, temperature=0.5), [(T, d), (T, d)]),
}
WRITTEN_OUT = {"chunked", "causal performer", "lean linear", "lean performer", "csr edges", "lean NT-Xent"}
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
