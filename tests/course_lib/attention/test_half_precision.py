"""Every mechanism in float16 and bfloat16 at d = 64: context and weights are those of float32 up to rounding."""

from inspect import isroutine
from pkgutil import iter_modules

import pytest
import torch
from torch import Tensor, nn

from course_lib import attention as A
from course_lib import fast
from tests.course_lib.attention.examples import PARTS, Sizes, examples
from tests.moved import moved
from tests.public_names import public_names

D = 64
SHORT, LONG = (examples(Sizes(T, T, D, D, (64, 64))) for T in (512, 4096))
CASES = [pytest.param(example, id=f"{name}-512") for name, example in SHORT.items()]
CASES += [
    pytest.param(example, id=f"{name}-4096", marks=pytest.mark.full) for name, example in LONG.items() if not example.per_pair
]
"""With a vector for each pair, T = 4,096 would need 4 GiB and about 10 s."""


def context_and_weights(result: object) -> list[Tensor]:
    found = result[:2] if isinstance(result, tuple) else [result]
    return [x for x in found if x is not None]


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("example", CASES)
def test_half_precision_costs_a_few_roundings(example, dtype):
    """The inputs and parameters of the comparison in float32 are the rounded ones."""
    form, inputs = moved(example.form, dtype=dtype), example.drawn(dtype=dtype)
    found = context_and_weights(form(*inputs))
    exact = context_and_weights(moved(form, dtype=torch.float32)(*(x.float() for x in inputs)))
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
    mechanism = {name for name, x in found.items() if isroutine(x) or (isinstance(x, type) and issubclass(x, nn.Module))}
    missing = mechanism - {*SHORT, *PARTS}
    where = "tests/course_lib/attention/examples.py"
    assert not missing, f"{where} needs an example of {missing} in `examples`, or its name in `PARTS` if it is no mechanism."
    assert {*SHORT, *PARTS} <= mechanism
