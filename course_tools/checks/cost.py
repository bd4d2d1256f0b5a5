"""Count what an answer computes, in operations and never in seconds, so that a busy machine does not affect a verdict.

This module also runs inside the sandbox: it requires only torch.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

_LOOK_UPS = {"index", "index_select", "gather", "embedding", "take", "index_put", "index_put_", "index_copy_", "scatter_"}
"""Operations that read or write a few places of their first argument, whatever its size."""


@dataclass(frozen=True)
class Cost:
    """The operations of a call, the shape of the largest tensor that it made, and how many kernels it ran.

    An operation is a multiply-add of a product of matrices, a convolution or fused attention. Any other kernel takes as many as
    it reads or writes numbers, whichever are more. A view is no kernel, and what NumPy or Python compute is not seen. `held` is
    how many numbers were at most in memory at one time, of those that the call made.
    """

    operations: int = 0
    largest: tuple[int, ...] = field(default=(0,))
    kernels: int = 0
    held: int = 0


class CostCounter(TorchDispatchMode):
    """While active, count what this thread computes with torch: `with CostCounter() as counter: …; counter.cost`."""

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self.cost = Cost()
        self._held = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch not to load its compiler for the first kernel, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        """Run one kernel and add its cost."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not func.is_view:
            made = [] if torch.Tag.inplace in func.tags else _tensors(result)
            for tensor in made:
                self._hold(tensor)
            self.cost = Cost(
                self.cost.operations + _operations(func, args, kwargs, result, made),
                max([self.cost.largest, *(tuple(t.shape) for t in made)], key=math.prod),
                self.cost.kernels + 1,
                max(self.cost.held, self._held),
            )
        return result

    def _hold(self, tensor: Tensor) -> None:
        """Count the numbers of a new tensor until its memory is freed, which a view of it prevents."""
        if tensor.layout == torch.strided:
            self._held += tensor.numel()
            weakref.finalize(tensor.untyped_storage(), self._free, tensor.numel()).atexit = False

    def _free(self, n: int) -> None:
        self._held -= n


def _operations(func: Callable[..., object], args: tuple, kwargs: dict, result: object, made: list[Tensor]) -> int:
    kernel = func._overloadpacket
    if kernel in flop_registry:
        return flop_registry[kernel](*args, **kwargs, out_val=result) // 2
    if kernel is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu:
        (q, k, v), T_q = args[:3], args[0].shape[-2]
        return q.numel() * k.shape[-2] + T_q * v.numel()
    given = _tensors(args[1:] if kernel.__name__ in _LOOK_UPS else args)
    return max((t.numel() for t in (*given, *made)), default=0)


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
