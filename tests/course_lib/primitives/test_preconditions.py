"""A precondition sees the arguments of its function, by position or by name, before the function does."""

import inspect

import pytest
import torch

from course_lib.attention import MultiHead, RotaryAttention, attend, causal_attention, scaled_dot_product_attention
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.primitives.preconditions import requires


def _positive(x: float, scale: float = 1.0) -> None:
    if x * scale <= 0:
        raise ValueError(f"{x} times {scale} is not positive")


@requires(_positive)
def root(x: float, scale: float = 1.0) -> float:
    """Return the root of a positive number."""
    return (x * scale) ** 0.5


@pytest.mark.parametrize("call", [lambda: root(4.0, 0.25), lambda: root(4.0, scale=0.25), lambda: root(scale=0.25, x=4.0)])
def test_what_fits_is_computed(call):
    assert call() == 1.0


@pytest.mark.parametrize("call", [lambda: root(4.0, -1.0), lambda: root(x=-4.0), lambda: root(4.0, scale=0.0)])
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(ValueError, match="not positive"):
        call()


@pytest.mark.parametrize(("call", "wrong"), [(lambda: root(), "'x'"), (lambda: root(4.0, by=2.0), "'by'")])
def test_a_call_that_does_not_fit_names_the_function(call, wrong):
    with pytest.raises(TypeError, match=f"^root: .*{wrong}"):
        call()


def test_the_function_keeps_its_name_signature_and_docstring():
    assert (root.__name__, root.__doc__) == ("root", "Return the root of a positive number.")
    assert list(inspect.signature(root).parameters) == ["x", "scale"]


Q, K = torch.zeros(2, 5, 8), torch.zeros(2, 7, 8)
cases = pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda form: form(Q, K[..., :6], K), ("q (2, 5, 8)", "k (2, 7, 6)")),
        (lambda form: form(Q.half(), K, v=K), ("q (2, 5, 8) torch.float16 cpu", "v (2, 7, 8) torch.float32 cpu")),
        (lambda form: form(Q.long(), K.long(), K.long()), ("q (2, 5, 8) torch.int64",)),
    ],
)


@cases
@pytest.mark.parametrize("form", [scaled_dot_product_attention, causal_attention, fused_scaled_dot_product_attention])
def test_a_note_under_an_error_of_torch_says_what_the_tensors_are(form, call, names, unchecked):
    with pytest.raises(RuntimeError) as refusal:
        call(form)
    note = refusal.value.__notes__[-1]
    assert note.startswith(f"{form.__name__} got ")
    assert all(each in note for each in names)


def test_heads_that_no_mechanism_groups_are_named(unchecked):
    x = torch.zeros(2, 5, 8)
    with pytest.raises(RuntimeError) as refusal:
        MultiHead(8, 4, causal_attention, n_groups=2)(x, x, x)
    assert "q (2, 4, 5, 2) torch.float32 cpu, k (2, 2, 5, 2)" in refusal.value.__notes__[0]


def test_a_list_is_refused_by_the_name_that_was_called(unchecked):
    for call, name in ((RotaryAttention(8), "RotaryAttention.forward"), (attend, "attend")):
        with pytest.raises(TypeError, match=f"{name} needs tensors, got a list"):
            call([[0.0]], [[0.0]], [[0.0]])
