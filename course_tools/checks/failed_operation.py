"""The operation in which an answer crashes, with its operands: two answers that crash alike fail in the same operation.

The words of an error do not tell: "The size of tensor a (2) must match the size of tensor b (7)" is said of a key times a
value, of a value minus a key, and of a β without an axis. This module also runs inside the sandbox: it requires only torch.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_PRODUCTS = {"mm", "bmm", "mv", "linear"}
_COMMUTE = {"add", "mul"}
_SIZES = {"shape", "size"}


@dataclass(frozen=True)
class Operand:
    """What identifies a tensor, however its axes are arranged: its sizes in order, the mean and the root mean square."""

    sizes: tuple[int, ...]
    mean: float
    size: float

    def is_close(self, other: "Operand") -> bool:
        """Whether both are the same tensor up to rounding and the arrangement of its axes."""
        if self.sizes != other.sizes:
            return False
        near = 1e-3 * max(self.size, other.size) + 1e-6
        pairs = ((self.mean, other.mean), (self.size, other.size))
        return all(a == b or abs(a - b) <= near or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


@dataclass(frozen=True)
class FailedOperation:
    """A function of torch that raised an error, or that was the last one before an error of Python, and its operands."""

    name: str
    operands: tuple[Operand, ...]

    def is_same(self, other: "FailedOperation", same_words: bool) -> bool:
        """Whether two answers fail in the same operation; `same_words` says whether the texts of their errors agree.

        They need not where an operand is empty, which has no first entry and no last one.
        """
        if self.name != other.name or len(self.operands) != len(other.operands):
            return False
        if self.name in _SIZES:
            return same_words and [len(one.sizes) for one in self.operands] == [len(one.sizes) for one in other.operands]
        empty = any(0 in operand.sizes for operand in self.operands)
        pairs = [(self.operands, other.operands)] if same_words or empty or self.name == "in place" else []
        if self.name in _COMMUTE:
            pairs.append((self.operands, other.operands[::-1]))
        return any(all(map(Operand.is_close, one, two)) for one, two in pairs)


class _Recorder(TorchFunctionMode):
    """Note the operation that raises, or the latest one."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.raised = None, False

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        if not self.raised:
            self.called = (func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except Exception:
            self.raised = True
            raise


@dataclass(frozen=True)
class RaisingCall:
    """A call of torch that raised an error, or the last one before an error of Python."""

    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among its arguments."""
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]


def failed_operation(call: Callable[[], object], error: Exception) -> FailedOperation | None:
    """Repeat a call that raised `error`, and return in which operation of torch; None if that is not to be seen."""
    raising = raising_call(call, error)
    return None if raising is None else operation_of(raising, error)


def raising_call(call: Callable[[], object], error: Exception) -> RaisingCall | None:
    """Repeat a call that raised `error`, and return the call of torch that raised it; None if that is not to be seen.

    An error of Python about the number of values to unpack belongs to the latest operation: `B, T, d = x.shape`.
    """
    recorder = _Recorder()
    try:
        with recorder:
            call()
    except Exception as again:
        if type(again) is not type(error) or recorder.called is None:
            return None
    else:
        return None
    if not recorder.raised and "to unpack" not in str(error):
        return None
    func, args, kwargs = recorder.called
    return RaisingCall(_name(func), args, kwargs)


def operation_of(raising: RaisingCall, error: Exception) -> FailedOperation | None:
    """What identifies the operation that raised an error; None if an operand cannot be read, as one inside `torch.vmap`."""
    try:
        return _operation(raising, error)
    except Exception:
        return None


def _operation(raising: RaisingCall, error: Exception) -> FailedOperation:
    name, tensors = raising.name, [tensor for tensor in raising.tensors if not tensor.is_meta]
    if "in-place operation" in str(error) and tensors:  # whichever operation it is, what matters is the tensor that it changes
        return FailedOperation("in place", (_operand(tensors[0] if tensors[0]._base is None else tensors[0]._base),))
    operands = [_operand(tensor, overwritten=name == "setitem" and i == 0) for i, tensor in enumerate(tensors[:8])]
    return FailedOperation(name, tuple(operands))


def _name(func: Callable[..., object]) -> str:
    """The name of a function, method, operator or attribute of torch.

    `x @ W`, `torch.mm` and `F.linear` are the same, and so are `reshape` and `view`.
    """
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return str(getattr(func.__self__, "__name__", name))
    name = re.sub(r"^__[ri]?(add|sub|mul|matmul|truediv|pow)__$", r"\1", name).strip("_")
    return "matmul" if name in _PRODUCTS else "reshape" if name == "view" else name


@torch.no_grad()
def _operand(tensor: Tensor, overwritten: bool = False) -> Operand:
    values = tensor.detach()
    values = values.to_dense() if values.layout != torch.strided else values
    values = values.abs().double() if values.is_complex() else values.double()
    if overwritten or not values.numel():
        return Operand(tuple(sorted(tensor.shape)), 0.0, 0.0)
    return Operand(tuple(sorted(tensor.shape)), float(values.mean()), float(values.square().mean().sqrt()))
