"""torch.func (vmap, grad, jvp), the meta device and torch.export on every mechanism: the right numbers."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from course_lib import attention as A
from course_lib import fast
from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from tests.course_lib.attention.examples import Example, examples
from tests.moved import moved

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by torch, in jvp
N = 3
MECHANISMS = examples()
FORMS = {name: example for name, example in MECHANISMS.items() if example.has_gradients} | {
    "nt_xent": Example(partial(nt_xent, temperature=0.5), ((5, 4), (5, 4))),
    "lean_nt_xent": Example(partial(lean_nt_xent, temperature=0.5), ((64, 4), (64, 4))),
}

NOT_EXPORTED = {"csr_attend_edges"}
"""torch.export cannot trace a sparse tensor whose size follows from the values of the edges."""


def context_of(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def value_and_leaves(name):
    """The context as a function of the inputs, a scalar of it, and inputs with a leading axis of N."""
    form, (one, *others) = moved(FORMS[name].form, dtype=torch.float64), (FORMS[name].drawn(seed=seed) for seed in range(N))
    batch = tuple(torch.stack(each) for each in zip(one, *others, strict=True))
    return (lambda *x: context_of(form(*x))), (lambda *x: context_of(form(*x)).square().sum()), batch


def gradients(loss, x, **how):
    leaves = [each.clone().requires_grad_() for each in x]
    return torch.autograd.grad(loss(*leaves), leaves, **how), leaves


@pytest.mark.filterwarnings("ignore:There is a performance drop because:UserWarning")
@pytest.mark.parametrize("name", FORMS)
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


@pytest.mark.filterwarnings("ignore:There is a performance drop because:UserWarning")
def test_a_step_in_place_refuses_several_keys_for_one_state():
    """One state cannot hold the sums of several sequences; with as many states as keys, it works."""
    S, z, q, k, v = Example(A.linear_attention_step, ((2, 11), (2,), (2,), (2,), (11,))).drawn(N)
    S, z, q, k = S.exp(), z.exp(), q.exp(), k.exp()
    expected, *_ = A.linear_attention_step(S, z, q, k, v)
    torch.testing.assert_close(torch.vmap(fast.inplace_linear_attention_step)(S.clone(), z.clone(), q, k, v)[0], expected)
    with pytest.raises(RuntimeError, match="out-of-place"):
        torch.vmap(lambda k: fast.inplace_linear_attention_step(S[0], z[0], q[0], k, v[0]))(k)


def tensors(result):
    return [x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize("name", MECHANISMS)
def test_on_the_meta_device_shapes_and_types_are_those_of_real_tensors(name):
    form, inputs = moved(MECHANISMS[name].form, dtype=torch.float32), MECHANISMS[name].drawn(dtype=torch.float32)
    wanted = tensors(form(*inputs))
    found = tensors(moved(form, "meta")(*moved(inputs, "meta")))
    assert [(x.device.type, x.shape, x.dtype) for x in found] == [("meta", x.shape, x.dtype) for x in wanted]


class Exported(nn.Module):
    """A form as a module, which is what torch.export takes."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, *inputs):
        return tensors(self.form(*inputs))


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in NOT_EXPORTED])
def test_an_exported_mechanism_computes_the_same(name):
    form, inputs = moved(MECHANISMS[name].form, dtype=torch.float64), tuple(MECHANISMS[name].drawn())
    program = torch.export.export(Exported(form), inputs, strict=False).module()
    torch.testing.assert_close(program(*inputs), tensors(form(*inputs)))


READ_SHAPES = {"linear_attention_step", "inplace_linear_attention_step", "local_m_attention", "local_p_attention"}
READ_SHAPES |= {"gated_step", "gated_linear_attention", "decay_mask", "retention", "ssd"}
READ_SHAPES |= {"delta_rule_step", "delta_attention", "chunked_delta_attention"}
"""Examples that themselves read their inputs, or compute gates from them."""


@pytest.mark.parametrize("convert", [Tensor.tolist, Tensor.numpy], ids=["list", "ndarray"])
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in READ_SHAPES])
def test_lists_and_arrays_are_refused_with_the_types_that_are_needed(unchecked, name, convert):
    example = MECHANISMS[name]
    inputs, n_items = example.drawn(dtype=torch.float32), len(example.items)
    items = [convert(x) for x in inputs[:n_items]]
    with pytest.raises(TypeError, match=r"[Tt]ensor") as refusal:
        moved(example.form, dtype=torch.float32)(*items, *inputs[n_items:])
    assert type(items[0]).__name__ in str(refusal.value)
