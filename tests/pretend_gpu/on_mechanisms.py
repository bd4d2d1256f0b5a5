"""Every mechanism in every form, and the modules around them."""

from functools import partial
from inspect import unwrap

import pytest
import torch

from course_lib import attention as A
from course_lib import fast
from tests.course_lib.attention.examples import examples
from tests.moved import moved
from tests.pretend_gpu.ran import never_ran

T, d = 5, 6
EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_mechanism(name, same_there):
    example = EXAMPLES[name]
    form, inputs = moved(example.form, dtype=torch.float32), example.drawn(dtype=torch.float32)
    same_there(form, *(x.requires_grad_(example.has_gradients) for x in inputs))


IMAGES = {
    "attention over pixels": lambda: A.AttentionLayer2d(2, 3, 4),
    "local": lambda: A.LocalAttention(2, 4, 2, 3),
    "local, tiled": lambda: A.LocalAttention(2, 4, 2, 3, 1, fast.tiled_local_attention),
    "local, sliced": lambda: A.LocalAttention(2, 4, 2, 3, 2, fast.sliced_local_attention),
    "non-local": lambda: A.NonLocal(2),
    "non-local, pooled": lambda: A.NonLocal(2, pool=torch.nn.MaxPool2d(2)),
    "non-local block": lambda: A.NonLocalBlock(2, A.NonLocal(2)).eval(),
    "co-occurrent": lambda: A.CoOccurrent(2, 4, 3),
}


@pytest.mark.parametrize("name", IMAGES)
def test_over_images(name, same_there):
    torch.manual_seed(0)
    same_there(IMAGES[name](), torch.randn(2, 2, 5, 6, requires_grad=True))


HEADS = {
    "scaled": A.scaled_dot_product_attention,
    "fused": fast.fused_scaled_dot_product_attention,
    "causal": A.causal_attention,
    "fused causal": fast.fused_causal_attention,
    "linear": A.LinearAttention(),
    "causal linear": A.LinearAttention(mix=fast.chunked_linear_attention),
    "lean causal linear": fast.lean_linear_attention,
    "performer": A.PerformerAttention(2, 7, generator=torch.Generator().manual_seed(0)),
    "general": A.GeneralAttention(2, 2),
    "relative": A.RelativeAttention(d, 3),
    "local-p": A.LocalPredictive(2, 2),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("masked", [False, True])
def test_in_several_heads_under_a_mask(name, masked, same_there):
    torch.manual_seed(0)
    heads = A.MultiHead(d, 3, HEADS[name])
    x = torch.randn(2, T, d, requires_grad=True)
    mask = (torch.arange(T) < torch.tensor([5, 3])[:, None])[:, None] if masked else None
    same_there(lambda heads, x, mask: heads(x, x, x, mask).context, heads, x, mask)


@pytest.mark.parametrize("make", [A.GraphAttention, A.DynamicGraphAttention])
@pytest.mark.parametrize("form", [A.attend_edges, fast.csr_attend_edges])
def test_over_the_edges_of_a_graph(make, form, same_there):
    """`csr_attend_edges` has sparse products in both passes."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 0, 1, 3, 3, 2, 4], [1, 2, 0, 0, 1, 2, 3]])
    same_there(make(3, d, form), torch.randn(2, 3, T, d, requires_grad=True), edges)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", [A.linear_attention, fast.chunked_linear_attention, A.causal_linear_attention])
def test_sums_are_float32_under_autocast(form, dtype, device):
    """Each form leaves the autocast of its own device, not of the CPU or of CUDA."""
    phi_q, phi_k, v = (200 * torch.rand(1, 300, 17, device=device) for _ in range(3))
    with torch.autocast(device.type, dtype):
        context = form(phi_q, phi_k, v)
    torch.testing.assert_close(context.cpu(), form(phi_q, phi_k, v).cpu())


def real(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


EDGES = torch.tensor([[0, 0, 1, 3, 3, 2, 4], [1, 2, 0, 0, 1, 2, 3]])
STATE = [real(2, 3).detach(), real(2).exp().detach(), *(real(2).exp().detach() for _ in range(2)), real(3).detach()]
KEPT = (real(2, T, d).detach(), real(2, T).detach(), real(2, T).exp().detach())
OTHERS = {
    "step in place": (lambda *state: fast.inplace_linear_attention_step(*(x.clone() for x in state)), *STATE),
    "scores of all pairs of nodes": (A.gat_scores, real(2, 3, T, d), real(3, 2 * d)),
    "averaged heads of a graph": (
        partial(A.multi_head_graph_attention, combine=A.average_heads),
        *(real(2, T, d), real(3 * 2, d), real(3, 4), EDGES),
    ),
    "cache of a window": (
        lambda k, v, speeds: A.windowed_cache(A.KeysValues(k, v), speeds, 3, 1),
        *(real(2, 3, T, d), real(2, 3, T, d), A.rotary_speeds(d)),
    ),
    "tiles, as a loop": (partial(unwrap(A.tiled_attention), tile=2), *(real(2, T, d) for _ in range(3))),
    "gradients of tiles": (partial(A.tiled_gradients, tile=2), *(real(2, T, d) for _ in range(3)), KEPT, real(2, T, d)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_form(name, same_there):
    form, *inputs = OTHERS[name]
    same_there(form, *inputs)


def test_a_cache_in_pages(same_there):
    def extended_twice(k: torch.Tensor, v: torch.Tensor) -> A.KeysValues:
        cache = A.PagedCache(n_pages=11, size=2, n_heads=3, d_k=d, device=k.device)
        common = cache.extend(A.PageTable(), k, v)
        cache.extend(cache.shared(common), v, k)
        return cache.read(cache.extend(common, k, v))

    same_there(extended_twice, real(3, T, d).detach(), real(3, T, d).neg().detach())


def test_every_public_mechanism_ran_here():
    assert never_ran(A) == set()
    for module in (
        fast.dot_product,
        fast.edge_attention,
        fast.linear,
        fast.local,
        fast.non_local,
        fast.performer,
    ):
        assert never_ran(module) == set()
