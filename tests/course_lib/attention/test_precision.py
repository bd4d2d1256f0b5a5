"""Every mechanism in float32 and bfloat16, on the CPU and on a GPU: values and gradients differ from float64 by rounding."""

import pytest
import torch

from tests.course_lib.attention.examples import examples
from tests.moved import moved

EXAMPLES = {name: example for name, example in examples().items() if example.has_gradients}
CASES = [pytest.param(name, False, id=name) for name in EXAMPLES]
CASES += [pytest.param(name, True, id=f"{name} masked") for name, example in EXAMPLES.items() if example.mask]

each_mechanism = pytest.mark.parametrize(("name", "masked"), CASES)
each_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def values_and_gradients(form, drawn, mask, dtype, device):
    inputs = [t.detach().to(device, dtype).requires_grad_() for t in drawn]
    out = moved(form, device, dtype)(*inputs, **({} if mask is None else {"mask": mask.to(device)}))
    values = [t for t in (out if isinstance(out, tuple) else (out,)) if t is not None]
    assert all(t.dtype == dtype and t.device.type == device for t in values)
    smooth = [t for t in values if t.requires_grad]
    pulls = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).view(t.shape).to(device, dtype) for t in smooth]
    gradients = torch.autograd.grad(smooth, inputs, pulls, allow_unused=True, materialize_grads=True)
    return [t.detach().cpu().double() for t in (*values, *gradients)]


def assert_only_rounding(name, masked, dtype, device):
    """Both receive the same rounded numbers; they may differ by a few rounding units of the largest one."""
    example, mask = EXAMPLES[name], None
    if masked:
        mask = torch.rand(example.mask, generator=torch.Generator().manual_seed(1)) < 0.6
        mask[:, 0] = True
        mask[2:3] = False
    form, drawn = moved(example.form, dtype=dtype), example.drawn(scale=0.5, dtype=dtype)
    there = values_and_gradients(form, drawn, mask, dtype, device)
    exact = values_and_gradients(form, drawn, mask, torch.float64, "cpu")
    unit = torch.finfo(dtype).eps * max(t.abs().max().item() for t in exact)
    assert all(t.isfinite().all() for t in there)
    torch.testing.assert_close(there, exact, rtol=0, atol=8 * unit)


@each_precision
@each_mechanism
def test_low_precision_costs_no_more_than_its_rounding(name, masked, dtype):
    assert_only_rounding(name, masked, dtype, "cpu")


@pytest.mark.gpu
@each_precision
@each_mechanism
def test_a_gpu_computes_the_same(name, masked, dtype):
    assert_only_rounding(name, masked, dtype, "cuda")
