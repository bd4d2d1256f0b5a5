"""What a signature says of types and shapes is refused at run time, eagerly and compiled, with and without type checkers."""

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.primitives.preconditions import shape_checked


@shape_checked("Give both whole.")
def weighted(
    x: Float[Tensor, "*batch T d"],
    y: Float[Tensor, "*batch T d"],
    W: Float[Tensor, "4*n d"] | None = None,
    mask: Bool[Tensor, "*#batch T"] | None = None,
    box: Int[Tensor, "4"] | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Broadcast wherever torch can."""
    return scale * (x * y).sum()


x, W = torch.ones(2, 3, 5), torch.ones(28, 5)
pytestmark = pytest.mark.usefixtures("unchecked")

FIT = [
    ((x, x), {}),
    ((x[0], x[0], W), {}),
    ((x, x, None, x[:1, :, 0] > 0), {"scale": 1.0}),
    ((x,), {"y": x, "box": torch.ones(4).long()}),
    ((x.double(), x.bfloat16()), {}),
    ((x[:0], x[:0]), {}),
]
MISFIT = [
    ((x, x[:1]), {}, r"needs x \(\*batch, T, d\), y .*; got x \(2, 3, 5\), y \(1, 3, 5\)\. Give both whole\."),
    ((x, x[0]), {}, r"y \(3, 5\)"),
    ((x[0, 0], x[0, 0]), {}, r"x \(5,\)"),
    ((x, x), {"W": W[1:]}, r"W \(27, 5\)"),
    ((x, x, W.mT), {}, r"W does not fit.*W \(5, 28\)"),
    ((x, x), {"box": torch.ones(3).long()}, r"box \(4\).* box \(3,\)"),
]
TYPES = [
    ((x, x.long()), "y must be .* float"),
    ((x, 1.0), "got float"),
    ((x, (x, W)), r"got tuple: pass its tensors one by one, as by `\*`\."),
]


@pytest.mark.parametrize(("arguments", "options"), FIT)
def test_what_fits_is_computed(arguments, options):
    assert weighted(*arguments, **options) == weighted.__wrapped__(*arguments, **options)


@pytest.mark.parametrize(("arguments", "options", "said"), MISFIT)
def test_what_torch_would_broadcast_or_leave_out_is_refused(arguments, options, said):
    weighted.__wrapped__(*arguments, **options)
    with pytest.raises(ValueError, match=said):
        weighted(*arguments, **options)


@pytest.mark.parametrize(("arguments", "said"), TYPES)
def test_another_type_is_refused(arguments, said):
    with pytest.raises(TypeError, match=said):
        weighted(*arguments)


def test_annotations_that_are_kept_as_text_are_checked():
    def product(x: "Float[Tensor, 'T d']", y: "Float[Tensor, 'T d']") -> "Tensor":
        return x * y

    with pytest.raises(ValueError, match=r"y \(1, 5\)"):
        shape_checked()(product)(x[0], x[0, :1])


def test_a_compiled_function_refuses_the_same_without_a_break_in_its_graph():
    compiled = torch.compile(weighted, backend="eager", fullgraph=True)
    assert compiled(x, x) == 30
    with pytest.raises(Exception, match=r"Observed exception|needs x"):
        compiled(x, x[:1])


def test_examples_are_mapped_over():
    assert torch.func.vmap(weighted)(x, x).tolist() == [15, 15]
